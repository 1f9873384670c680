//! The distinct pretokens as one flat array of cells, most frequent first, so that how often a position occurs in
//! the text is a step function of the position.
//!
//! A cell is a byte of a pretoken. A token writes its id into its first and its last cell; what lies between is
//! never read. The left neighbour of the token at `p` is the id in cell `p - 1`, its right neighbour the id just
//! past its end, whatever their lengths: a pretoken of a gigabyte costs no more per merge than a short one.

use std::sync::atomic::Ordering;

use super::Pair;
use super::pair_counts::too_frequent;
use crate::count::PretokenCounts;
use crate::error::{Error, Result};
use crate::memory::{as_atomics, with_huge_pages, zeros_on_huge_pages};

/// What stands between two pretokens, and at both ends, instead of an id.
pub const EDGE: u32 = u32::MAX;

/// A cell wide enough for the ids of this training: half the width is half the cache misses. Its greatest value
/// is the edge, the one below the first cell of a token that became the right part of a longer one.
pub trait Cell: Copy + PartialEq + Send + Sync {
    const EDGE: Self;
    const GONE: Self;
    /// Ids must be below this.
    const LIMIT: usize;
    fn from_id(id: u32) -> Self;
    /// The id, or [`EDGE`].
    fn id(self) -> u32;
}

impl Cell for u16 {
    const EDGE: u16 = u16::MAX;
    const GONE: u16 = u16::MAX - 1;
    const LIMIT: usize = u16::MAX as usize - 1;
    #[inline]
    fn from_id(id: u32) -> u16 {
        id as u16
    }
    #[inline]
    fn id(self) -> u32 {
        if self == Self::EDGE { EDGE } else { u32::from(self) }
    }
}

impl Cell for u32 {
    const EDGE: u32 = u32::MAX;
    const GONE: u32 = u32::MAX - 1;
    const LIMIT: usize = u32::MAX as usize - 1;
    #[inline]
    fn from_id(id: u32) -> u32 {
        id
    }
    #[inline]
    fn id(self) -> u32 {
        self
    }
}

pub struct Sequences<C> {
    cells: Vec<C>,
    /// First position and count of each stretch of equally frequent pretokens; counts fall.
    steps: Vec<(u32, u64)>,
}

/// One place where a pair was merged: its start, and the ids that stood left and right of it at that moment.
#[derive(Clone, Copy)]
pub struct Event {
    pub position: u32,
    pub left: u32,
    pub right: u32,
}

/// Count of each pair of bytes, at `left << 8 | right`; and all positions, those of one pair together and ascending:
/// `starts[pair]..starts[pair + 1]`.
pub struct BytePairs {
    pub counts: Vec<u64>,
    pub starts: Vec<u32>,
    pub positions: Vec<u32>,
}

const BYTE_PAIRS: usize = 1 << 16;

impl<C: Cell> Sequences<C> {
    /// Pretokens of one byte have no pairs and are left out.
    pub fn new(counts: &PretokenCounts) -> Result<Self> {
        let len_of = |i: u32| counts.pretoken(i as usize).len();
        let mut order: Vec<u32> = (0..counts.len() as u32).filter(|&i| len_of(i) > 1).collect();
        order.sort_unstable_by_key(|&i| std::cmp::Reverse(counts.counts()[i as usize]));
        let mut sequences = Self::with_cells(1 + order.iter().map(|&i| len_of(i) + 1).sum::<usize>())?;
        for index in order {
            let cells = counts.pretoken(index as usize).iter().map(|&byte| C::from_id(u32::from(byte)));
            sequences.push(cells, counts.counts()[index as usize]);
        }
        Ok(sequences)
    }

    /// Pretokens that are tokens already, of any length.
    pub fn from_tokens(pretokens: &[(Vec<u32>, u64)], lengths: &[u32]) -> Result<Self> {
        let len_of = |ids: &[u32]| ids.iter().map(|&id| lengths[id as usize] as usize).sum::<usize>();
        let mut order: Vec<&(Vec<u32>, u64)> = pretokens.iter().collect();
        order.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut sequences =
            Self::with_cells(1 + order.iter().map(|(ids, _)| len_of(ids) + 1).sum::<usize>())?;
        for (ids, count) in order {
            let cells = ids.iter().flat_map(|&id| {
                let len = lengths[id as usize];
                (0..len).map(move |i| if i == 0 || i == len - 1 { C::from_id(id) } else { C::GONE })
            });
            sequences.push(cells, *count);
        }
        Ok(sequences)
    }

    fn with_cells(num_cells: usize) -> Result<Self> {
        if num_cells >= u32::MAX as usize {
            return Err(Error::vocab(format!(
                "the distinct pretokens hold {num_cells} bytes, more than the 2^32 that training can address"
            ))
            .hint("drop rare pretokens first: `tokenmill count --min-count 2`"));
        }
        let mut cells = with_huge_pages(num_cells);
        cells.push(C::EDGE);
        Ok(Sequences { cells, steps: Vec::new() })
    }

    /// Add a pretoken that is no more frequent than the one before it.
    fn push(&mut self, cells: impl Iterator<Item = C>, count: u64) {
        if self.steps.last().is_none_or(|step| step.1 != count) {
            self.steps.push((self.cells.len() as u32, count));
        }
        self.cells.extend(cells);
        self.cells.push(C::EDGE);
    }

    /// Count and find all pairs while every token is a single byte: how many positions each pair has, then the
    /// positions, then what they add up to. The tables of the first two passes fit the second-level cache.
    pub fn byte_pairs(&self, threads: usize) -> Result<BytePairs> {
        let part = self.cells.len().div_ceil(threads).max(1);
        let ranges: Vec<(usize, usize)> = (1..self.cells.len())
            .step_by(part)
            .map(|at| (at, (at + part).min(self.cells.len() - 1)))
            .collect();
        let numbers: Vec<Vec<u32>> = in_parallel(&ranges, |&range| {
            let mut numbers = vec![0u32; BYTE_PAIRS];
            self.for_each_byte_pair(range, |pair, _| numbers[pair] += 1);
            numbers
        });
        // Behind the positions of one pair come those of the next, and within a pair those of each range in turn.
        let mut starts = vec![0u32; BYTE_PAIRS + 1];
        let mut cursors = vec![vec![0u32; BYTE_PAIRS]; ranges.len()];
        let mut at = 0;
        for pair in 0..BYTE_PAIRS {
            starts[pair] = at;
            for (numbers, cursor) in numbers.iter().zip(&mut cursors) {
                cursor[pair] = at;
                at += numbers[pair];
            }
        }
        starts[BYTE_PAIRS] = at;
        let mut positions = zeros_on_huge_pages(at as usize);
        let shared = as_atomics(&mut positions);
        let work: Vec<_> = ranges.into_iter().zip(cursors).collect();
        in_parallel(&work, |(range, cursors)| {
            let mut cursors = cursors.clone();
            self.for_each_byte_pair(*range, |pair, position| {
                shared[cursors[pair] as usize].store(position, Ordering::Relaxed);
                cursors[pair] += 1;
            });
        });
        let counts = starts.windows(2).map(|w| self.sum(&positions[w[0] as usize..w[1] as usize]));
        Ok(BytePairs { counts: counts.collect::<Result<_>>()?, starts, positions })
    }

    fn for_each_byte_pair(&self, (start, end): (usize, usize), mut visit: impl FnMut(usize, u32)) {
        for (index, two) in self.cells[start..=end].windows(2).enumerate() {
            if two[0] != C::EDGE && two[1] != C::EDGE {
                visit((two[0].id() << 8 | two[1].id()) as usize, (start + index) as u32);
            }
        }
    }

    /// How often the ascending `positions` occur in the text, all together.
    fn sum(&self, positions: &[u32]) -> Result<u64> {
        let mut counts = CountAt { steps: &self.steps, step: 0 };
        let sum = positions.iter().try_fold(0u64, |sum, &position| sum.checked_add(counts.at(position)));
        sum.ok_or_else(too_frequent)
    }

    /// Give every pair of neighbours with its position and count to `visit`. `lengths[id]` is in cells.
    pub fn for_each_pair(&self, lengths: &[u32], mut visit: impl FnMut(Pair, u32, u64)) {
        let mut counts = CountAt { steps: &self.steps, step: 0 };
        let mut at = 1;
        while at < self.cells.len() {
            let id = self.cells[at].id();
            if id == EDGE {
                at += 1;
                continue;
            }
            let next = at + lengths[id as usize] as usize;
            let right = self.cells[next].id();
            if right != EDGE {
                visit(Pair::new(id, right), at as u32, counts.at(at as u32));
            }
            at = next;
        }
    }

    /// Replace `pair` by `joined` at each of the ascending `positions` where it still stands, the leftmost first
    /// where two overlap, and give each event with its count to `visit`.
    pub fn merge(
        &mut self,
        pair: Pair,
        joined: u32,
        positions: &[u32],
        lengths: &[u32],
        mut visit: impl FnMut(Event, u64),
    ) {
        const AHEAD: usize = 16;
        let (left_id, right_id) = (C::from_id(pair.left()), C::from_id(pair.right()));
        let joined = C::from_id(joined);
        let left_len = lengths[pair.left() as usize] as usize;
        let len = left_len + lengths[pair.right() as usize] as usize;
        let mut counts = CountAt { steps: &self.steps, step: 0 };
        let cells = &mut self.cells[..];
        for (index, &position) in positions.iter().enumerate() {
            if let Some(&ahead) = positions.get(index + AHEAD) {
                prefetch(cells, ahead as usize);
            }
            let at = position as usize;
            if cells[at] != left_id || cells[at + left_len] != right_id {
                continue;
            }
            let (left, right) = (cells[at - 1].id(), cells[at + len].id());
            cells[at + left_len] = C::GONE;
            cells[at] = joined;
            cells[at + len - 1] = joined;
            visit(Event { position, left, right }, counts.at(position));
        }
    }

    /// The id whose last cell is just before `position`.
    pub fn left_of(&self, position: u32) -> u32 {
        self.cells[position as usize - 1].id()
    }

    /// The id whose first cell is at `position`.
    pub fn starting_at(&self, position: u32) -> u32 {
        self.cells[position as usize].id()
    }
}

fn in_parallel<W: Sync, T: Send>(work: &[W], run: impl Fn(&W) -> T + Sync) -> Vec<T> {
    match work {
        [one] => vec![run(one)],
        many => std::thread::scope(|scope| {
            let handles: Vec<_> = many.iter().map(|one| scope.spawn(|| run(one))).collect();
            handles.into_iter().map(|h| h.join().expect("counting pairs does not panic")).collect()
        }),
    }
}

/// Counts of ascending positions: each search goes on from the last one, in steps that double.
struct CountAt<'a> {
    steps: &'a [(u32, u64)],
    step: usize,
}

impl CountAt<'_> {
    #[inline]
    fn at(&mut self, position: u32) -> u64 {
        if self.steps.get(self.step + 1).is_some_and(|next| next.0 <= position) {
            let mut stride = 1;
            while self.steps.get(self.step + stride).is_some_and(|s| s.0 <= position) {
                self.step += stride;
                stride *= 2;
            }
            let ahead = &self.steps[self.step..self.steps.len().min(self.step + stride)];
            self.step += ahead.partition_point(|s| s.0 <= position) - 1;
        }
        self.steps[self.step].1
    }
}

#[inline(always)]
fn prefetch<C>(cells: &[C], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(cells.as_ptr().wrapping_add(index).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (cells, index);
}
