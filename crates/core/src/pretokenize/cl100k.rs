//! GPT-4's pattern and its kin, which differ in how many digits go together and in how a text ends:
//! `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,D}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
//! With `TAIL` there is `\s++$` before `\s*[\r\n]+`: white space that ends the text is one pretoken, newlines or not.

use super::Scanner;
use super::blocks::{Borders, Window};
use super::runs::{self, NO_SYMBOL};
use crate::unicode::{Classes, LETTER, NEWLINE, NUMBER, SPACE};

pub struct Cl100k<const DIGITS: usize, const TAIL: bool = false> {
    classes: &'static Classes,
}

impl<const DIGITS: usize, const TAIL: bool> Cl100k<DIGITS, TAIL> {
    pub fn new() -> Self {
        Self { classes: Classes::get() }
    }
}

impl<const DIGITS: usize, const TAIL: bool> Scanner for Cl100k<DIGITS, TAIL> {
    #[inline(always)]
    fn next(&self, text: &[u8], start: usize) -> usize {
        let classes = self.classes;
        let (flags, len) = classes.at(text, start);
        let second = start + len;
        if flags & LETTER != 0 {
            return runs::letters(classes, text, second);
        }
        if flags & NUMBER != 0 {
            return runs::numbers(classes, text, second, DIGITS - 1);
        }
        if text[start] == b'\'' {
            let end = runs::contraction_any_case(text, start);
            if end > start {
                return end;
            }
        }
        if flags & NEWLINE == 0 && runs::is_with(classes, text, second, LETTER) {
            return runs::letters(classes, text, second);
        }
        let symbols = if text[start] == b' ' { second } else { start };
        if runs::is_without(classes, text, symbols, NO_SYMBOL) {
            let end = runs::without(classes, text, symbols, NO_SYMBOL);
            return runs::of_bytes(text, end, b"\r\n");
        }
        debug_assert!(flags & SPACE != 0);
        if TAIL && runs::with(classes, text, second, SPACE) == text.len() {
            return text.len();
        }
        runs::spaces_or_lines(classes, text, start)
    }

    #[inline(always)]
    fn borders(&self, window: &Window) -> Borders {
        let symbol = window.near(|block| block.symbol);
        let letter = window.near(|block| block.letter);
        let (numbers, continued) = window.numbers(DIGITS as u32);
        // A contraction is like a word with a symbol in front, unless letters follow it.
        let contraction = window.now.apostrophe & letter.right(1) & letter.right(2);
        Borders {
            starts: window.words(symbol) | numbers | window.symbols(symbol) | window.spaces_or_lines(symbol),
            doubtful: contraction | continued | window.lines_among_spaces() | window.now.odd,
        }
    }
}
