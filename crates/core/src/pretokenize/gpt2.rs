//! `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

use super::Scanner;
use super::blocks::{Borders, Window};
use super::runs::{self, NO_SYMBOL};
use crate::unicode::{Classes, LETTER, NUMBER, SPACE};

pub struct Gpt2 {
    classes: &'static Classes,
}

impl Gpt2 {
    pub fn new() -> Self {
        Self { classes: Classes::get() }
    }
}

impl Scanner for Gpt2 {
    #[inline(always)]
    fn next(&self, text: &[u8], start: usize) -> usize {
        let classes = self.classes;
        let first = text[start];
        if first == b'\'' {
            let end = runs::contraction(text, start);
            if end > start {
                return end;
            }
        }
        // ` ?` belongs to the run behind it, whatever its class; a space before a space does not.
        let at = if first == b' ' && start + 1 < text.len() { start + 1 } else { start };
        let (flags, len) = classes.at(text, at);
        if flags & LETTER != 0 {
            runs::letters(classes, text, at + len)
        } else if flags & NUMBER != 0 {
            runs::with(classes, text, at + len, NUMBER)
        } else if flags & SPACE == 0 {
            runs::without(classes, text, at + len, NO_SYMBOL)
        } else {
            runs::spaces(classes, text, start)
        }
    }

    #[inline(always)]
    fn borders(&self, window: &Window) -> Borders {
        let symbol = window.near(|block| block.symbol);
        let letter = window.near(|block| block.letter);
        let number = window.near(|block| block.number);
        let runs = letter.first() | number.first() | symbol.first();
        Borders {
            starts: runs & !window.near(|block| block.blank).left(1) | window.spaces(),
            doubtful: window.now.apostrophe & letter.right(1) | window.now.odd,
        }
    }
}
