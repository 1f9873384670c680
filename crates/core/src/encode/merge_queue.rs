//! All merges of a text of any length, in order: n log n for any text and any merges.
//!
//! While one pair is everywhere, as in runs of spaces and ruled lines, all its places are joined in one pass, which
//! halves such a text for a few nanoseconds a token. What is left, or everything else, goes through a heap of possible
//! merges over a doubly linked list.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::merge_ranks::{MergeRanks, NO_MERGE, NO_TOKEN};

const NONE: u32 = u32::MAX;
/// A pass must take away at least one token in so many to be followed by another.
const WORTH_A_PASS: usize = 8;

/// A merge that was possible when it came here: rank, left position, left id, right id. The ids tell whether it still
/// is.
type Offer = (u32, u32, u32, u32);

/// The last question to [`MergeRanks`] and its answer.
struct Answer {
    pair: (u32, u32),
    rank: u32,
}

impl Default for Answer {
    fn default() -> Self {
        Answer { pair: (NO_TOKEN, NO_TOKEN), rank: NO_MERGE }
    }
}

impl Answer {
    #[inline(always)]
    fn to(&mut self, ranks: &MergeRanks, left: u32, right: u32) -> u32 {
        if self.pair != (left, right) {
            *self = Answer { pair: (left, right), rank: ranks.rank(left, right) };
        }
        self.rank
    }
}

/// Buffers, kept from one text to the next.
#[derive(Default)]
pub struct MergeQueue {
    ids: Vec<u32>,
    /// During passes: `ranks[i]` is the rank of joining `ids[i]` and `ids[i + 1]`.
    ranks: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    offers: BinaryHeap<Reverse<Offer>>,
}

impl MergeQueue {
    /// Append the ids of `text`, shorter than 4 GB, to `out`.
    pub fn encode(&mut self, ranks: &MergeRanks, byte_ids: &[u32; 256], text: &[u8], out: &mut Vec<u32>) {
        self.start(byte_ids, text);
        self.ranks.clear();
        self.ranks.extend(text.windows(2).map(|two| ranks.rank_of_bytes(two[0], two[1])));
        loop {
            let before = self.ids.len();
            let Some(&rank) = self.ranks.iter().min().filter(|&&rank| rank != NO_MERGE) else {
                return out.extend_from_slice(&self.ids);
            };
            self.pass(ranks, rank);
            if before - self.ids.len() < before / WORTH_A_PASS {
                break;
            }
        }
        self.merge(ranks, out, || true);
    }

    /// The same, where a merge takes part only if `keep()` says so when it becomes possible.
    pub fn encode_some(
        &mut self,
        ranks: &MergeRanks,
        byte_ids: &[u32; 256],
        text: &[u8],
        out: &mut Vec<u32>,
        keep: impl FnMut() -> bool,
    ) {
        self.start(byte_ids, text);
        self.merge(ranks, out, keep);
    }

    fn start(&mut self, byte_ids: &[u32; 256], text: &[u8]) {
        assert!(u32::try_from(text.len()).is_ok(), "a pretoken of less than 4 GB");
        self.ids.clear();
        self.ids.extend(text.iter().map(|&byte| byte_ids[byte as usize]));
    }

    /// Join every place whose pair has this rank, which no other rank is below, from left to right. Should a merge
    /// make a pair of lower rank possible, that one comes first: the pass ends there.
    fn pass(&mut self, ranks: &MergeRanks, rank: u32) {
        let joined = ranks.joined(rank);
        let len = self.ids.len();
        let (mut from, mut to) = (0, 0);
        let mut is_interrupted = false;
        // Where one pair is everywhere, the same two questions come again and again.
        let (mut with_previous, mut with_following) = (Answer::default(), Answer::default());
        while from < len {
            if !is_interrupted && from + 1 < len && self.ranks[from] == rank {
                self.ids[to] = joined;
                from += 2;
                if to > 0 {
                    self.ranks[to - 1] = with_previous.to(ranks, self.ids[to - 1], joined);
                    is_interrupted |= self.ranks[to - 1] < rank;
                }
                if from < len {
                    // Right for the pair with the next token as it is now; if that one is joined too, it is asked
                    // again from there.
                    let with_next = with_following.to(ranks, joined, self.ids[from]);
                    is_interrupted |= with_next < rank;
                    self.ranks[to] = with_next;
                }
            } else {
                self.ids[to] = self.ids[from];
                if from + 1 < len {
                    self.ranks[to] = self.ranks[from];
                }
                from += 1;
            }
            to += 1;
        }
        self.ids.truncate(to);
        self.ranks.truncate(to.saturating_sub(1));
    }

    /// The rest of the merges of `self.ids`.
    fn merge(&mut self, ranks: &MergeRanks, out: &mut Vec<u32>, mut keep: impl FnMut() -> bool) {
        let len = self.ids.len() as u32;
        self.next.clear();
        self.next.extend((1..len).chain([NONE]));
        self.previous.clear();
        self.previous.extend((0..len).map(|at| at.wrapping_sub(1)));
        self.offers.clear();
        for left in 0..len.saturating_sub(1) {
            self.offer(ranks, left, left + 1, &mut keep);
        }
        while let Some(Reverse((rank, left, left_id, right_id))) = self.offers.pop() {
            let right = self.next[left as usize];
            let holds = self.ids[left as usize] == left_id && right != NONE;
            if !holds || self.ids[right as usize] != right_id {
                continue;
            }
            let after = self.next[right as usize];
            self.ids[left as usize] = ranks.joined(rank);
            self.ids[right as usize] = NONE;
            self.next[left as usize] = after;
            if after != NONE {
                self.previous[after as usize] = left;
                self.offer(ranks, left, after, &mut keep);
            }
            let before = self.previous[left as usize];
            if before != NONE {
                self.offer(ranks, before, left, &mut keep);
            }
        }
        out.extend(self.ids.iter().filter(|&&id| id != NONE));
    }

    #[inline]
    fn offer(&mut self, ranks: &MergeRanks, left: u32, right: u32, keep: &mut impl FnMut() -> bool) {
        let (left_id, right_id) = (self.ids[left as usize], self.ids[right as usize]);
        let rank = ranks.rank(left_id, right_id);
        if rank != NO_MERGE && keep() {
            self.offers.push(Reverse((rank, left, left_id, right_id)));
        }
    }
}
