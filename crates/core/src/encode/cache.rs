//! Pretokens that were encoded before, with their ids: in as much memory as they need, up to a fixed amount, no matter
//! how much text passes.
//!
//! Three tables. Pretokens of up to 15 bytes and 4 ids lie two to a cache line; those of up to 31 bytes and 8 ids have
//! a line each; longer ones, runs of spaces and dashes above all, an allocation each. A pretoken has one line where it
//! may be; a new one pushes out an older one of that line. Keys are the bytes themselves, so a hit is never a guess.

use super::Output;
use crate::hash::{Key, SHORT_MAX, fold, hash_bytes, hash_key, prefetch, short_key};
use crate::memory::with_huge_pages;

/// Longest pretoken that is kept.
const LONG_MAX: usize = 4096;
/// What a long pretoken costs beside its bytes and ids.
const LONG_EXTRA: usize = 64;
/// Longest pretoken of the second table.
pub const MEDIUM_MAX: usize = 31;
const SHORT_IDS: usize = 4;
const MEDIUM_IDS: usize = 8;
/// In place of the number of ids of a short pretoken: it has more than fit here, the second table may have them. So
/// one that was never seen costs no look at that table.
pub const ELSEWHERE: usize = 15;
/// The number of ids stands above the first one, which has at most 21 bits.
const COUNT_SHIFT: u32 = 24;
const ID_MASK: u32 = (1 << COUNT_SHIFT) - 1;

#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Short {
    key: Key,
    ids: [u32; SHORT_IDS],
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct ShortLine([Short; 2]);

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Medium {
    /// The bytes, zeros, and the length in the last byte; all zero if unused.
    key: [Key; 2],
    ids: [u32; MEDIUM_IDS],
}

/// Marks the key of a piece: the top byte otherwise has a length of at most 15.
const PIECE: Key = 1 << 127;

/// A short pretoken on its way to its line.
#[derive(Clone, Copy, Default)]
pub struct Probe {
    key: Key,
    line: u32,
}

impl Probe {
    #[inline(always)]
    pub fn is_piece(self) -> bool {
        self.key & PIECE != 0
    }
}

pub struct Cache {
    short: Vec<ShortLine>,
    medium: Vec<Medium>,
    long: Vec<Option<Box<Long>>>,
    /// Bytes that long pretokens take, and how many they may: then all of them go.
    long_bytes: usize,
    long_budget: usize,
    /// Pretokens put in since the tables had this size: when they could fill half of it, they move to larger ones.
    inserted: usize,
    /// The size now, and the largest there may be.
    bytes: usize,
    budget: usize,
}

/// How much larger the next size is.
const GROWTH: usize = 4;

struct Long {
    pretoken: Box<[u8]>,
    ids: Box<[u32]>,
}

const NO_LINE: ShortLine = ShortLine([Short { key: 0, ids: [0; SHORT_IDS] }; 2]);
const NO_MEDIUM: Medium = Medium { key: [0; 2], ids: [0; MEDIUM_IDS] };

impl Cache {
    /// At most `budget` bytes of memory, one line of each table at least; room for so many short pretokens at first.
    pub fn new(budget: usize, pretokens: usize) -> Self {
        Self::of_size(
            pretokens.saturating_mul(size_of::<Short>() * 4).clamp(1 << 16, budget.max(1 << 16)),
            budget,
        )
    }

    /// Half of it for short pretokens.
    fn of_size(bytes: usize, budget: usize) -> Self {
        let bytes = bytes.min(budget);
        let lines = |bytes: usize, line: usize| 1usize << (bytes / line).max(1).ilog2().min(31);
        Cache {
            short: filled(lines(bytes / 2, 64), NO_LINE),
            medium: filled(lines(bytes / 4, 64), NO_MEDIUM),
            long: (0..lines(bytes / 4, 1024)).map(|_| None).collect(),
            long_bytes: 0,
            long_budget: bytes / 4,
            inserted: 0,
            bytes,
            budget,
        }
    }

    /// Whether larger tables would forget less.
    #[inline(always)]
    pub fn is_crowded(&self) -> bool {
        self.inserted > self.short.len() && self.bytes < self.budget
    }

    /// Move to larger tables. Probes made before mean nothing afterwards.
    #[cold]
    pub fn grow(&mut self) {
        let larger = Self::of_size(self.bytes.saturating_mul(GROWTH), self.budget);
        let old = std::mem::replace(self, larger);
        for entry in old.short.iter().flat_map(|line| line.0.iter().rev()).filter(|entry| entry.key != 0) {
            let probe = self.probe_key(entry.key);
            self.put_short(probe, entry.ids);
        }
        for entry in old.medium.iter().filter(|entry| entry.key != NO_MEDIUM.key) {
            let line = slot(hash_medium(entry.key), self.medium.len());
            self.medium[line] = *entry;
        }
        for long in old.long.iter().flatten() {
            self.insert_long(&long.pretoken, &long.ids);
        }
        self.inserted = 0;
    }

    pub fn memory(&self) -> usize {
        (self.short.len() + self.medium.len()) * 64 + self.long.len() * 8 + self.long_bytes
    }

    /// Where a pretoken of at most [`SHORT_MAX`] bytes would be; its line is on the way from now on.
    #[inline(always)]
    pub fn probe(&self, text: &[u8], start: usize, len: usize) -> Probe {
        self.probe_key(short_key(text, start, len))
    }

    /// The same for a piece of a pretoken, of any length; it need not have the ids it would have as a pretoken of its
    /// own.
    #[inline(always)]
    pub fn probe_piece(&self, text: &[u8], start: usize, len: usize) -> Probe {
        if len <= SHORT_MAX {
            return self.probe_key(short_key(text, start, len) | PIECE);
        }
        if len <= MEDIUM_MAX {
            prefetch(&self.medium, slot(hash_medium(piece_key(text, start, len)), self.medium.len()));
        }
        Probe { key: PIECE, line: 0 }
    }

    #[inline(always)]
    fn probe_key(&self, key: Key) -> Probe {
        let line = slot(hash_key(key), self.short.len());
        prefetch(&self.short, line);
        Probe { key, line: line as u32 }
    }

    /// Four words with the ids first, and how many of them are ids; [`ELSEWHERE`] if [`Cache::find`] knows more.
    #[inline(always)]
    pub fn short(&self, probe: Probe) -> Option<([u32; SHORT_IDS], usize)> {
        let line = &self.short[probe.line as usize].0;
        // Which of the two it is, nobody can predict.
        let entry = &line[usize::from(line[0].key != probe.key)];
        if entry.key != probe.key {
            return None;
        }
        let mut ids = entry.ids;
        let count = ids[0] >> COUNT_SHIFT;
        ids[0] &= ID_MASK;
        Some((ids, count as usize))
    }

    /// A pretoken of more than that and at most [`MEDIUM_MAX`] bytes will be looked for: its line is on the way.
    #[inline(always)]
    pub fn expect(&self, text: &[u8], start: usize, len: usize) {
        prefetch(&self.medium, slot(hash_medium(medium_key(text, start, len)), self.medium.len()));
    }

    /// Append the ids of a pretoken that [`Cache::short`] does not know; `false` if no other table does either.
    #[inline]
    pub fn find(&self, text: &[u8], start: usize, end: usize, out: &mut impl Output) -> bool {
        let pretoken = &text[start..end];
        if pretoken.len() <= MEDIUM_MAX {
            return self.find_medium(medium_key(text, start, end - start), out);
        } else if pretoken.len() <= LONG_MAX
            && let Some(long) = &self.long[slot(hash_bytes(pretoken), self.long.len())]
            && *long.pretoken == *pretoken
        {
            out.extend(&long.ids);
            return true;
        }
        false
    }

    /// Append the ids of a piece of more than [`SHORT_MAX`] bytes; `false` if it is not known.
    #[inline]
    pub fn find_piece(&self, text: &[u8], start: usize, end: usize, out: &mut impl Output) -> bool {
        end - start <= MEDIUM_MAX && self.find_medium(piece_key(text, start, end - start), out)
    }

    #[inline]
    fn find_medium(&self, key: [Key; 2], out: &mut impl Output) -> bool {
        let entry = &self.medium[slot(hash_medium(key), self.medium.len())];
        if entry.key != key {
            return false;
        }
        let mut ids = entry.ids;
        let count = (ids[0] >> COUNT_SHIFT) as usize;
        ids[0] &= ID_MASK;
        out.extend(&ids[..count]);
        true
    }

    /// Keep the ids of a piece of more than [`SHORT_MAX`] bytes, if they fit.
    #[inline]
    pub fn insert_piece(&mut self, text: &[u8], start: usize, end: usize, ids: &[u32]) {
        if end - start <= MEDIUM_MAX && ids.len() <= MEDIUM_IDS {
            let key = piece_key(text, start, end - start);
            let line = slot(hash_medium(key), self.medium.len());
            self.inserted += 1;
            self.medium[line] = Medium { key, ids: packed(ids) };
        }
    }

    /// Keep the ids of a short pretoken or piece that was not found, if they fit.
    #[inline]
    pub fn insert_short(&mut self, probe: Probe, ids: &[u32]) {
        if ids.len() <= SHORT_IDS {
            self.put_short(probe, packed(ids));
        }
    }

    fn insert_long(&mut self, pretoken: &[u8], ids: &[u32]) {
        let size = |pretoken: &[u8], ids: &[u32]| pretoken.len() + ids.len() * 4 + LONG_EXTRA;
        let bytes = size(pretoken, ids);
        if pretoken.len() > LONG_MAX || bytes > self.long_budget {
            return;
        }
        if self.long_bytes + bytes > self.long_budget {
            self.long.iter_mut().for_each(|long| *long = None);
            self.long_bytes = 0;
        }
        let line = slot(hash_bytes(pretoken), self.long.len());
        let new = Box::new(Long { pretoken: pretoken.into(), ids: ids.into() });
        if let Some(old) = self.long[line].replace(new) {
            self.long_bytes -= size(&old.pretoken, &old.ids);
        }
        self.long_bytes += bytes;
    }

    #[inline]
    fn put_short(&mut self, probe: Probe, ids: [u32; SHORT_IDS]) {
        self.inserted += 1;
        let line = &mut self.short[probe.line as usize].0;
        if line[0].key != probe.key {
            line[1] = line[0];
        }
        line[0] = Short { key: probe.key, ids };
    }

    /// Keep the ids of a pretoken that was found in no table, if they fit.
    #[inline]
    pub fn insert(&mut self, pretoken: &[u8], ids: &[u32]) {
        if pretoken.len() <= SHORT_MAX && ids.len() <= SHORT_IDS {
            self.insert_short(self.probe(pretoken, 0, pretoken.len()), ids);
        } else if pretoken.len() <= MEDIUM_MAX && ids.len() <= MEDIUM_IDS {
            if pretoken.len() <= SHORT_MAX {
                let probe = self.probe(pretoken, 0, pretoken.len());
                self.put_short(probe, [(ELSEWHERE as u32) << COUNT_SHIFT, 0, 0, 0]);
            }
            let key = medium_key(pretoken, 0, pretoken.len());
            let line = slot(hash_medium(key), self.medium.len());
            self.inserted += 1;
            self.medium[line] = Medium { key, ids: packed(ids) };
        } else if pretoken.len() > MEDIUM_MAX {
            self.insert_long(pretoken, ids);
        }
    }
}

fn packed<const N: usize>(ids: &[u32]) -> [u32; N] {
    let mut packed = [0; N];
    packed[..ids.len()].copy_from_slice(ids);
    packed[0] |= (ids.len() as u32) << COUNT_SHIFT;
    packed
}

fn filled<T: Copy>(len: usize, value: T) -> Vec<T> {
    let mut lines = with_huge_pages(len);
    lines.resize(len, value);
    lines
}

#[inline(always)]
fn hash_medium(key: [Key; 2]) -> u64 {
    fold(hash_key(key[0]), hash_key(key[1]) | 1)
}

#[inline(always)]
fn medium_key(text: &[u8], start: usize, len: usize) -> [Key; 2] {
    debug_assert!(len <= MEDIUM_MAX);
    let half = |at: usize| Key::from_le_bytes(text[at..at + 16].try_into().expect("sixteen bytes"));
    let [low, high] = if text.len() - start >= 32 {
        [half(start), half(start + 16)]
    } else {
        let mut bytes = [0u8; 32];
        bytes[..len].copy_from_slice(&text[start..start + len]);
        let half = |at: usize| Key::from_le_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"));
        [half(0), half(16)]
    };
    let length = (len as Key) << 120;
    if len < 16 {
        [low & (Key::MAX >> (128 - 8 * len)), length]
    } else {
        [low, high & !(Key::MAX << (8 * (len - 16))) | length]
    }
}

#[inline(always)]
fn piece_key(text: &[u8], start: usize, len: usize) -> [Key; 2] {
    let [low, high] = medium_key(text, start, len);
    [low, high | PIECE]
}

/// The line of a hash in a table of a power of two of lines, which may be one.
#[inline(always)]
fn slot(hash: u64, lines: usize) -> usize {
    (hash >> 32) as usize & (lines - 1)
}
