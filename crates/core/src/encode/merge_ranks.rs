//! Pair → rank: which merge joins two tokens, and how early it was learned.

use crate::error::{Error, Result};
use crate::vocab::{Merge, Vocab};

/// What [`MergeRanks::rank`] gives for a pair that no merge joins: after every rank.
pub const NO_MERGE: u32 = u32::MAX;

const ID_BITS: u32 = 21;
pub const RANK_BITS: u32 = 64 - 2 * ID_BITS;
const EMPTY: u64 = u64::MAX;

/// Most ids a vocab may have: two of them and a rank share 64 bits, so that a look-up touches one word.
pub const MAX_IDS: usize = (1 << ID_BITS) - 1;

/// `slots` is open-addressed, at most half full: left id, right id and rank in one word, [`EMPTY`] if free.
pub struct MergeRanks {
    slots: Vec<u64>,
    /// One bit for each hash of a pair that has a merge: small enough to stay near the processor, it answers most
    /// questions about pairs that have none.
    known: Vec<u64>,
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
        let slots = vec![EMPTY; (vocab.merges().len() * 2).next_power_of_two().max(16)];
        let known = vec![0; slots.len() / KNOWN_PER_SLOT];
        let mut ranks = MergeRanks { slots, known, byte_pairs: vec![NO_MERGE; 1 << 16], joined, first };
        for (rank, &merge) in vocab.merges().iter().enumerate() {
            ranks.insert(rank as u32, merge)?;
        }
        let ids = vocab.byte_ids();
        for pair in 0..1usize << 16 {
            ranks.byte_pairs[pair] = ranks.rank(ids[pair >> 8], ids[pair & 255]);
        }
        Ok(ranks)
    }

    fn insert(&mut self, rank: u32, (left, right, _): Merge) -> Result<()> {
        let key = key(left, right);
        let mask = self.slots.len() - 1;
        let mut at = self.slot_of(key);
        while self.slots[at] != EMPTY {
            if self.slots[at] >> RANK_BITS == key {
                let first = self.slots[at] & ((1 << RANK_BITS) - 1);
                return Err(Error::vocab(format!(
                    "merge {rank} joins ids {left} and {right}, as merge {first} does already"
                )));
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = key << RANK_BITS | u64::from(rank);
        let bit = self.known_bit(hash(key));
        self.known[bit / 64] |= 1 << (bit % 64);
        Ok(())
    }

    #[inline(always)]
    fn slot_of(&self, key: u64) -> usize {
        (hash(key) >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    #[inline(always)]
    fn known_bit(&self, hash: u64) -> usize {
        (hash >> 20) as usize & (self.known.len() * 64 - 1)
    }

    /// The rank of the merge that joins two tokens, [`NO_MERGE`] if none does.
    #[inline(always)]
    pub fn rank(&self, left: u32, right: u32) -> u32 {
        let key = key(left, right);
        let bit = self.known_bit(hash(key));
        if self.known[bit / 64] >> (bit % 64) & 1 == 0 {
            return NO_MERGE;
        }
        let mask = self.slots.len() - 1;
        let mut at = self.slot_of(key);
        loop {
            let slot = self.slots[at];
            if slot >> RANK_BITS == key {
                return (slot & ((1 << RANK_BITS) - 1)) as u32;
            }
            if slot == EMPTY {
                return NO_MERGE;
            }
            at = (at + 1) & mask;
        }
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
        (self.slots.len() + self.known.len()) * 8 + self.byte_pairs.len() * 4 + self.joined.len() * 4
    }
}

/// 64 bits of [`MergeRanks::known`] for each so many slots: eight bits or more for each merge.
const KNOWN_PER_SLOT: usize = 8;

#[inline(always)]
fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[inline(always)]
fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}
