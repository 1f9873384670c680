//! Token ids in, bytes out: a record of sixteen bytes for each id, copied whole whether all of it counts or not.

use std::mem::MaybeUninit;

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
        let mut decoder =
            Decoder { records: Vec::with_capacity(vocab.size()), lens: Vec::new(), long: Vec::new() };
        for id in 0..vocab.size() as u32 {
            let token = vocab.token(id);
            let mut record = [0; 16];
            if token.is_empty() {
                record[15] = UNKNOWN;
            } else if token.len() <= INLINE {
                record[..token.len()].copy_from_slice(token);
                record[15] = token.len() as u8;
            } else {
                record[..4].copy_from_slice(&(decoder.long.len() as u32).to_le_bytes());
                record[4..8].copy_from_slice(&(token.len() as u32).to_le_bytes());
                record[15] = IS_LONG;
                decoder.long.extend_from_slice(token);
            }
            decoder.records.push(record);
        }
        decoder.lens = decoder.records.iter().map(|record| record[15]).collect();
        decoder
    }

    pub fn memory(&self) -> usize {
        self.records.len() * 17 + self.long.len()
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

    /// Append the bytes of `ids` to `out`. An unknown id is an error, and what came before it is in `out`.
    pub fn decode<I: AsId>(&self, ids: &[I], out: &mut Vec<u8>) -> Result<()> {
        for stride in ids.chunks(STRIDE) {
            out.reserve(stride.len() * 16);
            for &id in stride {
                let record = id.as_id().and_then(|id| self.records.get(id as usize));
                let Some(record) = record else { return Err(self.unknown(id)) };
                let len = record[15];
                if len <= INLINE as u8 {
                    let at = out.len();
                    debug_assert!(out.capacity() - at >= 16);
                    // SAFETY: sixteen bytes were reserved for each id of the stride, again after each long token, and
                    // an inline token takes at most fifteen of them.
                    unsafe {
                        out.as_mut_ptr().add(at).cast::<[u8; 16]>().write_unaligned(*record);
                        out.set_len(at + len as usize);
                    }
                } else if len == IS_LONG {
                    out.extend_from_slice(self.long_token(record));
                    out.reserve(STRIDE * 16);
                } else {
                    return Err(self.unknown(id));
                }
            }
        }
        Ok(())
    }

    /// How many bytes `ids` spell.
    pub fn num_bytes<I: AsId>(&self, ids: &[I]) -> Result<usize> {
        let mut bytes = 0;
        for &id in ids {
            let len = id.as_id().and_then(|id| self.lens.get(id as usize));
            bytes += match len {
                Some(&len) if len <= INLINE as u8 => usize::from(len),
                _ => id.as_id().and_then(|id| self.token(id)).ok_or_else(|| self.unknown(id))?.len(),
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
            let Some(record) = record else { return Err(self.unknown(id)) };
            let len = record[15];
            if len <= INLINE as u8 && out.len() - at >= 16 {
                // SAFETY: there are sixteen bytes from `at` to the end of `out`, and any bytes may be written there.
                unsafe { out.as_mut_ptr().add(at).cast::<[u8; 16]>().write_unaligned(*record) };
                at += usize::from(len);
            } else {
                let token = id.as_id().and_then(|id| self.token(id)).ok_or_else(|| self.unknown(id))?;
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
            let token = id.as_id().and_then(|id| self.token(id)).ok_or_else(|| self.unknown(id))?;
            at += token.len() as i64;
            offsets.push(at);
        }
        Ok(offsets)
    }

    /// The characters each token has a part of, as first and one after last, in the `text` that `ids` spell.
    pub fn char_offsets<I: AsId>(&self, text: &[u8], ids: &[I]) -> Result<Vec<i64>> {
        let mut offsets = Vec::with_capacity(ids.len() * 2);
        let starts_char = |at: usize| text.get(at).is_none_or(|&byte| byte as i8 >= -0x40);
        let (mut at, mut chars) = (0usize, 0i64); // characters that start before `at`
        for &id in ids {
            let token = id.as_id().and_then(|id| self.token(id)).ok_or_else(|| self.unknown(id))?;
            let end = at + token.len();
            if text.get(at..end) != Some(token) {
                return Err(Error::config(format!(
                    "token {} at byte {at} is not what the text has",
                    id.show()
                )));
            }
            let first = if starts_char(at) { chars } else { (chars - 1).max(0) };
            chars += token.iter().filter(|&&byte| byte as i8 >= -0x40).count() as i64;
            offsets.extend([first, chars.max(first)]);
            at = end;
        }
        if at != text.len() {
            return Err(Error::config(format!("the ids spell {at} bytes, the text has {}", text.len())));
        }
        Ok(offsets)
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

fn changed() -> Error {
    Error::config("the ids changed while they were decoded")
}
