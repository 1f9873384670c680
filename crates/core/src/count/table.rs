//! Where one thread counts: an open-addressed table for pretokens of up to 15 bytes, keyed by the bytes
//! themselves, and one for longer pretokens, keyed by a hash and checked against bytes kept in an arena.
//!
//! Pretokens wait in small batches so that the cache line each one needs is on its way before it is asked for.

use super::PretokenCounts;
use crate::error::{Error, Result};
use crate::hash::{Key, SEED, SHORT_MAX, hash_bytes, hash_key, prefetch, short_key, slot_of};

const BATCH: usize = 128;
const INITIAL_SLOTS: usize = 1 << 14;

#[derive(Clone, Copy, Default)]
struct ShortSlot {
    low: u64,
    high: u64,
    count: u64,
}

#[derive(Clone, Copy, Default)]
struct LongEntry {
    hash: u64,
    start: u64,
    len: u64,
    count: u64,
}

/// `short` and `long_slots` have a power of two of slots, at most three quarters full; a slot with `high` 0 (or
/// with `long_slots` value 0) is empty. `long_slots[i]` is 1 + an index into `long`.
pub struct CountTable {
    short: Vec<ShortSlot>,
    short_len: usize,
    long_slots: Vec<u32>,
    long: Vec<LongEntry>,
    arena: Vec<u8>,
    pending: Pending,
    /// Slots looked at while adding short pretokens.
    #[cfg(test)]
    probes: u64,
}

/// Pretokens of the text being split that are not in the table yet.
struct Pending {
    short: [(Key, u64); BATCH],
    short_len: usize,
    long: [(usize, usize, u64); BATCH],
    long_len: usize,
}

impl Default for CountTable {
    fn default() -> Self {
        Self::new()
    }
}

impl CountTable {
    pub fn new() -> Self {
        CountTable {
            short: vec![ShortSlot::default(); INITIAL_SLOTS],
            short_len: 0,
            long_slots: vec![0; INITIAL_SLOTS],
            long: Vec::new(),
            arena: Vec::new(),
            pending: Pending { short: [(0, 0); BATCH], short_len: 0, long: [(0, 0, 0); BATCH], long_len: 0 },
            #[cfg(test)]
            probes: 0,
        }
    }

    /// Count `text[start..end]` once. It may wait until [`CountTable::flush`] with the same text.
    #[inline(always)]
    pub fn count(&mut self, text: &[u8], start: usize, end: usize) {
        let len = end - start;
        if len <= SHORT_MAX {
            let key = short_key(text, start, len);
            let hash = hash_key(key);
            prefetch(&self.short, slot_of(hash, self.short.len()));
            self.pending.short[self.pending.short_len] = (key, hash);
            self.pending.short_len += 1;
            if self.pending.short_len == BATCH {
                self.flush_short();
            }
        } else {
            let hash = hash_bytes(&text[start..end]);
            prefetch(&self.long_slots, slot_of(hash, self.long_slots.len()));
            self.pending.long[self.pending.long_len] = (start, end, hash);
            self.pending.long_len += 1;
            if self.pending.long_len == BATCH {
                self.flush_long(text);
            }
        }
    }

    /// Bring everything that waits into the table; `text` is the one the waiting pretokens were cut from.
    pub fn flush(&mut self, text: &[u8]) {
        self.flush_short();
        self.flush_long(text);
    }

    fn flush_short(&mut self) {
        for index in 0..self.pending.short_len {
            let (key, hash) = self.pending.short[index];
            self.add_short(key, hash, 1);
        }
        self.pending.short_len = 0;
    }

    fn flush_long(&mut self, text: &[u8]) {
        for index in 0..self.pending.long_len {
            let (start, end, hash) = self.pending.long[index];
            self.add_long(&text[start..end], hash, 1);
        }
        self.pending.long_len = 0;
    }

    /// Counts are u64: at one pretoken a nanosecond they last for six centuries, so only sums of tables and of
    /// files are checked for overflow.
    #[inline]
    fn add_short(&mut self, key: Key, hash: u64, count: u64) -> u64 {
        let (low, high) = (key as u64, (key >> 64) as u64);
        let mask = self.short.len() - 1;
        let mut at = slot_of(hash, self.short.len());
        loop {
            #[cfg(test)]
            {
                self.probes += 1;
            }
            let slot = &mut self.short[at & mask];
            if slot.low == low && slot.high == high {
                slot.count = slot.count.wrapping_add(count);
                return slot.count;
            }
            if slot.high == 0 {
                *slot = ShortSlot { low, high, count };
                self.short_len += 1;
                if self.short_len * 4 > self.short.len() * 3 {
                    self.grow_short();
                }
                return count;
            }
            at += 1;
        }
    }

    #[inline]
    fn add_long(&mut self, bytes: &[u8], hash: u64, count: u64) -> u64 {
        let mask = self.long_slots.len() - 1;
        let mut at = slot_of(hash, self.long_slots.len());
        loop {
            let slot = self.long_slots[at & mask];
            if slot == 0 {
                break;
            }
            let entry = &mut self.long[slot as usize - 1];
            if entry.hash == hash
                && entry.len == bytes.len() as u64
                && &self.arena[entry.start as usize..][..bytes.len()] == bytes
            {
                entry.count = entry.count.wrapping_add(count);
                return entry.count;
            }
            at += 1;
        }
        self.long.push(LongEntry { hash, start: self.arena.len() as u64, len: bytes.len() as u64, count });
        self.arena.extend_from_slice(bytes);
        self.long_slots[at & mask] = self.long.len() as u32;
        if self.long.len() * 4 > self.long_slots.len() * 3 {
            self.grow_long();
        }
        count
    }

    #[cold]
    fn grow_short(&mut self) {
        let slots = vec![ShortSlot::default(); self.short.len() * 2];
        let old = std::mem::replace(&mut self.short, slots);
        let mask = self.short.len() - 1;
        for slot in old.into_iter().filter(|slot| slot.high != 0) {
            let hash = hash_key(u128::from(slot.high) << 64 | u128::from(slot.low));
            let mut at = slot_of(hash, self.short.len());
            while self.short[at & mask].high != 0 {
                at += 1;
            }
            self.short[at & mask] = slot;
        }
    }

    #[cold]
    fn grow_long(&mut self) {
        let len = self.long_slots.len() * 2;
        self.long_slots.clear();
        self.long_slots.resize(len, 0);
        for (index, entry) in self.long.iter().enumerate() {
            let mut at = slot_of(entry.hash, len);
            while self.long_slots[at & (len - 1)] != 0 {
                at += 1;
            }
            self.long_slots[at & (len - 1)] = index as u32 + 1;
        }
    }

    /// Add everything `other` counted.
    pub fn add(&mut self, other: CountTable) -> Result<()> {
        let overflow = || Error::Overflow { message: "a pretoken occurs more than 2^64 - 1 times".into() };
        // Not from slot to slot: keys that come in the order of their hashes pile up in a smaller table, each probe
        // walking over all that came before (32 MB of base64 took half a minute).
        let mask = other.short.len() - 1;
        let scattered = (0..other.short.len()).map(|i| &other.short[i.wrapping_mul(SEED[0] as usize) & mask]);
        for slot in scattered.filter(|slot| slot.high != 0) {
            let key = u128::from(slot.high) << 64 | u128::from(slot.low);
            if self.add_short(key, hash_key(key), slot.count) < slot.count {
                return Err(overflow());
            }
        }
        for entry in &other.long {
            let bytes = &other.arena[entry.start as usize..][..entry.len as usize];
            if self.add_long(bytes, entry.hash, entry.count) < entry.count {
                return Err(overflow());
            }
        }
        Ok(())
    }

    /// The counts, in no particular order.
    pub fn into_counts(self) -> PretokenCounts {
        let mut counts = PretokenCounts::with_capacity(self.short_len + self.long.len());
        for slot in self.short.iter().filter(|slot| slot.high != 0) {
            let key = u128::from(slot.high) << 64 | u128::from(slot.low);
            counts.push(&key.to_le_bytes()[..(slot.high >> 56) as usize], slot.count);
        }
        drop(self.short);
        for entry in &self.long {
            counts.push(&self.arena[entry.start as usize..][..entry.len as usize], entry.count);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_every_length_come_back() {
        let text: Vec<u8> = (0..200u8).cycle().take(5000).collect();
        let mut table = CountTable::new();
        let mut expected = std::collections::BTreeMap::<Vec<u8>, u64>::new();
        for round in 0..3 {
            for len in 1..40 {
                for start in (0..text.len() - len).step_by(len + round) {
                    table.count(&text, start, start + len);
                    *expected.entry(text[start..start + len].to_vec()).or_default() += 1;
                }
            }
        }
        table.count(&text, 4990, 5000);
        *expected.entry(text[4990..].to_vec()).or_default() += 1;
        table.flush(&text);
        let mut counts = table.into_counts();
        counts.sort();
        assert!(counts.iter().eq(expected.iter().map(|(k, v)| (k.as_slice(), *v))));
    }

    #[test]
    fn adding_tables_does_not_pile_up() {
        let filled = |n: u64| {
            let mut table = CountTable::new();
            for i in 0..n {
                let key = short_key(&i.to_le_bytes(), 0, 8);
                table.add_short(key, hash_key(key), 1);
            }
            table
        };
        let mut small = filled(10);
        small.add(filled(100_000)).unwrap();
        assert!(small.probes < 500_000, "{} probes for 100,000 keys", small.probes);
    }

    #[test]
    fn sums_beyond_u64_are_errors() {
        let table = |count| {
            let mut table = CountTable::new();
            table.add_short(short_key(b"a", 0, 1), hash_key(short_key(b"a", 0, 1)), count);
            table
        };
        let mut sum = table(u64::MAX - 1);
        assert!(sum.add(table(1)).is_ok());
        assert!(sum.add(table(1)).is_err());
    }
}
