//! GPT-4o's pattern. With `U` = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, `W` = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]` and
//! `C` = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?` it reads
//! `[^\r\n\p{L}\p{N}]?U*W+C|[^\r\n\p{L}\p{N}]?U+W*C|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

use super::Scanner;
use super::blocks::{Borders, Window};
use super::runs::{self, NO_SYMBOL};
use crate::unicode::{Classes, LETTER, LOWERISH, NEWLINE, NUMBER, SPACE, UPPERISH};

pub struct O200k {
    classes: &'static Classes,
}

impl O200k {
    pub fn new() -> Self {
        Self { classes: Classes::get() }
    }

    /// `U*W+` at `at`: its end, or `at` if it does not match.
    ///
    /// `U*` takes its whole run. If no `W` follows, it gives characters back until one is in both classes, and
    /// `W+` then ends right behind that one, because everything after it in the run is in `U` alone.
    #[inline]
    fn lower_word(&self, text: &[u8], at: usize) -> usize {
        let mut end = at;
        let mut behind_last_both = at;
        while end < text.len() {
            let (flags, len) = self.classes.at(text, end);
            if flags & UPPERISH == 0 {
                if flags & LOWERISH != 0 {
                    return runs::lowerish(self.classes, text, end + len);
                }
                break;
            }
            end += len;
            if flags & LOWERISH != 0 {
                behind_last_both = end;
            }
        }
        behind_last_both
    }

    /// `U+W*` at `at`, called only where `lower_word` failed, so nothing in `W` follows the run.
    fn upper_word(&self, text: &[u8], at: usize) -> usize {
        runs::with(self.classes, text, at, UPPERISH)
    }

    fn suffix(&self, text: &[u8], end: usize) -> usize {
        if text.get(end) == Some(&b'\'') { runs::contraction_any_case(text, end) } else { end }
    }
}

impl Scanner for O200k {
    #[inline(always)]
    fn next(&self, text: &[u8], start: usize) -> usize {
        let classes = self.classes;
        let (flags, len) = classes.at(text, start);
        let second = start + len;
        if flags & NUMBER != 0 {
            return runs::numbers(classes, text, second, 2);
        }
        if flags & (LETTER | NEWLINE) == 0 {
            // The optional first character: with it before without it, for either kind of word.
            let end = self.lower_word(text, second);
            if end > second {
                return self.suffix(text, end);
            }
        }
        if flags & (UPPERISH | LOWERISH) != 0 {
            let end = self.lower_word(text, start);
            if end > start {
                return self.suffix(text, end);
            }
        }
        if flags & (LETTER | NEWLINE) == 0 {
            let end = self.upper_word(text, second);
            if end > second {
                return self.suffix(text, end);
            }
        }
        if flags & UPPERISH != 0 {
            return self.suffix(text, self.upper_word(text, start));
        }
        let symbols = if text[start] == b' ' { second } else { start };
        if runs::is_without(classes, text, symbols, NO_SYMBOL) {
            let end = runs::without(classes, text, symbols, NO_SYMBOL);
            return runs::of_bytes(text, end, b"\r\n/");
        }
        debug_assert!(flags & SPACE != 0);
        runs::spaces_or_lines(classes, text, start)
    }

    #[inline(always)]
    fn borders(&self, window: &Window) -> Borders {
        let symbol = window.near(|block| block.symbol & !block.mark);
        let letter = window.near(|block| block.letter);
        let (numbers, continued) = window.numbers(3);
        let upper = window.now.upper;
        let lower = window.near(|block| block.lower);
        let either = window.near(|block| block.letter & !block.upper & !block.lower);
        let slash = window.near(|block| block.slash);
        let newline = window.near(|block| block.newline);
        let words = window.words(symbol) | upper & lower.left(1);
        let contraction = window.now.apostrophe & letter.left(1) & letter.right(1);
        // `[\r\n/]*` may end inside a run of symbols, at a slash; then the next of them starts a pretoken.
        let near_slash = slash.left(2) | slash.left(3) | slash.left(4) | slash.left(5);
        let slashes = slash.now & newline.left(1) | letter.now & symbol.left(1) & near_slash;
        let case = upper & either.left(1) | window.now.mark;
        Borders {
            starts: words | numbers | window.symbols(symbol) | window.spaces_or_lines(symbol),
            doubtful: contraction | slashes | case | continued | window.lines_among_spaces() | window.now.odd,
        }
    }
}
