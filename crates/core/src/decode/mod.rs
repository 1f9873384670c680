//! Token ids in, bytes out: a record of sixteen bytes for each id, copied whole whether all of it counts or not.

mod utf16;

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::vocab::Vocab;

const INLINE: usize = 15;
/// In the last byte of a record: the token is longer, and the record holds its place in `long` instead.
const IS_LONG: u8 = 16;
/// In the last byte of a record: no token has this id.
const UNKNOWN: u8 = 255;
/// Ids between two looks at whether there is room for what they spell.
const STRIDE: usize = 512;

pub struct Decoder {
    /// The bytes of a token, and their number in the last byte.
    records: Vec<[u8; 16]>,
    /// The last byte of every record, close together: what measuring needs.
    lens: Vec<u8>,
    long: Vec<u8>,
    /// Whether ids without a token spell nothing, or are an error.
    skips_unknown: bool,
    /// Made when first needed.
    utf16: OnceLock<utf16::Utf16Records>,
}

/// A token id as somebody keeps it; what does not fit 32 bits is no id.
pub trait AsId: Copy {
    fn as_id(self) -> Option<u32>;
    fn show(self) -> String;
}

macro_rules! as_id {
    ($($integer:ty),*) => {$(
        impl AsId for $integer {
            #[inline(always)]
            fn as_id(self) -> Option<u32> {
                u32::try_from(self).ok()
            }
            fn show(self) -> String {
                self.to_string()
            }
        }
    )*};
}
as_id!(u8, i8, u16, i16, u32, i32, u64, i64);

impl Decoder {
    pub fn new(vocab: &Vocab) -> Self {
        Decoder::with_tokens((0..vocab.size() as u32).map(|id| vocab.token(id)), false)
    }

    /// Tokens by id; ids that have none, or an empty one, are left out of what is decoded.
    pub fn skipping_unknown<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Self {
        Decoder::with_tokens(tokens, true)
    }

    fn with_tokens<'a>(tokens: impl Iterator<Item = &'a [u8]>, skips_unknown: bool) -> Self {
        let (mut records, mut long) = (Vec::with_capacity(tokens.size_hint().0), Vec::new());
        for token in tokens {
            let mut record = [0; 16];
            if token.is_empty() && !skips_unknown {
                record[15] = UNKNOWN;
            } else if token.len() <= INLINE {
                record[..token.len()].copy_from_slice(token);
                record[15] = token.len() as u8;
            } else {
                record[..4].copy_from_slice(&(long.len() as u32).to_le_bytes());
                record[4..8].copy_from_slice(&(token.len() as u32).to_le_bytes());
                record[15] = IS_LONG;
                long.extend_from_slice(token);
            }
            records.push(record);
        }
        let lens = records.iter().map(|record| record[15]).collect();
        Decoder { records, lens, long, skips_unknown, utf16: OnceLock::new() }
    }

    pub fn memory(&self) -> usize {
        let utf16 = self.utf16.get().map_or(0, |records| records.memory());
        self.records.len() * 17 + self.long.len() + utf16
    }

    /// The bytes of one id.
    pub fn token(&self, id: u32) -> Option<&[u8]> {
        let record = self.records.get(id as usize)?;
        match record[15] {
            UNKNOWN => None,
            IS_LONG => Some(self.long_token(record)),
            len => Some(&record[..len as usize]),
        }
    }

    fn long_token(&self, record: &[u8; 16]) -> &[u8] {
        let number = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four")) as usize;
        &self.long[number(0)..number(0) + number(4)]
    }

    /// The bytes of an id as somebody keeps it.
    fn token_of<I: AsId>(&self, id: I) -> Result<&[u8]> {
        match id.as_id() {
            Some(number) => match self.token(number) {
                Some(token) => Ok(token),
                None if self.skips_unknown => Ok(&[]),
                None => Err(self.unknown(id)),
            },
            None => Err(self.unknown(id)),
        }
    }

    /// Append the bytes of `ids` to `out`. An unknown id is an error, and what came before it is in `out`.
    pub fn decode<I: AsId>(&self, ids: &[I], out: &mut Vec<u8>) -> Result<()> {
        for stride in ids.chunks(STRIDE) {
            let mut rest = stride;
            while let Some((&id, after)) = self.decode_inline(rest, out).split_first() {
                out.extend_from_slice(self.token_of(id)?);
                rest = after;
            }
        }
        Ok(())
    }

    /// Append the first of `ids` as long as they are those of short tokens, and give back the others.
    fn decode_inline<'a, I: AsId>(&self, ids: &'a [I], out: &mut Vec<u8>) -> &'a [I] {
        out.reserve(ids.len() * 16);
        let mut done = 0;
        // SAFETY: sixteen bytes are reserved for each id and `at` moves on by at most fifteen for each, so all writes lie
        // in what is reserved; what is between the start and `at` has been written.
        unsafe {
            let start = out.as_mut_ptr().add(out.len());
            // The length is set once: in memory, each token would wait for that of the one before.
            let mut at = start;
            for &id in ids {
                let Some(record) = id.as_id().and_then(|id| self.records.get(id as usize)) else { break };
                let len = record[15];
                if len > INLINE as u8 {
                    break;
                }
                at.cast::<[u8; 16]>().write_unaligned(*record);
                at = at.add(usize::from(len));
                done += 1;
            }
            out.set_len(out.len() + at.offset_from(start) as usize);
        }
        &ids[done..]
    }

    /// The text of `ids` in UTF-16, `None` if one of them is unknown or if their bytes are not UTF-8.
    pub fn utf16<I: AsId>(&self, ids: &[I]) -> Option<Vec<u16>> {
        self.utf16.get_or_init(|| utf16::Utf16Records::new(self)).decode(self, ids)
    }

    /// Whether an eighth of the bytes of `ids` are not ASCII, going by some of them. Below that, UTF-8 is the shorter way
    /// to a Python string (docs/compat.md).
    pub fn is_beyond_ascii<I: AsId>(&self, ids: &[I]) -> bool {
        const LOOK_AT: usize = 32;
        let (mut beyond, mut all) = (0, 0);
        for &id in ids.iter().step_by(ids.len() / LOOK_AT + 1) {
            let token = self.token_of(id).unwrap_or_default();
            beyond += token.iter().filter(|byte| !byte.is_ascii()).count();
            all += token.len();
        }
        8 * beyond > all
    }

    /// How many bytes `ids` spell.
    pub fn num_bytes<I: AsId>(&self, ids: &[I]) -> Result<usize> {
        let mut bytes = 0;
        for &id in ids {
            let len = id.as_id().and_then(|id| self.lens.get(id as usize));
            bytes += match len {
                Some(&len) if len <= INLINE as u8 => usize::from(len),
                _ => self.token_of(id)?.len(),
            };
        }
        Ok(bytes)
    }

    /// Fill `out`, which has as many bytes as `ids` spell. An error if it has not: whoever owns the ids may have
    /// changed them since they were measured.
    pub fn write<I: AsId>(&self, ids: &[I], out: &mut [MaybeUninit<u8>]) -> Result<()> {
        let mut at = 0;
        for &id in ids {
            let record = id.as_id().and_then(|id| self.records.get(id as usize));
            if let Some(record) = record
                && record[15] <= INLINE as u8
                && out.len() - at >= 16
            {
                // SAFETY: there are sixteen bytes from `at` to the end of `out`, and any bytes may be written there.
                unsafe { out.as_mut_ptr().add(at).cast::<[u8; 16]>().write_unaligned(*record) };
                at += usize::from(record[15]);
            } else {
                let token = self.token_of(id)?;
                let room = out.get_mut(at..at + token.len()).ok_or_else(changed)?;
                room.iter_mut().zip(token).for_each(|(to, &byte)| _ = to.write(byte));
                at += token.len();
            }
        }
        if at == out.len() { Ok(()) } else { Err(changed()) }
    }

    /// Where each token starts in the bytes they all spell, and where the last one ends.
    pub fn offsets<I: AsId>(&self, ids: &[I]) -> Result<Vec<i64>> {
        let mut offsets = Vec::with_capacity(ids.len() + 1);
        let mut at = 0;
        offsets.push(0);
        for &id in ids {
            let token = self.token_of(id)?;
            at += token.len() as i64;
            offsets.push(at);
        }
        Ok(offsets)
    }

    /// The characters each token has a part of, as first and one after last, in the `text` that `ids` spell.
    pub fn char_offsets<I: AsId>(&self, text: &[u8], ids: &[I]) -> Result<Vec<i64>> {
        let mut offsets = Vec::with_capacity(ids.len() * 2);
        let is_ascii = text.is_ascii();
        let starts_char = |at: usize| text.get(at).is_none_or(|&byte| !is_inner(byte));
        let (mut at, mut chars) = (0usize, 0i64); // characters that start before `at`
        for &id in ids {
            let token = self.token_of(id)?;
            let end = at + token.len();
            if text.get(at..end) != Some(token) {
                return Err(Error::config(format!(
                    "token {} at byte {at} is not what the text has",
                    id.show()
                )));
            }
            let first = if starts_char(at) { chars } else { (chars - 1).max(0) };
            let inner = if is_ascii { 0 } else { token.iter().filter(|&&byte| is_inner(byte)).count() };
            chars += (token.len() - inner) as i64;
            offsets.extend([first, chars.max(first)]);
            at = end;
        }
        if at != text.len() {
            return Err(Error::config(format!("the ids spell {at} bytes, the text has {}", text.len())));
        }
        Ok(offsets)
    }

    /// The first character each token has a part of, in the text that `ids` spell if that is UTF-8.
    pub fn char_starts<I: AsId>(&self, ids: &[I]) -> Result<Vec<u32>> {
        let mut starts = Vec::with_capacity(ids.len());
        let mut chars = 0u32; // characters that start before the token
        for &id in ids {
            let token = self.token_of(id)?;
            let begins_inside = token.first().is_some_and(|&byte| is_inner(byte));
            starts.push(chars.saturating_sub(u32::from(begins_inside)));
            chars += token.iter().filter(|&&byte| !is_inner(byte)).count() as u32;
        }
        Ok(starts)
    }

    /// How many bytes of a token are spaces, at its start and at its end.
    pub fn outer_spaces(&self, id: u32) -> (usize, usize) {
        let token = self.token(id).unwrap_or_default();
        let count = |bytes: &mut dyn Iterator<Item = &u8>| bytes.take_while(|&&byte| byte == b' ').count();
        (count(&mut token.iter()), count(&mut token.iter().rev()))
    }

    fn unknown<I: AsId>(&self, id: I) -> Error {
        let size = self.records.len();
        if id.as_id().is_some_and(|id| (id as usize) < size) {
            return Error::vocab(format!("no token of this vocab has id {}", id.show()));
        }
        let last = size.saturating_sub(1);
        Error::vocab(format!("token id {} is not in the vocab, ids run from 0 to {last}", id.show()))
    }
}

/// Whether a byte of UTF-8 goes on with a character that began before it.
fn is_inner(byte: u8) -> bool {
    (byte as i8) < -0x40
}

fn changed() -> Error {
    Error::config("the ids changed while they were decoded")
}
