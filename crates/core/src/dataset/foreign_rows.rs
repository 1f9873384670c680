//! Rows that somebody else encodes, a block at a time: by a chat template that is a program.

use super::{Encoded, HeldOut, Tally};
use crate::chat::Reason;
use crate::encode::Id;
use crate::error::{Error, Result};
use crate::source::{BlockStats, OnError, Prepared, SKIPPED_SHOWN};

/// Called by several threads at once.
pub trait ForeignRows: Sync {
    fn encode(&self, rows: &[&[u8]]) -> Result<ForeignBatch>;
}

/// What rows became.
pub struct ForeignBatch {
    pub ids: Vec<u32>,
    pub mask: Vec<u8>,
    /// One after another in `ids`.
    pub documents: Vec<ForeignDocument>,
    pub skipped: Vec<ForeignSkip>,
    pub truncated: u64,
    pub replaced_sequences: u64,
    /// As in [`Tally`].
    pub lookalikes: Vec<u64>,
}

pub struct ForeignDocument {
    pub row: usize,
    pub tokens: usize,
    pub text_bytes: u64,
}

pub struct ForeignSkip {
    pub row: usize,
    /// `None` for a row that cannot be read: an error, or skipped and counted.
    pub reason: Option<Reason>,
    pub detail: String,
}

/// One thread at it.
pub struct ForeignHands<'a> {
    pub rows: &'a dyn ForeignRows,
    pub on_error: OnError,
    pub vocab_size: usize,
    pub tally: Tally,
}

impl ForeignHands<'_> {
    /// Append what the rows of `block` become, each to the part that `held_out` chooses.
    pub fn encode<I: Id>(
        &mut self,
        block: &Prepared,
        number: u64,
        held_out: Option<HeldOut>,
        parts: &mut [Encoded<I>],
        stats: &mut BlockStats,
    ) -> Result<()> {
        let rows: Vec<&[u8]> = block.documents().map(|(row, _, _)| row).collect();
        let batch = self.rows.encode(&rows)?;
        self.require_sound(&batch, rows.len())?;
        stats.replaced_sequences += batch.replaced_sequences;
        for skip in &batch.skipped {
            self.skip(skip, block, number, stats)?;
        }
        let mut start = 0;
        for document in &batch.documents {
            let end = start + document.tokens;
            let second = held_out.is_some_and(|held_out| held_out.takes(rows[document.row]));
            let part = &mut parts[usize::from(second)];
            part.ids.extend(batch.ids[start..end].iter().map(|&id| I::new(id)));
            part.mask.extend_from_slice(&batch.mask[start..end]);
            part.ends.push((part.ids.len(), document.text_bytes));
            start = end;
        }
        let met = Tally { lookalikes: batch.lookalikes, truncated: batch.truncated, ..Tally::default() };
        self.tally.add(&met);
        Ok(())
    }

    fn skip(
        &mut self,
        skip: &ForeignSkip,
        block: &Prepared,
        number: u64,
        stats: &mut BlockStats,
    ) -> Result<()> {
        let message = match skip.reason {
            Some(reason) => {
                self.tally.leave_out(reason);
                format!("is left out ({}): {}", reason.name(), skip.detail)
            }
            None if self.on_error == OnError::Fail => {
                return Err(Error::source(block.about(skip.row, &skip.detail)));
            }
            None => {
                stats.skipped_records += 1;
                skip.detail.clone()
            }
        };
        if stats.skipped.len() < SKIPPED_SHOWN {
            stats.skipped.push((number, skip.row as u64, block.about(skip.row, &message)));
        }
        Ok(())
    }

    /// What comes from outside is not trusted with files.
    fn require_sound(&self, batch: &ForeignBatch, num_rows: usize) -> Result<()> {
        let tokens: usize = batch.documents.iter().map(|document| document.tokens).sum();
        let rows = (batch.documents.iter().map(|document| document.row))
            .chain(batch.skipped.iter().map(|skip| skip.row));
        let sound = tokens == batch.ids.len()
            && tokens == batch.mask.len()
            && rows.into_iter().all(|row| row < num_rows)
            && batch.documents.is_sorted_by_key(|document| document.row)
            && batch.ids.iter().all(|&id| (id as usize) < self.vocab_size);
        if sound {
            Ok(())
        } else {
            Err(Error::config("rows were encoded to arrays that do not fit together"))
        }
    }
}
