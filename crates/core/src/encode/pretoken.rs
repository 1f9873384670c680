//! Token ids of one pretoken: the merge of lowest rank first, the leftmost of equals, until none applies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::{Error, Result};
use crate::train::{Pair, PairMap};

/// Longest pretoken, in bytes, for which looking at every pair after every merge beats keeping a heap.
const SCAN_MAX: usize = 64;

/// Pair → (rank, id of the joined token).
pub struct MergeRanks {
    ranks: PairMap<(u32, u32)>,
}

impl MergeRanks {
    pub fn new(merges: &[(u32, u32, u32)]) -> Result<Self> {
        if merges.len() >= u32::MAX as usize {
            return Err(Error::vocab(format!("{} merges are more than 2^32", merges.len())));
        }
        let ranked = merges.iter().enumerate();
        let ranks = ranked.map(|(rank, &(l, r, joined))| (Pair::new(l, r), (rank as u32, joined))).collect();
        Ok(MergeRanks { ranks })
    }

    #[inline]
    fn get(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        self.ranks.get(&Pair::new(left, right)).copied()
    }

    /// Append the ids of `pretoken` to `out`.
    pub fn encode(&self, pretoken: &[u8], byte_ids: &[u32; 256], out: &mut Vec<u32>) {
        if pretoken.len() <= SCAN_MAX {
            self.encode_short(pretoken, byte_ids, out);
        } else {
            self.encode_long(pretoken, byte_ids, out);
        }
    }

    fn encode_short(&self, pretoken: &[u8], byte_ids: &[u32; 256], out: &mut Vec<u32>) {
        const NONE: (u32, u32) = (u32::MAX, 0);
        let mut ids = [0u32; SCAN_MAX];
        let mut merges = [NONE; SCAN_MAX]; // merges[i]: rank and result of joining ids[i] and ids[i + 1]
        let mut len = pretoken.len();
        for (id, &byte) in ids.iter_mut().zip(pretoken) {
            *id = byte_ids[byte as usize];
        }
        for i in 0..len.saturating_sub(1) {
            merges[i] = self.get(ids[i], ids[i + 1]).unwrap_or(NONE);
        }
        while len > 1 {
            let candidates = &merges[..len - 1];
            let (at, &best) = candidates.iter().enumerate().min_by_key(|(_, m)| m.0).expect("len > 1");
            if best == NONE {
                break;
            }
            ids[at] = best.1;
            ids.copy_within(at + 2..len, at + 1);
            merges.copy_within((at + 2).min(len)..len, at + 1);
            len -= 1;
            if at + 1 < len {
                merges[at] = self.get(ids[at], ids[at + 1]).unwrap_or(NONE);
            }
            if at > 0 {
                merges[at - 1] = self.get(ids[at - 1], ids[at]).unwrap_or(NONE);
            }
        }
        out.extend_from_slice(&ids[..len]);
    }

    /// A heap of possible merges over a doubly linked list of tokens: n log n for any pretoken.
    fn encode_long(&self, pretoken: &[u8], byte_ids: &[u32; 256], out: &mut Vec<u32>) {
        const END: u32 = u32::MAX;
        let len = pretoken.len();
        let mut ids: Vec<u32> = pretoken.iter().map(|&byte| byte_ids[byte as usize]).collect();
        let mut next: Vec<u32> = (1..=len as u32).collect();
        let mut previous: Vec<u32> = (0..len as u32).map(|i| i.wrapping_sub(1)).collect();
        next[len - 1] = END;
        // (rank, left position, left id, right id): the ids tell whether an element still holds.
        let mut heap = BinaryHeap::new();
        let offer = |heap: &mut BinaryHeap<_>, ids: &[u32], left: u32, right: u32| {
            let (l, r) = (ids[left as usize], ids[right as usize]);
            if let Some((rank, _)) = self.get(l, r) {
                heap.push(Reverse((rank, left, l, r)));
            }
        };
        for left in 0..len as u32 - 1 {
            offer(&mut heap, &ids, left, left + 1);
        }
        while let Some(Reverse((_, left, l, r))) = heap.pop() {
            let right = next[left as usize];
            if ids[left as usize] != l || right == END || ids[right as usize] != r {
                continue;
            }
            let (_, joined) = self.get(l, r).expect("it was offered");
            let after = next[right as usize];
            ids[left as usize] = joined;
            ids[right as usize] = END;
            next[left as usize] = after;
            if after != END {
                previous[after as usize] = left;
                offer(&mut heap, &ids, left, after);
            }
            let before = previous[left as usize];
            if before != END {
                offer(&mut heap, &ids, before, left);
            }
        }
        out.extend(ids.into_iter().filter(|&id| id != END));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;
    use crate::train::Ties;

    /// Long and short path against the reference, on words over a tiny alphabet, where runs and ties abound.
    #[test]
    fn both_paths_agree_with_the_reference() {
        let mut state = 1u64;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let byte_ids: [u32; 256] = std::array::from_fn(|i| i as u32);
        for _ in 0..300 {
            let mut word = |max: u64| -> Vec<u8> {
                let len = 1 + random(max);
                (0..len).map(|_| b'a' + random(3) as u8).collect()
            };
            let words: Vec<Vec<u8>> = (0..8).map(|_| word(12)).collect();
            let counts: Vec<(&[u8], u64)> = words.iter().map(|w| (w.as_slice(), 1)).collect();
            let merges = reference::train(&counts, 256 + 20, Ties::LowestIds);
            let ranks = MergeRanks::new(&merges).unwrap();
            for text in [word(SCAN_MAX as u64), word(200)] {
                let expected = reference::encode(&text, &byte_ids, &merges);
                let (mut short, mut long) = (Vec::new(), Vec::new());
                ranks.encode(&text, &byte_ids, &mut short);
                ranks.encode_long(&text, &byte_ids, &mut long);
                assert_eq!((&short, &long), (&expected, &expected), "{text:?} {merges:?}");
            }
        }
    }
}
