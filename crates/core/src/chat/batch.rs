//! Many rows on several threads, put together in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{ChatEncoder, Document, Outcome};
use crate::count::Watch;
use crate::encode::Id;
use crate::error::{Error, Result};

/// Bytes of rows that one thread takes at a time.
const UNIT: usize = 1 << 18;

/// A row that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRow {
    pub row: usize,
    /// The name of its [`super::Reason`], or `unreadable` for an error.
    pub reason: &'static str,
    pub detail: String,
}

/// What rows became. `documents[i]` is of row `rows[i]`.
pub struct RowBatch<I> {
    pub ids: Vec<I>,
    pub mask: Vec<u8>,
    pub documents: Vec<Document>,
    pub rows: Vec<usize>,
    pub skipped: Vec<SkippedRow>,
    /// For each special token of the vocab, how often it stood in a content as text.
    pub lookalikes: Vec<u64>,
}

impl ChatEncoder {
    /// The ids of `rows`; an error names the row it is in, or with `skip_errors` is one more reason to leave a row out.
    /// The result does not depend on `threads`.
    pub fn encode_rows<I: Id>(
        &self,
        rows: &[&[u8]],
        skip_errors: bool,
        threads: usize,
        watch: &Watch,
    ) -> Result<RowBatch<I>> {
        let units = units(rows);
        let next = AtomicUsize::new(0);
        let slots: Vec<Mutex<Option<Result<RowBatch<I>>>>> = units.iter().map(|_| Mutex::new(None)).collect();
        let failed = AtomicUsize::new(usize::MAX);
        let work = || loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= units.len() || index > failed.load(Ordering::Relaxed) {
                return;
            }
            let (start, end) = units[index];
            let result = self.encode_unit(rows, start, end, skip_errors, watch);
            if result.is_err() {
                failed.fetch_min(index, Ordering::Relaxed);
            }
            *slots[index].lock().expect("one thread has this slot") = Some(result);
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(units.len()) {
                scope.spawn(work);
            }
            work();
        });
        let mut all = RowBatch {
            ids: Vec::new(),
            mask: Vec::new(),
            documents: Vec::new(),
            rows: Vec::new(),
            skipped: Vec::new(),
            lookalikes: vec![0; self.bpe.vocab().special_tokens().len()],
        };
        for slot in slots {
            let Some(unit) = slot.into_inner().expect("no thread panics holding it") else { break };
            let unit = unit?;
            if all.ids.is_empty() && all.skipped.is_empty() {
                all = unit;
                continue;
            }
            all.ids.extend_from_slice(&unit.ids);
            all.mask.extend_from_slice(&unit.mask);
            all.documents.extend(unit.documents);
            all.rows.extend(unit.rows);
            all.skipped.extend(unit.skipped);
            all.lookalikes.iter_mut().zip(unit.lookalikes).for_each(|(sum, more)| *sum += more);
        }
        Ok(all)
    }

    fn encode_unit<I: Id>(
        &self,
        rows: &[&[u8]],
        start: usize,
        end: usize,
        skip_errors: bool,
        watch: &Watch,
    ) -> Result<RowBatch<I>> {
        let mut worker = self.worker();
        let bytes: usize = rows[start..end].iter().map(|row| row.len()).sum();
        let (mut ids, mut mask) = (Vec::with_capacity(bytes / 4 + 16), Vec::with_capacity(bytes / 4 + 16));
        let (mut documents, mut of_rows, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for (row, &text) in rows.iter().enumerate().take(end).skip(start) {
            if watch.cancelled() {
                return Err(Error::Cancelled);
            }
            match worker.encode_row(text, &mut ids, &mut mask, watch) {
                Ok(Outcome::Encoded(first, second)) => {
                    for document in std::iter::once(first).chain(second) {
                        documents.push(document);
                        of_rows.push(row);
                    }
                }
                Ok(Outcome::Skipped(reason, detail)) => {
                    skipped.push(SkippedRow { row, reason: reason.name(), detail });
                }
                Err(error @ Error::Source { .. }) if skip_errors => {
                    let message = error.to_string();
                    let detail = message.split("\nhint: ").next().unwrap_or(&message).to_owned();
                    skipped.push(SkippedRow { row, reason: "unreadable", detail });
                }
                Err(error) => return Err(error.at(&format!("row {row}"))),
            }
        }
        let lookalikes = std::mem::take(&mut worker.lookalikes);
        Ok(RowBatch { ids, mask, documents, rows: of_rows, skipped, lookalikes })
    }
}

/// Rows in runs of about [`UNIT`] bytes, as (first, one after the last).
fn units(rows: &[&[u8]]) -> Vec<(usize, usize)> {
    let (mut units, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, row) in rows.iter().enumerate() {
        bytes += row.len();
        if bytes >= UNIT {
            units.push((start, index + 1));
            (start, bytes) = (index + 1, 0);
        }
    }
    if start < rows.len() {
        units.push((start, rows.len()));
    }
    units
}
