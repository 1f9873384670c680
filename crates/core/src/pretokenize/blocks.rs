//! Sixty-four bytes at a time: the class of every byte as one bit, and pretokens from a few operations on those bits.
//!
//! What a pattern cannot tell from the bits near a byte (contractions inside words, runs of spaces with line breaks,
//! the end of the text), it marks, and the [`Scanner`] that goes character by character is asked about pretokens that
//! touch a mark. So there is one truth, and the bits only save the way to it.

use super::{Scanner, Sink};
use crate::error::{Error, Result};
use crate::unicode::{Classes, LETTER, LOWERISH, NUMBER, SPACE, UPPERISH};

pub const BLOCK: usize = 64;

/// How many blocks pass between two looks at [`Sink::cancelled`].
const CANCEL_EVERY: usize = 1 << 10;

/// Classes of the bytes of one block, the first in the lowest bit. All bytes of a character have its class.
#[derive(Clone, Copy, Default)]
pub struct Block {
    pub letter: u64,
    pub number: u64,
    pub space: u64,
    pub newline: u64,
    /// ` `
    pub blank: u64,
    pub apostrophe: u64,
    pub slash: u64,
    /// Upper case and nothing else: [`UPPERISH`] without [`LOWERISH`].
    pub upper: u64,
    /// [`LOWERISH`] without [`UPPERISH`].
    pub lower: u64,
    /// No letter, yet part of a word in `gpt4o`.
    pub mark: u64,
    /// Every byte but the first of a character beyond ASCII.
    pub inner: u64,
    /// Numbers and spaces beyond ASCII, too rare to have rules of their own.
    pub odd: u64,
    /// None of the three; nothing at all before the text begins.
    pub symbol: u64,
}

/// One class of a block and of its neighbours.
#[derive(Clone, Copy)]
pub struct Near {
    before: u64,
    pub now: u64,
    after: u64,
}

impl Near {
    /// The class of the byte `by` places further left, at each place.
    #[inline(always)]
    pub fn left(&self, by: u32) -> u64 {
        self.now << by | self.before >> (64 - by)
    }

    /// The class of the byte `by` places further right.
    #[inline(always)]
    pub fn right(&self, by: u32) -> u64 {
        self.now >> by | self.after << (64 - by)
    }

    /// Where a run begins.
    #[inline(always)]
    pub fn first(&self) -> u64 {
        self.now & !self.left(1)
    }
}

/// Three blocks in a row: patterns ask about the middle one.
#[derive(Clone, Copy, Default)]
pub struct Window {
    before: Block,
    pub now: Block,
    after: Block,
}

impl Window {
    #[inline(always)]
    pub fn near(&self, class: impl Fn(&Block) -> u64) -> Near {
        Near { before: class(&self.before), now: class(&self.now), after: class(&self.after) }
    }

    /// Spaces that start a pretoken: the first of a run, and the last, which is left to what follows it.
    #[inline(always)]
    pub fn spaces(&self) -> u64 {
        let space = self.near(|block| block.space);
        space.first() | space.now & !space.right(1)
    }

    /// The same where a run up to its last line break goes together, and line breaks go with the symbols before them.
    /// Only line breaks that stand alone are told right.
    #[inline(always)]
    pub fn spaces_or_lines(&self, symbol: Near) -> u64 {
        let space = self.near(|block| block.space);
        let newline = self.now.newline;
        space.first() & !(newline & symbol.left(1)) | space.now & !space.right(1) & !newline
    }

    /// Line breaks that do not stand alone.
    #[inline(always)]
    pub fn lines_among_spaces(&self) -> u64 {
        let space = self.near(|block| block.space);
        self.now.newline & (space.left(1) | space.right(1))
    }

    /// Symbols that start a pretoken, which those behind a blank do not.
    #[inline(always)]
    pub fn symbols(&self, symbol: Near) -> u64 {
        symbol.first() & !self.near(|block| block.blank).left(1)
    }

    /// Letters that start a pretoken: not where one space is in front, or one symbol that starts a pretoken itself.
    #[inline(always)]
    pub fn words(&self, symbol: Near) -> u64 {
        let letter = self.near(|block| block.letter);
        let open_space = self.near(|block| block.space & !block.newline);
        let blank = self.near(|block| block.blank);
        let inner = self.near(|block| block.inner);
        let fresh = |len: u32| !(symbol.left(len + 1) | blank.left(len + 1));
        let mut one_symbol = !inner.left(1) & fresh(1);
        if inner.now | inner.before >> 60 != 0 {
            one_symbol |= inner.left(1) & !inner.left(2) & fresh(2);
            one_symbol |= inner.left(1) & inner.left(2) & !inner.left(3) & fresh(3);
            one_symbol |= inner.left(1) & inner.left(2) & inner.left(3) & fresh(4);
        }
        letter.first() & !open_space.left(1) & !(symbol.left(1) & one_symbol)
    }

    /// Numbers that start a pretoken where at most `digits` go together, and numbers to ask about.
    #[inline(always)]
    pub fn numbers(&self, digits: u32) -> (u64, u64) {
        let number = self.near(|block| block.number);
        if digits == 1 {
            return (number.now, 0);
        }
        let mut first = number.first();
        let mut starts = first;
        let mut together = number.now;
        for by in 1..digits {
            together &= number.now << by;
        }
        while first != 0 {
            first = first << digits & together;
            starts |= first;
        }
        // The rest of a run that began in another block, or that has a character of several bytes: adding its first
        // bit carries through all of it.
        let doubtful = number.now & (number.before >> 63 | self.now.odd);
        (starts, doubtful | number.now & !number.now.wrapping_add(doubtful))
    }
}

/// What a pattern makes of a block.
pub struct Borders {
    /// Where pretokens start.
    pub starts: u64,
    /// Bytes that `starts` may be wrong about: the scanner has to tell where a pretoken ends that holds one of them,
    /// or that would end at one.
    pub doubtful: u64,
}

/// Give the pretokens of `text[start..]` to `sink`. No scanner looks behind its position, so the text before `start`
/// may stay in sight.
pub fn scan(scanner: &impl Scanner, text: &[u8], mut start: usize, sink: &mut impl Sink) -> Result<()> {
    let mut reader = Reader { classes: Classes::get(), text, at: start, flags: 0, overhang: 0 };
    let mut window = Window { now: reader.next(), ..Window::default() };
    let mut base = start;
    let mut in_doubt = false;
    let mut until_look = CANCEL_EVERY;
    while base < text.len() {
        window.after = reader.next();
        let Borders { mut starts, mut doubtful } = scanner.borders(&window);
        if text.len() - base <= BLOCK {
            // The end of the text is like no character.
            doubtful |= u64::MAX << (text.len() - base - 1);
        }
        starts &= behind(start, base);
        if doubtful == 0 && !in_doubt {
            while starts != 0 {
                let end = base + starts.trailing_zeros() as usize;
                starts &= starts - 1;
                sink.pretoken(text, start, end);
                start = end;
            }
        } else {
            while starts != 0 {
                let at = starts.trailing_zeros();
                let span = u64::MAX << start.saturating_sub(base) & u64::MAX >> (63 - at);
                let is_clear = !in_doubt && doubtful & span == 0;
                let end = if is_clear { base + at as usize } else { next(scanner, text, start) };
                sink.pretoken(text, start, end);
                // Doubts about earlier blocks last until they are left behind.
                in_doubt &= end < base;
                start = end;
                starts &= behind(start, base);
            }
            let next_base = base + BLOCK;
            in_doubt = start < next_base && (in_doubt || doubtful >> start.saturating_sub(base) != 0);
        }
        window = Window { before: window.now, now: window.after, after: Block::default() };
        base += BLOCK;
        until_look -= 1;
        if until_look == 0 {
            until_look = CANCEL_EVERY;
            if sink.cancelled() {
                return Err(Error::Cancelled);
            }
        }
    }
    while start < text.len() {
        let end = next(scanner, text, start);
        sink.pretoken(text, start, end);
        start = end;
    }
    Ok(())
}

/// The bits of a block at `base` that lie behind position `at`.
#[inline(always)]
fn behind(at: usize, base: usize) -> u64 {
    match at.checked_sub(base) {
        None => u64::MAX,
        Some(offset @ 0..63) => u64::MAX << (offset + 1),
        Some(_) => 0,
    }
}

#[inline(never)]
fn next(scanner: &impl Scanner, text: &[u8], start: usize) -> usize {
    scanner.next(text, start)
}

/// Reads a text block by block; behind its end there are symbols.
struct Reader<'t> {
    classes: &'static Classes,
    text: &'t [u8],
    at: usize,
    /// Flags of the last character, and how many of its bytes lie in the block to come.
    flags: u8,
    overhang: u32,
}

impl Reader<'_> {
    #[inline(always)]
    fn next(&mut self) -> Block {
        let mut padded = [0; BLOCK];
        let bytes = match self.text.get(self.at..).unwrap_or_default() {
            rest if rest.len() >= BLOCK => rest.first_chunk().expect("sixty-four bytes"),
            rest => {
                padded[..rest.len()].copy_from_slice(rest);
                &padded
            }
        };
        let (mut block, beyond_ascii) = of_ascii(self.classes, bytes);
        if beyond_ascii != 0 {
            self.add_characters(&mut block, beyond_ascii);
        }
        self.at += BLOCK;
        block.symbol = !(block.letter | block.number | block.space);
        block
    }

    #[inline(always)]
    fn add_characters(&mut self, block: &mut Block, beyond_ascii: u64) {
        let mut rest = beyond_ascii;
        let mut bits = (1 << std::mem::take(&mut self.overhang)) - 1;
        block.inner = bits;
        let mut flags = self.flags;
        loop {
            let all = |flag: u8| if flags & flag != 0 { bits } else { 0 };
            let (letter, number, space) = (all(LETTER), all(NUMBER), all(SPACE));
            let (upper, lower) = (all(UPPERISH), all(LOWERISH));
            block.letter |= letter;
            block.number |= number;
            block.space |= space;
            block.odd |= number | space;
            block.upper |= upper & !lower;
            block.lower |= lower & !upper;
            block.mark |= upper & lower & !letter;
            rest &= !bits;
            if rest == 0 {
                break;
            }
            let at = rest.trailing_zeros();
            let len;
            (flags, len) = self.classes.at(self.text, self.at + at as usize);
            bits = ((1 << len) - 1) << at;
            block.inner |= bits & (bits << 1);
            self.overhang = (at + len as u32).saturating_sub(BLOCK as u32);
            self.flags = flags;
        }
    }
}

/// The classes of ASCII bytes, and which bytes are not.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn of_ascii(_: &Classes, bytes: &[u8; BLOCK]) -> (Block, u64) {
    use std::arch::x86_64::*;

    let mut block = Block::default();
    let mut beyond_ascii = 0;
    for (index, sixteen) in bytes.as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: sixteen bytes are read, wherever they lie; every x86-64 has SSE2.
        unsafe {
            let byte = _mm_loadu_si128(sixteen.as_ptr().cast());
            let bits = |mask: __m128i| u64::from(_mm_movemask_epi8(mask) as u32) << (16 * index);
            let is = |value: u8| _mm_cmpeq_epi8(byte, _mm_set1_epi8(value as i8));
            // Moved so that the range starts at the least signed number: one comparison then has both ends.
            let within = |byte: __m128i, first: u8, len: u8| {
                let moved = _mm_sub_epi8(byte, _mm_set1_epi8(first.wrapping_add(0x80) as i8));
                _mm_cmplt_epi8(moved, _mm_set1_epi8(len.wrapping_sub(0x80) as i8))
            };
            let letter = within(_mm_or_si128(byte, _mm_set1_epi8(0x20)), b'a', 26);
            let upper = within(byte, b'A', 26);
            block.letter |= bits(letter);
            block.upper |= bits(upper);
            block.lower |= bits(_mm_andnot_si128(upper, letter));
            block.number |= bits(within(byte, b'0', 10));
            block.space |= bits(_mm_or_si128(is(b' '), within(byte, b'\t', 5)));
            block.newline |= bits(_mm_or_si128(is(b'\n'), is(b'\r')));
            block.blank |= bits(is(b' '));
            block.apostrophe |= bits(is(b'\''));
            block.slash |= bits(is(b'/'));
            beyond_ascii |= bits(byte);
        }
    }
    (block, beyond_ascii)
}

#[cfg(not(target_arch = "x86_64"))]
fn of_ascii(classes: &Classes, bytes: &[u8; BLOCK]) -> (Block, u64) {
    use crate::unicode::{NEWLINE, NOT_ASCII};

    let mut block = Block::default();
    let mut beyond_ascii = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let flags = classes.ascii[byte as usize];
        let bit = |is: bool| u64::from(is) << at;
        beyond_ascii |= bit(flags == NOT_ASCII);
        if flags == NOT_ASCII {
            continue;
        }
        block.letter |= bit(flags & LETTER != 0);
        block.upper |= bit(flags & UPPERISH != 0);
        block.lower |= bit(flags & LOWERISH != 0);
        block.number |= bit(flags & NUMBER != 0);
        block.space |= bit(flags & SPACE != 0);
        block.newline |= bit(flags & NEWLINE != 0);
        block.blank |= bit(byte == b' ');
        block.apostrophe |= bit(byte == b'\'');
        block.slash |= bit(byte == b'/');
    }
    (block, beyond_ascii)
}

#[cfg(test)]
mod tests {
    use super::super::{cl100k::Cl100k, gpt2::Gpt2, o200k::O200k};
    use super::*;

    #[derive(Default)]
    struct Ends(Vec<usize>);

    impl Sink for Ends {
        fn pretoken(&mut self, _text: &[u8], start: usize, end: usize) {
            assert_eq!(start, self.0.last().copied().unwrap_or(start));
            self.0.push(end);
        }
    }

    fn assert_same(name: &str, scanner: &impl Scanner, text: &[u8], start: usize) {
        let mut expected = Vec::new();
        let mut at = start;
        while at < text.len() {
            at = scanner.next(text, at);
            expected.push(at);
        }
        let mut found = Ends::default();
        scan(scanner, text, start, &mut found).expect("nobody cancels");
        if let Some(first) = (0..expected.len()).find(|&index| found.0.get(index) != Some(&expected[index])) {
            let near = expected[first].saturating_sub(70)..(expected[first] + 70).min(text.len());
            panic!(
                "{name} from {start}: pretoken {first} ends at {:?}, not {}: {:?}",
                found.0.get(first),
                expected[first],
                String::from_utf8_lossy(&text[near])
            );
        }
        assert_eq!(found.0.len(), expected.len());
    }

    /// Few kinds of characters that meet often, so that every pair of rules meets at every place of a block.
    const ALPHABETS: &[&[&str]] = &[
        &["a", "b", " ", "the", " of", ". "],
        &["a", "s", "'", "t", "ll", "'ve", " ", "S", "\u{17F}"],
        &["a", " ", "\n", "\r\n", "\t", "!", "/", "\u{A0}", "\u{3000}"],
        &["1", "22", "333", "4444", "a", " ", "\u{664}", "\u{B2}", "-"],
        &["A", "b", "Cd", "eF", "é", "É", "中", "ǅ", "ʰ", "\u{301}", "'s", "!"],
        &["中", "文", "。", "“", "a", " ", "…", "\u{3000}", "\u{301}", "\u{1F600}"],
        &["/", "\n", "!", "a", "/\n", "//", "“", "A", "\u{20D0}"],
    ];

    #[test]
    fn blocks_give_what_the_scanner_gives() {
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for round in 0..40_000 {
            let mut text = Vec::new();
            let len = 1 + random(if round % 4 == 0 { 300 } else { 40 });
            let alphabet = ALPHABETS[random(ALPHABETS.len())];
            let other = ALPHABETS[random(ALPHABETS.len())];
            for _ in 0..len {
                let from = if random(4) == 0 { other } else { alphabet };
                let piece = from[random(from.len())];
                let times = if random(8) == 0 { 1 + random(70) } else { 1 };
                text.extend(piece.as_bytes().repeat(times));
                if random(60) == 0 {
                    text.push(random(256) as u8);
                }
            }
            let start = if random(3) == 0 { random(text.len()) } else { 0 };
            assert_same("gpt2", &Gpt2::new(), &text, start);
            assert_same("qwen2", &Cl100k::<1>::new(), &text, start);
            assert_same("nanochat", &Cl100k::<2>::new(), &text, start);
            assert_same("gpt4", &Cl100k::<3>::new(), &text, start);
            assert_same("cl100k", &Cl100k::<3, true>::new(), &text, start);
            assert_same("gpt4o", &O200k::new(), &text, start);
        }
    }
}
