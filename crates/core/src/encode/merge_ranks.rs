//! Pair → rank: which merge joins two tokens, and how early it was learned.
//!
//! A pair may be in one of two buckets, and all slots of both are compared without a branch: whether two tokens have a
//! merge is as good as a toss of a coin, and a processor that guesses wrong loses more time than four comparisons take.

use std::hash::{BuildHasher, RandomState};

use crate::error::{Error, Result};
use crate::vocab::{Merge, Vocab};

const ID_BITS: u32 = 21;
pub const RANK_BITS: u32 = 64 - 2 * ID_BITS;

/// What [`MergeRanks::rank`] gives for a pair that no merge joins: after every rank.
pub const NO_MERGE: u32 = 1 << RANK_BITS;

/// Most ids a vocab may have: two of them and a rank share 64 bits, so that a look-up touches one word.
pub const MAX_IDS: usize = (1 << ID_BITS) - 1;

/// In place of a token where there is none: no merge joins it.
pub const NO_TOKEN: u32 = MAX_IDS as u32;

const EMPTY: u64 = u64::MAX;

/// Left id, right id and rank in one word, [`EMPTY`] if free.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Bucket([u64; 2]);

pub struct MergeRanks {
    /// Five in six slots are taken: what is small stays near the processor.
    buckets: Vec<Bucket>,
    /// Odd numbers that nobody who writes a tokenizer file can know, so that none can choose pairs that collide.
    keys: [u64; 2],
    /// The rank of two single bytes, by left byte × 256 + right byte: where every pretoken starts.
    byte_pairs: Vec<u32>,
    /// Rank → joined id; empty where ids follow the ranks, as in most vocabs.
    joined: Vec<u32>,
    /// The id of rank 0 where ids follow the ranks: arithmetic in place of a look at memory, at every merge.
    first: u32,
}

impl MergeRanks {
    pub fn new(vocab: &Vocab) -> Result<Self> {
        if vocab.size() > MAX_IDS {
            return Err(Error::vocab(format!(
                "the vocab has {} ids, more than the {MAX_IDS} that encoding supports",
                vocab.size()
            )));
        }
        if vocab.merges().len() >= 1 << RANK_BITS {
            return Err(Error::vocab(format!("{} merges are more than 2^{RANK_BITS}", vocab.merges().len())));
        }
        let mut joined: Vec<u32> = vocab.merges().iter().map(|&(_, _, joined)| joined).collect();
        let first = joined.first().copied().unwrap_or(0);
        if joined.iter().enumerate().all(|(rank, &id)| id == first.wrapping_add(rank as u32)) {
            joined = Vec::new();
        }
        let byte_pairs = vec![NO_MERGE; 1 << 16];
        let mut ranks = MergeRanks { buckets: Vec::new(), keys: [1; 2], byte_pairs, joined, first };
        while !ranks.place(vocab.merges())? {}
        let ids = vocab.byte_ids();
        for pair in 0..1usize << 16 {
            ranks.byte_pairs[pair] = ranks.rank(ids[pair >> 8], ids[pair & 255]);
        }
        Ok(ranks)
    }

    /// Put all merges in their places, under new keys; `false` if one finds none, which is a matter of bad luck.
    fn place(&mut self, merges: &[Merge]) -> Result<bool> {
        let random = RandomState::new();
        self.keys = [random.hash_one(0) | 1, random.hash_one(1) | 1];
        self.buckets = vec![Bucket([EMPTY; 2]); merges.len() * 3 / 5 + 8];
        for (rank, &(left, right, _)) in merges.iter().enumerate() {
            let first = self.rank(left, right);
            if first != NO_MERGE {
                return Err(Error::vocab(format!(
                    "merge {rank} joins ids {left} and {right}, as merge {first} does already"
                )));
            }
            if !self.insert(key(left, right) << RANK_BITS | rank as u64) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where both buckets are full, the slot takes the place of another, which goes to its other bucket, and so on.
    fn insert(&mut self, mut slot: u64) -> bool {
        let mut left = usize::MAX;
        for step in 0..500 {
            let [one, other] = self.buckets_of(slot >> RANK_BITS);
            for bucket in [one, other] {
                if let Some(free) = self.buckets[bucket].0.iter_mut().find(|slot| **slot == EMPTY) {
                    *free = slot;
                    return true;
                }
            }
            left = if left == one { other } else { one };
            slot = std::mem::replace(&mut self.buckets[left].0[step / 3 % 2], slot);
        }
        false
    }

    #[inline(always)]
    fn buckets_of(&self, key: u64) -> [usize; 2] {
        self.keys.map(|k| (((key.wrapping_mul(k) >> 32) * self.buckets.len() as u64) >> 32) as usize)
    }

    /// The rank of the merge that joins two tokens, [`NO_MERGE`] if none does.
    #[inline(always)]
    pub fn rank(&self, left: u32, right: u32) -> u32 {
        let key = key(left, right);
        let [one, other] = self.buckets_of(key);
        let (Bucket(one), Bucket(other)) = (self.buckets[one], self.buckets[other]);
        // The rank is what is left of the slot that has the key; any other leaves more than a rank can be.
        let rest = |slot: u64| slot.wrapping_sub(key << RANK_BITS);
        let least = rest(one[0]).min(rest(one[1])).min(rest(other[0]).min(rest(other[1])));
        least.min(u64::from(NO_MERGE)) as u32
    }

    #[inline(always)]
    pub fn rank_of_bytes(&self, left: u8, right: u8) -> u32 {
        self.byte_pairs[usize::from(left) << 8 | usize::from(right)]
    }

    /// The token that the merge of this rank makes.
    #[inline(always)]
    pub fn joined(&self, rank: u32) -> u32 {
        if self.joined.is_empty() { self.first + rank } else { self.joined[rank as usize] }
    }

    pub fn memory(&self) -> usize {
        self.buckets.len() * 16 + self.byte_pairs.len() * 4 + self.joined.len() * 4
    }
}

#[inline(always)]
fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}
