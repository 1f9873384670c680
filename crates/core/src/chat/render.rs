//! Turns in, ids and a mask out.
//!
//! The mask is made as the ids are: whoever puts an id down knows whether it is trained on. Contents are encoded as
//! ordinary text, together with literal text of the template that touches them, so the ids are those that a tokenizer
//! gives the rendered text, but for special tokens that somebody wrote into a content.

use super::row::{Row, Turn};
use super::template::{Piece, Template};
use crate::count::Watch;
use crate::encode::{Bpe, Id, Rules, Worker};
use crate::error::Result;

/// Text that is still to be encoded because more may touch it, and which parts of it are trained on.
#[derive(Default)]
pub struct Pending {
    text: Vec<u8>,
    trained: Vec<(usize, usize)>,
    ids: Vec<u32>,
}

impl Pending {
    pub fn clear(&mut self) {
        self.text.clear();
        self.trained.clear();
    }

    fn push(&mut self, text: &[u8], is_trained: bool) {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        if is_trained && !text.is_empty() {
            match self.trained.last_mut() {
                Some((_, end)) if *end == start => *end = self.text.len(),
                _ => self.trained.push((start, self.text.len())),
            }
        }
    }
}

/// Where a row's ids and mask go.
pub struct Renderer<'a, 'b, I> {
    pub bpe: &'a Bpe,
    pub worker: &'b mut Worker<'a>,
    pub ordinary: &'b Rules,
    pub pending: &'b mut Pending,
    pub ids: &'b mut Vec<I>,
    pub mask: &'b mut Vec<u8>,
    pub watch: &'b Watch,
}

impl<I: Id> Renderer<'_, '_, I> {
    /// Append `turns` after the template's beginning.
    pub fn conversation<'t>(
        &mut self,
        template: &Template,
        row: &[u8],
        parsed: &Row,
        turns: impl Iterator<Item = &'t Turn>,
    ) -> Result<()> {
        self.pieces(&template.bos, 0)?;
        for turn in turns {
            let role = &template.roles[turn.role];
            self.pieces(&role.before, 0)?;
            self.content(parsed.text(row, turn.content), turn.is_trained, role.after.first())?;
            self.pieces(&role.after, if turn.is_trained { role.trained_after } else { 0 })?;
        }
        self.flush()
    }

    /// Pieces of the template, the first `num_trained` of them trained on.
    fn pieces(&mut self, pieces: &[Piece], num_trained: usize) -> Result<()> {
        for (index, piece) in pieces.iter().enumerate() {
            let is_trained = index < num_trained;
            match piece {
                Piece::Special(id) => {
                    self.flush()?;
                    self.ids.push(I::new(*id));
                    self.mask.push(u8::from(is_trained));
                }
                Piece::Text(text) => self.pending.push(text.as_bytes(), is_trained),
            }
        }
        Ok(())
    }

    fn content(&mut self, text: &[u8], is_trained: bool, next: Option<&Piece>) -> Result<()> {
        if self.pending.text.is_empty() && matches!(next, Some(Piece::Special(_))) {
            return self.encode(text, is_trained);
        }
        self.pending.push(text, is_trained);
        Ok(())
    }

    fn encode(&mut self, text: &[u8], is_trained: bool) -> Result<()> {
        self.worker.encode(text, self.ordinary, self.ids, self.watch)?;
        self.mask.resize(self.ids.len(), u8::from(is_trained));
        Ok(())
    }

    /// Encode what waits: a special token comes next, or nothing.
    fn flush(&mut self) -> Result<()> {
        if self.pending.text.is_empty() {
            return Ok(());
        }
        // Taken out while it is read; both come back with their memory.
        let pending = std::mem::take(self.pending);
        let encoded = match pending.trained.as_slice() {
            [] => self.encode(&pending.text, false),
            [(0, end)] if *end == pending.text.len() => self.encode(&pending.text, true),
            _ => return self.flush_mixed(pending),
        };
        *self.pending = pending;
        self.pending.clear();
        encoded
    }

    /// A token that has a part in trained text is trained on.
    fn flush_mixed(&mut self, mut pending: Pending) -> Result<()> {
        pending.ids.clear();
        self.worker.encode(&pending.text, self.ordinary, &mut pending.ids, self.watch)?;
        if self.bpe.normalizes() {
            normalize_spans(self.bpe, &pending.text, &mut pending.trained);
        }
        let (mut at, mut spans) = (0, pending.trained.iter().peekable());
        for &id in &pending.ids {
            let end = at + self.bpe.vocab().token(id).len();
            while spans.next_if(|(_, last)| *last <= at).is_some() {}
            let is_trained = spans.peek().is_some_and(|(start, _)| *start < end);
            self.ids.push(I::new(id));
            self.mask.push(u8::from(is_trained));
            at = end;
        }
        *self.pending = pending;
        self.pending.clear();
        Ok(())
    }
}

/// The same spans in the normalized text. A character that was composed across the edge of one belongs to it.
fn normalize_spans(bpe: &Bpe, text: &[u8], spans: &mut [(usize, usize)]) {
    let whole = bpe.normalize(text).into_owned();
    let same = |(a, b): &(&u8, &u8)| a == b;
    for (start, end) in spans {
        let before = bpe.normalize(&text[..*start]);
        let after = bpe.normalize(&text[*end..]);
        let mut first = before.iter().zip(&whole).take_while(same).count();
        let mut last = whole.len() - after.iter().rev().zip(whole.iter().rev()).take_while(same).count();
        let is_inside = |at: usize| whole.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
        while is_inside(first) {
            first -= 1;
        }
        while is_inside(last) {
            last += 1;
        }
        (*start, *end) = (first, last.max(first));
    }
}
