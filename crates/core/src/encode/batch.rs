//! Many texts, or one long one, on several threads: cut where no pretoken and no special token can be hurt, encoded
//! side by side, put together in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Bpe, Id, Rules, TokenCount};
use crate::count::Watch;
use crate::error::{Error, Result};

/// Bytes that one thread takes at a time: enough to make the taking cheap, little enough to spread the work.
const UNIT: usize = 1 << 18;

/// The ids of several texts, and where each text's ids end.
pub struct Batch<I> {
    pub ids: Vec<I>,
    pub ends: Vec<usize>,
}

/// A part of one text that can be encoded alone.
#[derive(Clone, Copy)]
struct Piece {
    text: usize,
    start: usize,
    end: usize,
}

impl Bpe {
    /// The ids of `texts`; an error names the text it is in. The result does not depend on `threads`.
    pub fn encode_batch<I: Id>(
        &self,
        texts: &[&[u8]],
        rules: &Rules,
        threads: usize,
        watch: &Watch,
    ) -> Result<Batch<I>> {
        let total: usize = texts.iter().map(|text| text.len()).sum();
        let mut batch = Batch { ids: Vec::new(), ends: Vec::with_capacity(texts.len()) };
        if threads <= 1 || total <= UNIT {
            // Most text has a token every four bytes. Room that is not used is never touched.
            batch.ids.reserve(total / 4 + 16);
            let mut scratch = self.take_scratch();
            for (index, text) in texts.iter().enumerate() {
                let end = text.len();
                self.encode_range(&mut scratch, text, 0, end, rules, &mut batch.ids, watch)
                    .map_err(|error| in_text(error, index, texts.len()))?;
                batch.ends.push(batch.ids.len());
            }
            self.keep_scratch(scratch);
            return Ok(batch);
        }
        let units = self.units(texts);
        let encoded = self.encode_units::<I>(texts, &units, rules, threads, watch)?;
        batch.ids.reserve_exact(encoded.iter().map(|part| part.ids.len()).sum());
        let mut ends = vec![0; texts.len()];
        for (unit, part) in units.iter().zip(encoded) {
            for (piece, end) in unit.iter().zip(&part.ends) {
                ends[piece.text] = batch.ids.len() + end;
            }
            batch.ids.extend_from_slice(&part.ids);
        }
        // An empty text has no piece: it ends where the one before it does.
        let mut last = 0;
        for end in ends {
            last = last.max(end);
            batch.ends.push(last);
        }
        Ok(batch)
    }

    /// The number of ids of `text`, without keeping any.
    pub fn count(&self, text: &[u8], rules: &Rules, threads: usize, watch: &Watch) -> Result<usize> {
        if threads <= 1 || text.len() <= UNIT {
            let mut count = TokenCount::default();
            self.encode(text, rules, &mut count, watch)?;
            return Ok(count.0);
        }
        let units = self.units(&[text]);
        let counted = self.for_each_unit(&units, threads, |scratch, unit| {
            let mut count = TokenCount::default();
            for piece in unit {
                self.encode_range(scratch, text, piece.start, piece.end, rules, &mut count, watch)?;
            }
            Ok(count.0)
        })?;
        Ok(counted.into_iter().sum())
    }

    fn encode_units<I: Id>(
        &self,
        texts: &[&[u8]],
        units: &[Vec<Piece>],
        rules: &Rules,
        threads: usize,
        watch: &Watch,
    ) -> Result<Vec<Batch<I>>> {
        self.for_each_unit(units, threads, |scratch, unit| {
            let bytes: usize = unit.iter().map(|piece| piece.end - piece.start).sum();
            let mut part =
                Batch { ids: Vec::with_capacity(bytes / 4 + 16), ends: Vec::with_capacity(unit.len()) };
            for &Piece { text, start, end } in unit {
                self.encode_range(scratch, texts[text], start, end, rules, &mut part.ids, watch)
                    .map_err(|error| in_text(error, text, texts.len()))?;
                part.ends.push(part.ids.len());
            }
            Ok(part)
        })
    }

    /// `work` on every unit, in any order, on several threads: the results in order, or the error of the first unit
    /// that has one.
    fn for_each_unit<T: Send>(
        &self,
        units: &[Vec<Piece>],
        threads: usize,
        work: impl Fn(&mut super::Scratch, &[Piece]) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let next = AtomicUsize::new(0);
        let failed_at = AtomicUsize::new(usize::MAX);
        let slots: Vec<Mutex<Option<Result<T>>>> = units.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..threads.min(units.len()) {
                scope.spawn(|| {
                    let mut scratch = self.take_scratch();
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        if index >= units.len() || index > failed_at.load(Ordering::Relaxed) {
                            break;
                        }
                        let result = work(&mut scratch, &units[index]);
                        if result.is_err() {
                            failed_at.fetch_min(index, Ordering::Relaxed);
                        }
                        *slots[index].lock().expect("one thread has this slot") = Some(result);
                    }
                    self.keep_scratch(scratch);
                });
            }
        });
        let mut results = Vec::with_capacity(units.len());
        for slot in slots {
            match slot.into_inner().expect("no thread panics holding it") {
                Some(result) => results.push(result?),
                None => break,
            }
        }
        Ok(results)
    }

    /// Texts, long ones in pieces, in units of about [`UNIT`] bytes. Empty texts are left out.
    fn units(&self, texts: &[&[u8]]) -> Vec<Vec<Piece>> {
        let mut units = vec![Vec::new()];
        let mut bytes = 0;
        for (index, text) in texts.iter().enumerate() {
            let mut start = 0;
            while start < text.len() {
                let end = self.piece_end(text, start);
                if bytes >= UNIT {
                    units.push(Vec::new());
                    bytes = 0;
                }
                bytes += end - start;
                units.last_mut().expect("there is one").push(Piece { text: index, start, end });
                start = end;
            }
        }
        units
    }

    fn piece_end(&self, text: &[u8], start: usize) -> usize {
        let mut window = UNIT;
        let mut from = start;
        loop {
            let end = start.saturating_add(window);
            if end.saturating_add(UNIT / 2) >= text.len() {
                return text.len();
            }
            if let Some(cut) = self.last_cut(&text[..end], from) {
                return cut;
            }
            from = self.splitter.uncertain_from(end).max(start);
            window = window.saturating_mul(2);
        }
    }
}

/// The error of one text of a batch says which; that of a text alone needs not.
fn in_text(error: Error, index: usize, texts: usize) -> Error {
    if texts == 1 { error } else { error.at(&format!("text {index}")) }
}
