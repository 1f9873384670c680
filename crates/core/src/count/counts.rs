//! Pretoken → occurrences, as flat arrays.

use crate::error::{Error, Result};

/// Distinct, non-empty pretokens with their counts, which are never zero. `ends[i]` is where pretoken `i` ends
/// in `data`; it starts where the one before it ends.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct PretokenCounts {
    data: Vec<u8>,
    ends: Vec<u64>,
    counts: Vec<u64>,
    sorted: bool,
}

impl PretokenCounts {
    pub(super) fn with_capacity(len: usize) -> Self {
        let (ends, counts) = (Vec::with_capacity(len), Vec::with_capacity(len));
        PretokenCounts { data: Vec::new(), ends, counts, sorted: false }
    }

    pub(super) fn push(&mut self, pretoken: &[u8], count: u64) {
        self.data.extend_from_slice(pretoken);
        self.ends.push(self.data.len() as u64);
        self.counts.push(count);
    }

    /// Any pairs of pretoken and count, repeats added up.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a [u8], u64)>) -> Result<Self> {
        let mut all = PretokenCounts::default();
        for (pretoken, count) in pairs {
            if pretoken.is_empty() {
                return Err(Error::format("counts hold an empty pretoken"));
            }
            if count == 0 {
                return Err(Error::format(format!(
                    "pretoken `{}` has the count 0",
                    String::from_utf8_lossy(pretoken)
                )));
            }
            all.push(pretoken, count);
        }
        all.sort();
        all.add_up()
    }

    pub fn len(&self) -> usize {
        self.counts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    #[inline]
    pub fn pretoken(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.data[start as usize..self.ends[index] as usize]
    }

    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    pub fn data(&self) -> &[u8] {
        &self.data
    }

    pub fn ends(&self) -> &[u64] {
        &self.ends
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        (0..self.len()).map(|i| (self.pretoken(i), self.counts[i]))
    }

    /// Sum of all counts.
    pub fn occurrences(&self) -> u128 {
        self.counts.iter().map(|&c| u128::from(c)).sum()
    }

    /// Bytes of the text that was counted.
    pub fn total_bytes(&self) -> u128 {
        self.iter().map(|(pretoken, count)| pretoken.len() as u128 * u128::from(count)).sum()
    }

    /// Order by bytes. Counting leaves no order, so that training need not pay for one.
    pub fn sort(&mut self) {
        if self.sorted {
            return;
        }
        let mut order: Vec<(u64, u32)> = (0..self.len()).map(|i| (self.prefix(i), i as u32)).collect();
        order.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| self.pretoken(a.1 as usize).cmp(self.pretoken(b.1 as usize)))
        });
        let mut sorted = PretokenCounts::with_capacity(self.len());
        sorted.data.reserve_exact(self.data.len());
        for (_, index) in order {
            sorted.push(self.pretoken(index as usize), self.counts[index as usize]);
        }
        *self = PretokenCounts { sorted: true, ..sorted };
    }

    /// The first eight bytes as a number that compares as they do; most comparisons end there.
    fn prefix(&self, index: usize) -> u64 {
        let pretoken = self.pretoken(index);
        let mut first = [0; 8];
        let len = pretoken.len().min(8);
        first[..len].copy_from_slice(&pretoken[..len]);
        u64::from_be_bytes(first)
    }

    /// Sum of two counts, sorted. Sums are checked.
    pub fn plus(mut self, mut other: PretokenCounts) -> Result<Self> {
        self.sort();
        other.sort();
        let mut sum = PretokenCounts::with_capacity(self.len().max(other.len()));
        let (mut i, mut j) = (0, 0);
        while i < self.len() || j < other.len() {
            let order = match (i < self.len(), j < other.len()) {
                (true, true) => self.pretoken(i).cmp(other.pretoken(j)),
                (true, false) => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Greater,
            };
            let from_self = order != std::cmp::Ordering::Greater;
            let pretoken = if from_self { self.pretoken(i) } else { other.pretoken(j) };
            let left = if from_self { self.counts[i] } else { 0 };
            let right = if order != std::cmp::Ordering::Less { other.counts[j] } else { 0 };
            sum.push(pretoken, left.checked_add(right).ok_or_else(|| overflow(pretoken))?);
            i += usize::from(from_self);
            j += usize::from(order != std::cmp::Ordering::Less);
        }
        Ok(PretokenCounts { sorted: true, ..sum })
    }

    /// Sorted, with neighbours that are equal made one.
    fn add_up(self) -> Result<Self> {
        let mut sum = PretokenCounts::with_capacity(self.len());
        for (pretoken, count) in self.iter() {
            if !sum.is_empty() && sum.pretoken(sum.len() - 1) == pretoken {
                let last = sum.counts.last_mut().expect("not empty");
                *last = last.checked_add(count).ok_or_else(|| overflow(pretoken))?;
            } else {
                sum.push(pretoken, count);
            }
        }
        Ok(PretokenCounts { sorted: true, ..sum })
    }

    /// Only pretokens that occur at least so often.
    pub fn at_least(&self, min_count: u64) -> Self {
        let mut kept = PretokenCounts::default();
        for (pretoken, count) in self.iter().filter(|(_, count)| *count >= min_count) {
            kept.push(pretoken, count);
        }
        PretokenCounts { sorted: self.sorted, ..kept }
    }

    /// The `n` most frequent, ties in byte order.
    pub fn most_common(&self, n: usize) -> Vec<(&[u8], u64)> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        let by_count = |a: &u32, b: &u32| {
            let (a, b) = (*a as usize, *b as usize);
            self.counts[b].cmp(&self.counts[a]).then_with(|| self.pretoken(a).cmp(self.pretoken(b)))
        };
        if n < order.len() {
            order.select_nth_unstable_by(n, by_count);
            order.truncate(n);
        }
        order.sort_unstable_by(by_count);
        order.into_iter().map(|i| (self.pretoken(i as usize), self.counts[i as usize])).collect()
    }
}

fn overflow(pretoken: &[u8]) -> Error {
    let pretoken = String::from_utf8_lossy(pretoken).into_owned();
    Error::Overflow { message: format!("pretoken `{pretoken}` occurs more than 2^64 - 1 times") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_checked_and_sorted() {
        let a = PretokenCounts::from_pairs([(&b"b"[..], 2), (b"a", 1), (b"b", 3)]).unwrap();
        let b = PretokenCounts::from_pairs([(&b"ab"[..], 7), (b"b", 1 << 40)]).unwrap();
        let sum = a.clone().plus(b).unwrap();
        let pairs: Vec<_> = sum.iter().collect();
        assert_eq!(pairs, [(&b"a"[..], 1), (b"ab", 7), (b"b", (1 << 40) + 5)]);
        let full = PretokenCounts::from_pairs([(&b"b"[..], u64::MAX)]).unwrap();
        assert!(matches!(a.plus(full), Err(Error::Overflow { .. })));
        assert!(PretokenCounts::from_pairs([(&b""[..], 1)]).is_err());
        assert!(PretokenCounts::from_pairs([(&b"a"[..], 0)]).is_err());
    }

    #[test]
    fn the_order_is_that_of_bytes_also_behind_the_eighth() {
        let words: [&[u8]; 5] = [b"aaaaaaaab", b"aaaaaaaa", b"\xff", b"aaaaaaaa\0", b"a"];
        let counts = PretokenCounts::from_pairs(words.map(|w| (w, 1))).unwrap();
        let mut expected = words;
        expected.sort();
        assert!(counts.iter().map(|(w, _)| w).eq(expected));
        assert_eq!(counts.most_common(2), [(&b"a"[..], 1), (b"aaaaaaaa", 1)]);
    }
}
