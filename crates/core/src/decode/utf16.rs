//! Token ids in, UTF-16 out: for text that is not ASCII, Python makes a string of it in a third of the time that it takes
//! for UTF-8 (docs/compat.md).

use super::{AsId, Decoder};

const INLINE: usize = 15;
/// In the last place of a record: the token is longer, and the record holds its place in `long` instead.
const IS_LONG: u16 = 16;
/// In the last place of a record: the token is not UTF-8 by itself, or there is none.
const BY_BYTES: u16 = 17;

pub(super) struct Utf16Records {
    /// The token of each id in UTF-16, and its length in the last place.
    records: Vec<[u16; 16]>,
    long: Vec<u16>,
}

impl Utf16Records {
    pub(super) fn new(decoder: &Decoder) -> Self {
        let (mut records, mut long) = (Vec::with_capacity(decoder.records.len()), Vec::new());
        for id in 0..decoder.records.len() as u32 {
            let mut record = [0; 16];
            let token = str::from_utf8(decoder.token(id).unwrap_or_default()).unwrap_or_default();
            let units: Vec<u16> = token.encode_utf16().collect();
            if units.is_empty() {
                record[INLINE] = BY_BYTES;
            } else if units.len() <= INLINE {
                record[..units.len()].copy_from_slice(&units);
                record[INLINE] = units.len() as u16;
            } else {
                let (start, len) = (long.len() as u32, units.len() as u32);
                record[..4].copy_from_slice(&[
                    start as u16,
                    (start >> 16) as u16,
                    len as u16,
                    (len >> 16) as u16,
                ]);
                record[INLINE] = IS_LONG;
                long.extend_from_slice(&units);
            }
            records.push(record);
        }
        Utf16Records { records, long }
    }

    pub(super) fn memory(&self) -> usize {
        self.records.len() * size_of::<[u16; 16]>() + self.long.len() * size_of::<u16>()
    }

    /// The text of `ids`, `None` if one of them is unknown or if their bytes are not UTF-8.
    pub(super) fn decode<I: AsId>(&self, decoder: &Decoder, ids: &[I]) -> Option<Vec<u16>> {
        let mut out = Vec::with_capacity(ids.len() * 16);
        let mut rest = ids;
        loop {
            rest = self.decode_inline(rest, &mut out);
            let Some((&id, after)) = rest.split_first() else { return Some(out) };
            rest = match self.long_token(id) {
                Some(token) => {
                    out.extend_from_slice(token);
                    after
                }
                None => decode_by_bytes(decoder, rest, &mut out)?,
            };
        }
    }

    fn long_token<I: AsId>(&self, id: I) -> Option<&[u16]> {
        let record = self.records.get(id.as_id()? as usize).filter(|record| record[INLINE] == IS_LONG)?;
        let number = |at: usize| usize::from(record[at]) | usize::from(record[at + 1]) << 16;
        Some(&self.long[number(0)..number(0) + number(2)])
    }

    /// Append the first of `ids` as long as their records hold them, and give back the others.
    fn decode_inline<'a, I: AsId>(&self, ids: &'a [I], out: &mut Vec<u16>) -> &'a [I] {
        out.reserve(ids.len() * 16);
        let mut done = 0;
        // SAFETY: sixteen places are reserved for each id and `at` moves on by at most fifteen for each, so all writes lie
        // in what is reserved; what is between the start and `at` has been written.
        unsafe {
            let start = out.as_mut_ptr().add(out.len());
            let mut at = start;
            for &id in ids {
                let Some(record) = id.as_id().and_then(|id| self.records.get(id as usize)) else { break };
                let len = record[INLINE];
                if len > INLINE as u16 {
                    break;
                }
                at.cast::<[u16; 16]>().write_unaligned(*record);
                at = at.add(usize::from(len));
                done += 1;
            }
            out.set_len(out.len() + at.offset_from(start) as usize);
        }
        &ids[done..]
    }
}

/// Append the first of `ids`, at least one and as many as it takes to end with a whole character. Gives back the others;
/// `None` as for `decode`.
fn decode_by_bytes<'a, I: AsId>(decoder: &Decoder, ids: &'a [I], out: &mut Vec<u16>) -> Option<&'a [I]> {
    // The bytes of a character that is not whole yet, how many they are, and how many it takes.
    let (mut bytes, mut len, mut needed) = ([0; 4], 0, 0);
    for (place, &id) in ids.iter().enumerate() {
        for &byte in decoder.token_of(id).ok()? {
            if len == 0 {
                needed = match byte {
                    0..0x80 => 1,
                    0xC0..0xE0 => 2,
                    0xE0..0xF0 => 3,
                    0xF0.. => 4,
                    _ => return None,
                };
            }
            bytes[len] = byte;
            len += 1;
            if len == needed {
                let character = str::from_utf8(&bytes[..len]).ok()?;
                out.extend(character.encode_utf16());
                len = 0;
            }
        }
        if len == 0 {
            return Some(&ids[place + 1..]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tokens: &[&[u8]], ids: &[i64]) {
        let decoder = Decoder::skipping_unknown(tokens.iter().copied());
        let bytes: Vec<u8> = ids
            .iter()
            .flat_map(|&id| tokens.get(id as usize).copied().unwrap_or_default().to_vec())
            .collect();
        let expected = str::from_utf8(&bytes).ok().map(|text| text.encode_utf16().collect());
        assert_eq!(decoder.utf16(ids), expected, "{ids:?}");
    }

    #[test]
    fn characters_in_parts() {
        let long = "日本語".repeat(20);
        let tokens: [&[u8]; 9] = [
            b"a",
            "é".as_bytes(),
            "日本".as_bytes(),
            b"\xf0\x9f",
            b"\x98\x80",
            b"\x98",
            b"\x80b\xf0",
            b"",
            long.as_bytes(),
        ];
        // Every sequence of up to five.
        for len in 0..=5 {
            for number in 0..tokens.len().pow(len) {
                let ids: Vec<i64> =
                    (0..len).map(|place| (number / tokens.len().pow(place) % tokens.len()) as i64).collect();
                check(&tokens, &ids);
            }
        }
        check(&tokens, &[3, 5, 6, 3, 4]);
        check(&tokens, &[0, 99, 2]);
        assert_eq!(Decoder::skipping_unknown([&b"a"[..]].into_iter()).utf16(&[0, -1]), None);
    }
}
