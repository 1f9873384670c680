//! Which characters are letters, numbers, marks and spaces: one byte of flags for every code point.
//!
//! The tables come from `regex-syntax`, the same that the general engine uses, so a named pattern and its regex
//! agree by construction. A byte that is not part of valid UTF-8 has no flags and counts as one character.

use std::sync::OnceLock;

use regex_syntax::hir::{Class, HirKind};

pub const UNICODE_VERSION: &str = "16.0.0";

/// `\p{L}`
pub const LETTER: u8 = 1;
/// `\p{N}`
pub const NUMBER: u8 = 2;
/// `\s`
pub const SPACE: u8 = 4;
/// `[\r\n]`
pub const NEWLINE: u8 = 8;
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
pub const UPPERISH: u8 = 16;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
pub const LOWERISH: u8 = 32;
/// Only in [`Classes::ascii`]: the byte is no ASCII character, ask [`Classes::at`].
pub const NOT_ASCII: u8 = 128;

const BLOCK: usize = 256;
const CODE_POINTS: usize = 0x11_0000;

/// Flags of every code point, as deduplicated blocks of 256.
pub struct Classes {
    /// Flags of the ASCII bytes, [`NOT_ASCII`] for the rest.
    pub ascii: [u8; 256],
    block_of: Vec<u16>,
    blocks: Vec<[u8; BLOCK]>,
}

impl Classes {
    pub fn get() -> &'static Classes {
        static CLASSES: OnceLock<Classes> = OnceLock::new();
        CLASSES.get_or_init(Classes::build)
    }

    fn build() -> Classes {
        let mut flags = vec![0u8; CODE_POINTS];
        for (class, flag) in [
            (r"\p{L}", LETTER),
            (r"\p{N}", NUMBER),
            (r"\s", SPACE),
            (r"[\r\n]", NEWLINE),
            (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", UPPERISH),
            (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", LOWERISH),
        ] {
            for (first, last) in ranges(class) {
                flags[first as usize..=last as usize].iter_mut().for_each(|f| *f |= flag);
            }
        }
        let mut blocks: Vec<[u8; BLOCK]> = Vec::new();
        let block_of = flags
            .chunks_exact(BLOCK)
            .map(|chunk| {
                let known = blocks.iter().position(|block| block == chunk);
                known.unwrap_or_else(|| {
                    blocks.push(chunk.try_into().expect("a chunk is a block"));
                    blocks.len() - 1
                }) as u16
            })
            .collect();
        let mut ascii = [NOT_ASCII; 256];
        ascii[..128].copy_from_slice(&flags[..128]);
        Classes { ascii, block_of, blocks }
    }

    #[inline]
    pub fn of(&self, code_point: u32) -> u8 {
        self.blocks[self.block_of[code_point as usize / BLOCK] as usize][code_point as usize % BLOCK]
    }

    /// Flags and length in bytes of the character that starts at `at`, which must be inside `text`.
    #[inline]
    pub fn at(&self, text: &[u8], at: usize) -> (u8, usize) {
        let flags = self.ascii[text[at] as usize];
        if flags != NOT_ASCII { (flags, 1) } else { self.beyond_ascii(text, at) }
    }

    /// Two and three bytes, nearly all that is beyond ASCII, without a call; whatever else there is, with one.
    #[inline(always)]
    fn beyond_ascii(&self, text: &[u8], at: usize) -> (u8, usize) {
        if let Some(&[lead, second, third, _]) = text.get(at..at + 4).and_then(|four| four.first_chunk()) {
            let low = u32::from(second & 0x3F);
            if lead & 0xE0 == 0xC0 && lead >= 0xC2 && second & 0xC0 == 0x80 {
                return (self.of(u32::from(lead & 0x1F) << 6 | low), 2);
            }
            let code_point = u32::from(lead & 0x0F) << 12 | low << 6 | u32::from(third & 0x3F);
            let is_surrogate = code_point & 0xF800 == 0xD800;
            if lead & 0xF0 == 0xE0
                && (second & 0xC0 == 0x80 && third & 0xC0 == 0x80)
                && (code_point >= 0x800 && !is_surrogate)
            {
                return (self.of(code_point), 3);
            }
        }
        self.decoded(text, at)
    }

    #[inline(never)]
    fn decoded(&self, text: &[u8], at: usize) -> (u8, usize) {
        match decode(&text[at..]) {
            Some((code_point, len)) => (self.of(code_point), len),
            None => (0, 1),
        }
    }

    /// Start, flags and length of the character that ends at `end`, which must not be 0.
    pub fn before(&self, text: &[u8], end: usize) -> (usize, u8, usize) {
        let flags = self.ascii[text[end - 1] as usize];
        if flags != NOT_ASCII {
            return (end - 1, flags, 1);
        }
        for len in (2..=4.min(end)).rev() {
            if let Some((code_point, n)) = decode(&text[end - len..end])
                && n == len
            {
                return (end - len, self.of(code_point), len);
            }
        }
        (end - 1, 0, 1)
    }
}

fn ranges(class: &str) -> Vec<(u32, u32)> {
    let hir = regex_syntax::parse(class).expect("our own classes parse");
    match hir.into_kind() {
        HirKind::Class(Class::Unicode(class)) => {
            class.ranges().iter().map(|r| (r.start() as u32, r.end() as u32)).collect()
        }
        _ => unreachable!("a class of many characters"),
    }
}

/// The first character of `text` and its length, if `text` starts with valid UTF-8.
#[inline(always)]
pub fn decode(text: &[u8]) -> Option<(u32, usize)> {
    let tail = |at: usize| text.get(at).filter(|&&b| b & 0xC0 == 0x80).map(|&b| u32::from(b & 0x3F));
    let lead = *text.first()?;
    match lead {
        0..0x80 => Some((u32::from(lead), 1)),
        0xC2..0xE0 => Some((u32::from(lead & 0x1F) << 6 | tail(1)?, 2)),
        0xE0..0xF0 => {
            let code_point = u32::from(lead & 0x0F) << 12 | tail(1)? << 6 | tail(2)?;
            (code_point >= 0x800 && !(0xD800..0xE000).contains(&code_point)).then_some((code_point, 3))
        }
        0xF0..0xF5 => {
            let code_point = u32::from(lead & 0x07) << 18 | tail(1)? << 12 | tail(2)? << 6 | tail(3)?;
            (0x1_0000..0x11_0000).contains(&code_point).then_some((code_point, 4))
        }
        _ => None,
    }
}

/// Characters in `text`; right for valid UTF-8 (it counts bytes that start one).
pub fn num_chars(text: &[u8]) -> usize {
    text.iter().filter(|&&b| (b as i8) >= -0x40).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_agrees_with_the_standard_library() {
        for c in '\0'..=char::MAX {
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            assert_eq!(decode(bytes), Some((c as u32, bytes.len())));
            let classes = Classes::get();
            assert_eq!(classes.at(bytes, 0).0 & SPACE != 0, c.is_whitespace(), "{c:?}");
            assert_eq!(classes.before(bytes, bytes.len()).0, 0);
        }
        for bad in [&b"\x80"[..], b"\xC0\x80", b"\xED\xA0\x80", b"\xF4\x90\x80\x80", b"\xE2\x82", b"\xF5"] {
            assert_eq!(decode(bad), None);
        }
    }
}
