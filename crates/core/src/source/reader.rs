//! Sources one after another, under one set of limits and policies.

use std::sync::Arc;

use super::block::{Block, BlockStats, Piece, Raw, State, cap_at, prepare, range_of};
use super::{Source, Want};
use crate::error::{Error, Result};
use crate::pretokenize::Splitter;
use crate::unicode::num_chars;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnError {
    Fail,
    Skip,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidUtf8 {
    Error,
    Replace,
    Keep,
}

/// What to do with what cannot be read.
#[derive(Clone, Debug)]
pub struct Policy {
    pub on_error: OnError,
    pub invalid_utf8: InvalidUtf8,
}

/// How much to read. Documents count in the order of the sources, so blocks are prepared under the reader's lock.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub doc_cap: Option<u64>,
    pub max_chars: Option<u64>,
    pub max_bytes: Option<u64>,
    pub chars: u64,
    pub bytes: u64,
    pub reached: bool,
    /// Characters of the document that the last piece left unfinished.
    chars_in_document: u64,
}

impl Limits {
    pub fn new(doc_cap: Option<u64>, max_chars: Option<u64>, max_bytes: Option<u64>) -> Self {
        Limits { doc_cap, max_chars, max_bytes, ..Limits::default() }
    }

    fn any(&self) -> bool {
        self.doc_cap.is_some() || self.max_chars.is_some() || self.max_bytes.is_some()
    }

    /// Go on after a run that used this much.
    pub fn start_from(mut self, chars: u64, bytes: u64) -> Self {
        (self.chars, self.bytes) = (chars, bytes);
        self.reached = self.max_chars.is_some_and(|max| chars > max);
        self
    }

    /// Cut `piece` at the document cap, decide whether it is still wanted, and count it.
    pub(super) fn admit(
        &mut self,
        piece: &mut Piece,
        replaced: Option<&mut Vec<u8>>,
        text: &[u8],
        stats: &mut BlockStats,
    ) -> bool {
        if piece.starts {
            self.chars_in_document = 0;
        }
        let left = self.doc_cap.map(|cap| cap.saturating_sub(self.chars_in_document));
        let bytes = replaced.as_ref().map_or(&text[range_of(piece)], |r| r.as_slice());
        let cut = left.and_then(|left| cap_at(bytes, left));
        let bytes = &bytes[..cut.unwrap_or(bytes.len())];
        let chars = num_chars(bytes) as u64;
        if self.max_bytes.is_some_and(|max| self.bytes + bytes.len() as u64 > max) {
            self.reached = true;
            return false;
        }
        if cut.is_some() && (left != Some(0) || piece.starts) {
            stats.capped_documents += 1;
        }
        self.chars += chars;
        self.bytes += bytes.len() as u64;
        self.chars_in_document += chars;
        stats.documents += u64::from(piece.starts);
        stats.bytes += bytes.len() as u64;
        stats.chars += chars;
        self.reached = piece.ends && self.max_chars.is_some_and(|max| self.chars > max);
        if let Some(cut) = cut {
            match replaced {
                Some(replaced) => replaced.truncate(cut),
                None => piece.end = piece.start + cut,
            }
        }
        true
    }
}

/// Gives the next source to read, or `None`.
pub type Supplier = Box<dyn FnMut() -> Result<Option<Box<dyn Source>>> + Send>;

/// Hands out blocks in order, each with its index. After an error no more blocks are handed out, and of several
/// errors the one that comes first in the text is kept.
pub struct Reader {
    supplier: Supplier,
    current: Option<Box<dyn Source>>,
    policy: Arc<Policy>,
    pub limits: Limits,
    block_bytes: usize,
    next_index: u64,
    error: Option<(u64, Error)>,
    pub stats: BlockStats,
}

impl Reader {
    pub fn new(policy: Policy, limits: Limits, block_bytes: usize) -> Self {
        Reader {
            supplier: Box::new(|| Ok(None)),
            current: None,
            policy: Arc::new(policy),
            limits,
            block_bytes: block_bytes.max(16),
            next_index: 0,
            error: None,
            stats: BlockStats::default(),
        }
    }

    /// Read these sources next.
    pub fn feed(&mut self, supplier: Supplier) {
        self.supplier = supplier;
        self.current = None;
    }

    pub fn add_stats(&mut self, stats: &mut BlockStats) {
        self.stats.add(stats);
    }

    pub fn fail(&mut self, index: u64, error: Error) {
        if self.error.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
            self.error = Some((index, error));
        }
    }

    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take().map(|(_, error)| error)
    }

    pub fn next_block(&mut self, splitter: &Splitter) -> Option<Block> {
        let skips_documents =
            self.policy.on_error == OnError::Skip && self.policy.invalid_utf8 == InvalidUtf8::Error;
        let whole_documents = skips_documents || self.limits.max_bytes.is_some();
        self.next_block_of(&Want { splitter, block_bytes: self.block_bytes, whole_documents })
    }

    /// The next block with whole documents in it.
    pub fn next_documents(&mut self, splitter: &Splitter) -> Option<Block> {
        self.next_block_of(&Want { splitter, block_bytes: self.block_bytes, whole_documents: true })
    }

    fn next_block_of(&mut self, want: &Want) -> Option<Block> {
        if self.error.is_some() || self.limits.reached {
            return None;
        }
        let index = self.next_index;
        let state = match self.next_raw(want) {
            Ok(None) => return None,
            Ok(Some(raw)) if self.limits.any() => {
                let mut stats = BlockStats::default();
                let prepared = prepare(raw, &self.policy, index, &mut stats, Some(&mut self.limits));
                self.stats.add(&mut stats);
                prepared.map(State::Prepared)
            }
            Ok(Some(raw)) => Ok(State::Raw(raw, self.policy.clone())),
            Err(error) => Err(error),
        };
        self.next_index += 1;
        match state {
            Ok(state) => Some(Block { index, state }),
            Err(error) => {
                self.fail(index, error);
                None
            }
        }
    }

    fn next_raw(&mut self, want: &Want) -> Result<Option<Raw>> {
        loop {
            if self.current.is_none() {
                self.current = (self.supplier)()?;
            }
            let Some(source) = &mut self.current else { return Ok(None) };
            if let Some(raw) = source.next(want)? {
                return Ok(Some(raw));
            }
            self.current = None;
        }
    }
}
