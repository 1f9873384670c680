//! How often each pair occurs, where, and which is the most frequent.
//!
//! A pair is born when the newer of its two ids is made, so its count only falls from then on, and a heap whose
//! entries may be too high, but never too low, finds the maximum. (Merges that share an id are the exception:
//! [`PairCounts::raise`] pushes again.)
//!
//! Most pairs are born rare and never merged, so those below a threshold are not stored at all. `forgotten_below`
//! bounds what was left out: as long as the best stored count reaches it, nothing forgotten can win.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use super::{Pair, Ties};
use crate::error::{Error, Result};

/// Where a pair stands. Positions ascend; some may have lost the pair since, none is missing.
pub enum Positions {
    /// A range of the array that holds all pairs of single bytes.
    Bytes(Range<u32>),
    Own(Vec<u32>),
    /// The pair came back after it was forgotten, and its count is an upper bound.
    Unknown,
}

/// `count` is exact and never 0, unless it is an estimate.
pub struct Entry {
    pub count: u64,
    pub positions: Positions,
}

impl Entry {
    pub fn estimated(&self) -> bool {
        matches!(self.positions, Positions::Unknown)
    }
}

pub struct PairCounts {
    entries: PairMap<Entry>,
    stored_once: PairFilter,
    /// A binary heap of (count, pair). A stored pair has at least one element whose count is no lower than its own.
    heap: Vec<(u64, Pair)>,
    pub ties: Ties,
    /// Pairs that are not stored occur fewer times than this.
    pub forgotten_below: u64,
}

/// What to say when a pair's count leaves 64 bits.
pub fn too_frequent() -> Error {
    Error::Overflow { message: "a pair occurs more than 2^64 - 1 times".into() }
}

/// A map keyed by pairs.
pub type PairMap<V> = HashMap<Pair, V, BuildHasherDefault<PairHasher>>;

#[derive(Default)]
pub struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("pairs hash as one u64")
    }
    #[inline]
    fn write_u64(&mut self, pair: u64) {
        let product = u128::from(pair ^ 0x9E37_79B9_7F4A_7C15) * 0xD1B5_4A32_D192_ED03;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl PairCounts {
    pub fn new(ties: Ties) -> Self {
        PairCounts {
            entries: HashMap::default(),
            stored_once: PairFilter::new(),
            heap: Vec::new(),
            ties,
            forgotten_below: 1,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, pair: Pair) -> Option<&Entry> {
        self.entries.get(&pair)
    }

    /// Store a pair that is not stored yet.
    pub fn insert(&mut self, pair: Pair, entry: Entry, tokens: &[Vec<u8>]) {
        self.push(entry.count, pair, tokens);
        self.stored_once.insert(pair);
        self.entries.insert(pair, entry);
    }

    /// Take `by` occurrences away, if the pair is stored.
    #[inline]
    pub fn lower(&mut self, pair: Pair, by: u64) {
        if !self.stored_once.may_hold(pair) {
            return;
        }
        if let std::collections::hash_map::Entry::Occupied(mut occupied) = self.entries.entry(pair) {
            let entry = occupied.get_mut();
            if entry.count <= by {
                debug_assert!(entry.count == by || entry.estimated());
                occupied.remove();
            } else {
                entry.count -= by;
            }
        }
    }

    /// Add occurrences at `positions` to a pair that may or may not be stored: only merges that share an id do.
    pub fn raise(&mut self, pair: Pair, by: u64, positions: Vec<u32>, tokens: &[Vec<u8>]) -> Result<()> {
        let forgotten_below = self.forgotten_below;
        self.stored_once.insert(pair);
        let entry = self.entries.entry(pair).or_insert_with(|| Entry {
            count: forgotten_below - 1,
            positions: if forgotten_below > 1 { Positions::Unknown } else { Positions::Own(Vec::new()) },
        });
        entry.count = match entry.positions {
            Positions::Unknown => entry.count.saturating_add(by),
            _ => entry.count.checked_add(by).ok_or_else(too_frequent)?,
        };
        match &mut entry.positions {
            Positions::Own(own) => {
                own.extend(positions);
                own.sort_unstable();
                own.dedup();
            }
            Positions::Unknown => {}
            Positions::Bytes(_) => {
                unreachable!("a pair of single bytes spells two bytes and is no shared id")
            }
        }
        let count = entry.count;
        self.push(count, pair, tokens);
        Ok(())
    }

    /// The best stored pair and its count, without taking it out. `None` if nothing is stored.
    pub fn best(&mut self, tokens: &[Vec<u8>]) -> Option<(u64, Pair)> {
        loop {
            let &(count, pair) = self.heap.first()?;
            match self.entries.get(&pair) {
                Some(entry) if entry.count == count => return Some((count, pair)),
                Some(entry) => {
                    self.heap[0].0 = entry.count;
                    self.sift_down(0, tokens);
                }
                None => self.pop(tokens),
            }
        }
    }

    /// Take the pair that [`PairCounts::best`] named out, with all its occurrences.
    pub fn take(&mut self, pair: Pair, tokens: &[Vec<u8>]) -> Entry {
        debug_assert_eq!(self.heap[0].1, pair);
        self.pop(tokens);
        self.entries.remove(&pair).expect("the best pair is stored")
    }

    /// Forget the pairs whose counts are only estimates, before a rebuild counts them.
    pub fn drop_estimates(&mut self) {
        self.entries.retain(|_, entry| !entry.estimated());
    }

    fn before(&self, a: (u64, Pair), b: (u64, Pair), tokens: &[Vec<u8>]) -> bool {
        if a.0 != b.0 { a.0 > b.0 } else { self.ties.compare(a.1, b.1, tokens).is_gt() }
    }

    fn push(&mut self, count: u64, pair: Pair, tokens: &[Vec<u8>]) {
        self.heap.push((count, pair));
        let mut at = self.heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.before(self.heap[at], self.heap[parent], tokens) {
                break;
            }
            self.heap.swap(at, parent);
            at = parent;
        }
    }

    fn pop(&mut self, tokens: &[Vec<u8>]) {
        self.heap.swap_remove(0);
        self.sift_down(0, tokens);
    }

    fn sift_down(&mut self, mut at: usize, tokens: &[Vec<u8>]) {
        loop {
            let mut best = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.before(self.heap[child], self.heap[best], tokens) {
                    best = child;
                }
            }
            if best == at {
                return;
            }
            self.heap.swap(at, best);
            at = best;
        }
    }
}

/// Which pairs were ever stored, with a few false positives. Most pairs around a merge never were, and this small
/// table says so from the second-level cache, where asking the map of entries would miss it.
struct PairFilter(Vec<u64>);

const FILTER_BITS: u32 = 21;

impl PairFilter {
    fn new() -> Self {
        PairFilter(vec![0; 1 << (FILTER_BITS - 6)])
    }

    #[inline]
    fn place(pair: Pair) -> (usize, u64) {
        let mut hasher = PairHasher::default();
        hasher.write_u64(pair.0);
        let bit = hasher.finish() >> (64 - FILTER_BITS);
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    #[inline]
    fn may_hold(&self, pair: Pair) -> bool {
        let (word, bit) = Self::place(pair);
        self.0[word] & bit != 0
    }

    fn insert(&mut self, pair: Pair) {
        let (word, bit) = Self::place(pair);
        self.0[word] |= bit;
    }
}
