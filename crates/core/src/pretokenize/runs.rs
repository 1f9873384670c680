//! Pieces that the named patterns share: runs of one class, contractions, white space.

use crate::unicode::{Classes, LETTER, LOWERISH, NEWLINE, NOT_ASCII, NUMBER, SPACE};

/// Neither letter, nor number, nor space: what `[^\s\p{L}\p{N}]` matches.
pub const NO_SYMBOL: u8 = LETTER | NUMBER | SPACE;

/// End of the run of characters that have a flag of `mask`, starting at `at`.
#[inline]
pub fn with(classes: &Classes, text: &[u8], mut at: usize, mask: u8) -> usize {
    while at < text.len() {
        let mut flags = classes.ascii[text[at] as usize];
        let mut len = 1;
        if flags == NOT_ASCII {
            (flags, len) = classes.at(text, at);
        }
        if flags & mask == 0 {
            break;
        }
        at += len;
    }
    at
}

/// End of the run of letters starting at `at`.
#[inline]
pub fn letters(classes: &Classes, text: &[u8], at: usize) -> usize {
    eight_by_eight(classes, text, at, LETTER, |eight| ascii_letters(eight | (0x20 * ONES)))
}

/// End of the run of [`LOWERISH`] characters starting at `at`.
#[inline]
pub fn lowerish(classes: &Classes, text: &[u8], at: usize) -> usize {
    eight_by_eight(classes, text, at, LOWERISH, ascii_letters)
}

/// End of the run of characters that have the flag `mask`, where `measure` tells how many of eight bytes are ASCII
/// characters that have it. Most words end in the first eight.
#[inline(always)]
fn eight_by_eight(
    classes: &Classes,
    text: &[u8],
    mut at: usize,
    mask: u8,
    measure: impl Fn(u64) -> usize,
) -> usize {
    while let Some(eight) = text.get(at..at + 8) {
        let len = measure(u64::from_le_bytes(eight.try_into().expect("eight bytes")));
        at += len;
        if len < 8 {
            // No ASCII character goes on at `at`; only one beyond ASCII can.
            return if text[at] < 0x80 { at } else { with(classes, text, at, mask) };
        }
    }
    with(classes, text, at, mask)
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// How many of the eight bytes, from the lowest, are `a` to `z`.
#[inline(always)]
fn ascii_letters(eight: u64) -> usize {
    const HIGH: u64 = 0x80 * ONES;
    let low = eight & !HIGH;
    let from_a = low + (0x80 - b'a' as u64) * ONES;
    let beyond_z = low + (0x7F - b'z' as u64) * ONES;
    let letters = from_a & !beyond_z & !eight & HIGH;
    (!letters & HIGH).trailing_zeros() as usize / 8
}

/// End of the run of characters that have no flag of `mask`, starting at `at`.
#[inline]
pub fn without(classes: &Classes, text: &[u8], mut at: usize, mask: u8) -> usize {
    while at < text.len() {
        let (flags, len) = classes.at(text, at);
        if flags & mask != 0 {
            break;
        }
        at += len;
    }
    at
}

/// End of a run of the bytes in `set`.
#[inline]
pub fn of_bytes(text: &[u8], mut at: usize, set: &[u8]) -> usize {
    while at < text.len() && set.contains(&text[at]) {
        at += 1;
    }
    at
}

/// End of at most `max` numbers.
#[inline]
pub fn numbers(classes: &Classes, text: &[u8], mut at: usize, max: usize) -> usize {
    for _ in 0..max {
        if at == text.len() {
            break;
        }
        let (flags, len) = classes.at(text, at);
        if flags & NUMBER == 0 {
            break;
        }
        at += len;
    }
    at
}

/// `'(?:[sdmt]|ll|ve|re)` at `at`, which holds the apostrophe: its end, or `at` if it does not match.
#[inline]
pub fn contraction(text: &[u8], at: usize) -> usize {
    match text.get(at + 1) {
        Some(b's' | b'd' | b'm' | b't') => at + 2,
        Some(b'l') if text.get(at + 2) == Some(&b'l') => at + 3,
        Some(b'v' | b'r') if text.get(at + 2) == Some(&b'e') => at + 3,
        _ => at,
    }
}

/// The same without regard to case. Under Unicode's rules `ſ` (U+017F) is a form of `s`.
#[inline]
pub fn contraction_any_case(text: &[u8], at: usize) -> usize {
    let lower = |i: usize| text.get(i).map(|b| b | 0x20);
    match lower(at + 1) {
        Some(b's' | b'd' | b'm' | b't') => at + 2,
        Some(b'l') if lower(at + 2) == Some(b'l') => at + 3,
        Some(b'v' | b'r') if lower(at + 2) == Some(b'e') => at + 3,
        _ if text[at + 1..].starts_with("ſ".as_bytes()) => at + 3,
        _ => at,
    }
}

/// `\s+(?!\S)|\s+` at `at`, which holds a space: all of the run at the end of the text, else all but its last
/// character, which is left for the next pretoken, unless it is the only one.
#[inline]
pub fn spaces(classes: &Classes, text: &[u8], at: usize) -> usize {
    let end = with(classes, text, at, SPACE);
    if end == text.len() {
        return end;
    }
    let last = classes.before(text, end).0;
    if last == at { end } else { last }
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+` at `at`, which holds a space: up to the last line break of the run, if it has one.
#[inline]
pub fn spaces_or_lines(classes: &Classes, text: &[u8], at: usize) -> usize {
    let end = with(classes, text, at, SPACE);
    match text[at..end].iter().rposition(|b| matches!(b, b'\r' | b'\n')) {
        Some(line_break) => at + line_break + 1,
        None => spaces(classes, text, at),
    }
}

/// Whether the character at `at` exists and has no flag of `mask`.
#[inline]
pub fn is_without(classes: &Classes, text: &[u8], at: usize, mask: u8) -> bool {
    at < text.len() && classes.at(text, at).0 & mask == 0
}

/// Whether the character at `at` exists and has a flag of `mask`.
#[inline]
pub fn is_with(classes: &Classes, text: &[u8], at: usize, mask: u8) -> bool {
    at < text.len() && classes.at(text, at).0 & mask != 0
}

const _: () = assert!(NEWLINE & NO_SYMBOL == 0);
