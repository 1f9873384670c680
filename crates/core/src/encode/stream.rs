//! Ids of a text that arrives in parts: whatever is certain leaves at once, the rest waits for more.

use std::sync::Arc;

use super::{Bpe, Id, Rules};
use crate::count::Watch;
use crate::error::Result;

/// `waiting` is the text since the last cut, and nothing before `searched` is a place to cut.
pub struct EncodeStream {
    bpe: Arc<Bpe>,
    rules: Rules,
    threads: usize,
    waiting: Vec<u8>,
    searched: usize,
}

impl EncodeStream {
    pub fn new(bpe: Arc<Bpe>, rules: Rules, threads: usize) -> Self {
        EncodeStream { bpe, rules, threads, waiting: Vec::new(), searched: 0 }
    }

    /// The ids of everything up to the last place where the text can be cut, whatever follows.
    pub fn feed<I: Id>(&mut self, text: &[u8], watch: &Watch) -> Result<Vec<I>> {
        self.waiting.extend_from_slice(text);
        let Some(cut) = self.bpe.last_cut(&self.waiting, self.searched) else {
            self.searched = self.bpe.splitter.uncertain_from(self.waiting.len());
            return Ok(Vec::new());
        };
        let ids = self.encode(cut, watch)?;
        self.waiting.drain(..cut);
        self.rules.bytes_before += cut;
        self.searched = 0;
        Ok(ids)
    }

    /// The rest. What is fed after that is a new text.
    pub fn finish<I: Id>(&mut self, watch: &Watch) -> Result<Vec<I>> {
        let ids = self.encode(self.waiting.len(), watch)?;
        self.waiting = Vec::new();
        self.searched = 0;
        self.rules.bytes_before = 0;
        Ok(ids)
    }

    fn encode<I: Id>(&self, end: usize, watch: &Watch) -> Result<Vec<I>> {
        Ok(self.bpe.encode_batch(&[&self.waiting[..end]], &self.rules, self.threads, watch)?.ids)
    }
}
