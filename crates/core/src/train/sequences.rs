//! The distinct pretokens as one flat array of cells, most frequent first, so that how often a position occurs in
//! the text is a step function of the position.
//!
//! A cell is a byte of a pretoken. A token writes its id into its first and its last cell; what lies between is
//! never read. The left neighbour of the token at `p` is the id in cell `p - 1`, its right neighbour the id just
//! past its end, whatever their lengths: a pretoken of a gigabyte costs no more per merge than a short one.

use super::Pair;
use crate::count::PretokenCounts;
use crate::error::{Error, Result};

/// Between two pretokens, and at both ends.
pub const EDGE: u32 = u32::MAX;
/// The first cell of a token that became the right part of a longer one.
const GONE: u32 = u32::MAX - 1;

pub struct Sequences {
    cells: Vec<u32>,
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

impl Sequences {
    /// Pretokens of one byte have no pairs and are left out.
    pub fn new(counts: &PretokenCounts) -> Result<Self> {
        let len_of = |i: u32| counts.pretoken(i as usize).len();
        let mut order: Vec<u32> = (0..counts.len() as u32).filter(|&i| len_of(i) > 1).collect();
        order.sort_unstable_by_key(|&i| std::cmp::Reverse(counts.counts()[i as usize]));
        let mut sequences = Self::with_cells(1 + order.iter().map(|&i| len_of(i) + 1).sum::<usize>())?;
        for index in order {
            let cells = counts.pretoken(index as usize).iter().map(|&byte| u32::from(byte));
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
                (0..len).map(move |i| if i == 0 || i == len - 1 { id } else { GONE })
            });
            sequences.push(cells, *count);
        }
        Ok(sequences)
    }

    fn with_cells(num_cells: usize) -> Result<Self> {
        if num_cells >= GONE as usize {
            return Err(Error::vocab(format!(
                "the distinct pretokens hold {num_cells} bytes, more than the 2^32 that training can address"
            ))
            .hint("drop rare pretokens first: `tokenmill count --min-count 2`"));
        }
        let mut cells = Vec::with_capacity(num_cells);
        cells.push(EDGE);
        Ok(Sequences { cells, steps: Vec::new() })
    }

    /// Add a pretoken that is no more frequent than the one before it.
    fn push(&mut self, cells: impl Iterator<Item = u32>, count: u64) {
        if self.steps.last().is_none_or(|step| step.1 != count) {
            self.steps.push((self.cells.len() as u32, count));
        }
        self.cells.extend(cells);
        self.cells.push(EDGE);
    }

    /// Give every pair of neighbours with its position and count to `visit`. `lengths[id]` is in cells.
    pub fn for_each_pair(&self, lengths: &[u32], mut visit: impl FnMut(Pair, u32, u64)) {
        let mut counts = self.counts();
        let mut at = 1;
        while at < self.cells.len() {
            let id = self.cells[at];
            if id == EDGE {
                at += 1;
                continue;
            }
            let next = at + lengths[id as usize] as usize;
            let right = self.cells[next];
            if right != EDGE {
                visit(Pair::new(id, right), at as u32, counts.at(at as u32));
            }
            at = next;
        }
    }

    fn counts(&self) -> CountAt<'_> {
        CountAt { steps: &self.steps, step: 0 }
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
        let left_len = lengths[pair.left() as usize] as usize;
        let len = left_len + lengths[pair.right() as usize] as usize;
        let mut counts = CountAt { steps: &self.steps, step: 0 };
        let cells = &mut self.cells[..];
        for (index, &position) in positions.iter().enumerate() {
            if let Some(&ahead) = positions.get(index + AHEAD) {
                prefetch(cells, ahead as usize);
            }
            let at = position as usize;
            if cells[at] != pair.left() || cells[at + left_len] != pair.right() {
                continue;
            }
            let (left, right) = (cells[at - 1], cells[at + len]);
            cells[at + left_len] = GONE;
            cells[at] = joined;
            cells[at + len - 1] = joined;
            visit(Event { position, left, right }, counts.at(position));
        }
    }

    /// The id whose last cell is just before `position`.
    pub fn left_of(&self, position: u32) -> u32 {
        self.cells[position as usize - 1]
    }

    /// The id whose first cell is at `position`.
    pub fn starting_at(&self, position: u32) -> u32 {
        self.cells[position as usize]
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
fn prefetch(cells: &[u32], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(cells.as_ptr().wrapping_add(index).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (cells, index);
}
