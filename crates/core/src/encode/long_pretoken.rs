//! Token ids of one long pretoken in linear time: window by window, each seam proven.
//!
//! Merging never crosses a border between two tokens of its result, so what happens on either side of a border happens
//! there as it would in isolation. It follows that a row of tokens is the encoding of the text it spells exactly when
//! every two neighbours are the encoding of what those two spell (docs/how-it-works.md has the argument; it holds for
//! any merges whatsoever). So a pretoken need not be merged as a whole: encode a window, keep all but the tokens near
//! its end, go on from there, and test the two tokens at the seam. Where they do not fit, the window was too small for
//! what is going on there: step back and take a larger one.

use super::merge_queue::MergeQueue;
use super::merge_ranks::MergeRanks;
use super::short_pretoken::{self, SHORT_PRETOKEN_MAX};
use crate::vocab::Vocab;

/// Bytes of the first window: larger ones cost more for each byte, smaller ones repeat more at their seams.
const WINDOW: usize = 48;

/// What one thread needs for long pretokens, kept between them.
#[derive(Default)]
pub struct LongPretoken {
    queue: MergeQueue,
    window: Vec<u32>,
    seam: Vec<u8>,
    seam_ids: Vec<u32>,
}

impl LongPretoken {
    /// Append the ids of `pretoken` to `out`. `stop` is asked now and then whether to give up; then the result is
    /// `false` and `out` of no use.
    pub fn encode(
        &mut self,
        vocab: &Vocab,
        ranks: &MergeRanks,
        pretoken: &[u8],
        out: &mut Vec<u32>,
        stop: impl Fn() -> bool,
    ) -> bool {
        let base = out.len();
        let (mut at, mut width) = (0, WINDOW);
        // A window grows where a seam fails, and shrinks only well past that place: failures move right, so they end.
        let mut last_failure = 0;
        loop {
            let end = pretoken.len().min(at + width);
            self.window.clear();
            encode_alone(&mut self.queue, vocab, ranks, &pretoken[at..end], &mut self.window);
            if out.len() > base && !self.may_touch(vocab, ranks, out[out.len() - 1], self.window[0]) {
                last_failure = last_failure.max(at);
                width *= 2;
                while out.len() > base && at + width / 2 > last_failure {
                    at -= vocab.token(out.pop().expect("not empty")).len();
                }
                continue;
            }
            if end == pretoken.len() {
                out.extend_from_slice(&self.window);
                return true;
            }
            // Near its end a window lacks what comes next, so tokens there are often not the final ones.
            let certain = at + width / 4 * 3;
            let start = at;
            for &id in &self.window {
                let next = at + vocab.token(id).len();
                if next > certain {
                    break;
                }
                out.push(id);
                at = next;
            }
            if at == start {
                last_failure = last_failure.max(at);
                width *= 2;
            } else if width > WINDOW && at > last_failure + 2 * width {
                width /= 2;
            }
            if stop() {
                return false;
            }
        }
    }

    /// Whether two tokens are the encoding of the text they spell together.
    fn may_touch(&mut self, vocab: &Vocab, ranks: &MergeRanks, left: u32, right: u32) -> bool {
        self.seam.clear();
        self.seam.extend_from_slice(vocab.token(left));
        self.seam.extend_from_slice(vocab.token(right));
        self.seam_ids.clear();
        encode_alone(&mut self.queue, vocab, ranks, &self.seam, &mut self.seam_ids);
        self.seam_ids == [left, right]
    }
}

/// The ids of `text` by merging all of it at once.
fn encode_alone(queue: &mut MergeQueue, vocab: &Vocab, ranks: &MergeRanks, text: &[u8], out: &mut Vec<u32>) {
    if text.len() <= SHORT_PRETOKEN_MAX {
        short_pretoken::encode(ranks, vocab.byte_ids(), None, text, out);
    } else {
        queue.encode(ranks, vocab.byte_ids(), text, out);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::reference;
    use crate::train::Ties;
    use crate::vocab::Tokens;

    fn vocab(merges: &[(u32, u32, u32)]) -> Vocab {
        let mut tokens = Tokens::default();
        (0..=255u8).for_each(|byte| tokens.push(&[byte]).unwrap());
        for &(left, right, joined) in merges {
            if joined as usize == tokens.len() {
                let token = [tokens.get(left), tokens.get(right)].concat();
                tokens.push(&token).unwrap();
            }
        }
        Vocab::new(tokens, merges.to_vec(), &HashMap::new(), false).unwrap()
    }

    /// All three ways against the reference, on texts over a tiny alphabet, where runs, ties and seams that do not
    /// fit abound, and with merges in an order nobody would learn them in.
    #[test]
    fn every_path_agrees_with_the_reference() {
        let mut state = 1u64;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut long = LongPretoken::default();
        for round in 0..400 {
            let letters = 1 + random(3);
            let mut word = |max: u64| -> Vec<u8> {
                let len = 1 + random(max);
                (0..len).map(|_| b'a' + random(letters) as u8).collect()
            };
            let words: Vec<Vec<u8>> = (0..8).map(|_| word(if letters == 1 { 400 } else { 40 })).collect();
            let counts: Vec<(&[u8], u64)> = words.iter().map(|w| (w.as_slice(), 1)).collect();
            let mut merges = reference::train(&counts, 256 + 30, Ties::LowestIds);
            let texts = [word(SHORT_PRETOKEN_MAX as u64), word(200), word(2000)];
            let learned = vocab(&merges);
            let (tokens, byte_ids) = (learned.size(), *learned.byte_ids());
            let mut vocab = learned;
            if round % 2 == 1 {
                for at in (1..merges.len()).rev() {
                    merges.swap(at, random(at as u64 + 1) as usize);
                }
                let mut all = Tokens::default();
                (0..tokens as u32).for_each(|id| all.push(vocab.token(id)).unwrap());
                vocab = Vocab::new(all, merges.clone(), &HashMap::new(), false).unwrap();
            }
            let ranks = MergeRanks::new(&vocab).unwrap();
            for text in &texts {
                let expected = reference::encode(text, &byte_ids, &merges);
                let mut ids = Vec::new();
                assert!(long.encode(&vocab, &ranks, text, &mut ids, || false));
                assert_eq!(ids, expected, "{text:?} {merges:?}");
                ids.clear();
                long.queue.encode(&ranks, &byte_ids, text, &mut ids);
                assert_eq!(ids, expected, "{text:?} {merges:?}");
                ids.clear();
                long.queue.encode_some(&ranks, &byte_ids, text, &mut ids, || true);
                assert_eq!(ids, expected, "{text:?} {merges:?}");
                if text.len() <= SHORT_PRETOKEN_MAX {
                    ids.clear();
                    short_pretoken::encode(&ranks, &byte_ids, None, text, &mut ids);
                    assert_eq!(ids, expected, "{text:?} {merges:?}");
                }
            }
        }
    }
}
