//! Which pretoken each token is part of.

use tokenmill_core::Result;
use tokenmill_core::decode::{AsId, Decoder};
use tokenmill_core::pretokenize::{Sink, Splitter};
use tokenmill_core::vocab::Vocab;

use crate::array::WithIds;

/// Counted from 0; a special token is one, too, and what is between two of them is split on its own.
pub struct WordNumbers<'a> {
    pub vocab: &'a Vocab,
    pub decoder: &'a Decoder,
    pub splitter: &'a Splitter,
}

struct Ends(Vec<usize>);

impl Sink for Ends {
    fn pretoken(&mut self, _text: &[u8], _start: usize, end: usize) {
        self.0.push(end);
    }
}

impl WithIds for WordNumbers<'_> {
    type Out = Result<Vec<u32>>;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out {
        let is_special = |id: &I| id.as_id().is_some_and(|id| self.vocab.is_special(id));
        let mut numbers = Vec::with_capacity(ids.len());
        let (mut word, mut bytes, mut ends) = (0, Vec::new(), Ends(Vec::new()));
        let mut rest = ids;
        while !rest.is_empty() {
            let (run, after) = rest.split_at(rest.iter().position(is_special).unwrap_or(rest.len()));
            bytes.clear();
            ends.0.clear();
            self.decoder.decode(run, &mut bytes)?;
            self.splitter.split(&bytes, &mut ends)?;
            let (mut at, mut passed) = (0, 0);
            for &id in run {
                // The words that end before the token or where it starts.
                passed += ends.0[passed..].iter().take_while(|&&end| end <= at).count();
                numbers.push(word + passed as u32);
                at += self.decoder.num_bytes(&[id])?;
            }
            word += ends.0.len() as u32;
            rest = after;
            if let Some((_, behind)) = after.split_first() {
                numbers.push(word);
                word += 1;
                rest = behind;
            }
        }
        Ok(numbers)
    }
}
