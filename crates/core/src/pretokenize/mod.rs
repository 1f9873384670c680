//! Text in, pretokens out: the only pretokeniser of the project, for training, counting and encoding alike.
//!
//! Special tokens are cut out first, longest first. Named patterns run in hand-written scanners, any other regex
//! in a general engine; both give the whole matches of Python's `regex.finditer`, and what lies between two
//! matches becomes a pretoken of its own. No scanner remembers anything but its position, which is what makes
//! [`Splitter::last_cut`] possible.

mod blocks;
mod cl100k;
mod dialect;
mod gpt2;
mod o200k;
mod regex;
mod runs;

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::{Error, Result};

use crate::unicode::{Classes, LETTER, LOWERISH, NUMBER, SPACE, UPPERISH};
use blocks::{Borders, Window, scan};

/// Receives pretokens in order. `text[start..end]` is never empty.
pub trait Sink {
    fn pretoken(&mut self, text: &[u8], start: usize, end: usize);
    /// Occurrence of the special token with this index.
    fn special(&mut self, _index: usize) {}
    /// The pretoken just given lies between two matches of the pattern.
    fn unmatched(&mut self) {}
    /// Asked now and then: whether to give up with [`Error::Cancelled`].
    fn cancelled(&self) -> bool {
        false
    }
}

/// A pattern that knows where the pretoken starting at a position ends.
trait Scanner {
    /// `start` is inside `text`; the result is greater than `start` and at most `text.len()`.
    fn next(&self, text: &[u8], start: usize) -> usize;

    /// The same as bits, for the block in the middle of the window.
    fn borders(&self, window: &Window) -> Borders;
}

enum Pattern {
    Gpt2(gpt2::Gpt2),
    Digits1(cl100k::Cl100k<1>),
    Digits2(cl100k::Cl100k<2>),
    Digits3(cl100k::Cl100k<3>),
    Digits3Tail(cl100k::Cl100k<3, true>),
    O200k(o200k::O200k),
    Regex(regex::GeneralRegex),
}

/// A pattern with a scanner of its own: its name, its regex, and other spellings of the same regex.
struct Named {
    name: &'static str,
    spellings: &'static [&'static str],
    scanner: fn() -> Pattern,
}

const GPT4: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const NAMED: &[Named] = &[
    Named {
        name: "gpt2",
        spellings: &[
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        ],
        scanner: || Pattern::Gpt2(gpt2::Gpt2::new()),
    },
    Named {
        name: "gpt4",
        spellings: &[
            GPT4,
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        ],
        scanner: || Pattern::Digits3(cl100k::Cl100k::new()),
    },
    Named {
        // What tiktoken gives `cl100k_base` today.
        name: "cl100k",
        spellings: &[
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        ],
        scanner: || Pattern::Digits3Tail(cl100k::Cl100k::new()),
    },
    Named {
        name: "gpt4o",
        spellings: &[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        scanner: || Pattern::O200k(o200k::O200k::new()),
    },
    // Llama 3 ships GPT-4's regex; a name of its own keeps the manifest honest about where a vocab came from.
    Named { name: "llama3", spellings: &[GPT4], scanner: || Pattern::Digits3(cl100k::Cl100k::new()) },
    Named {
        name: "qwen2",
        spellings: &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        scanner: || Pattern::Digits1(cl100k::Cl100k::new()),
    },
    Named {
        name: "nanochat",
        spellings: &[
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        scanner: || Pattern::Digits2(cl100k::Cl100k::new()),
    },
];

/// Name and regex of every pattern with a scanner of its own.
pub fn named_patterns() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMED.iter().map(|named| (named.name, named.spellings[0]))
}

/// Cuts text into pretokens. Immutable, shared freely between threads.
pub struct Splitter {
    name: Option<&'static str>,
    regex: String,
    pattern: Pattern,
    special_tokens: Vec<String>,
    specials: Option<SpecialFinder>,
}

impl Splitter {
    /// `pattern` is a name or a regex; a regex known to be a named one gets that scanner.
    pub fn new(pattern: &str, special_tokens: &[String]) -> Result<Splitter> {
        let known = NAMED.iter().find(|n| n.name == pattern || n.spellings.contains(&pattern));
        let (name, regex, scanner) = match known {
            Some(named) => (Some(named.name), named.spellings[0].to_owned(), (named.scanner)()),
            None => (None, pattern.to_owned(), Pattern::Regex(regex::GeneralRegex::new(pattern)?)),
        };
        let specials = find_specials(special_tokens)?;
        Ok(Splitter { name, regex, pattern: scanner, special_tokens: special_tokens.to_vec(), specials })
    }

    pub fn name(&self) -> Option<&'static str> {
        self.name
    }

    pub fn regex(&self) -> &str {
        &self.regex
    }

    pub fn special_tokens(&self) -> &[String] {
        &self.special_tokens
    }

    /// Give every pretoken of `text` to `sink`, special tokens cut out.
    pub fn split(&self, text: &[u8], sink: &mut impl Sink) -> Result<()> {
        let mut start = 0;
        if let Some(specials) = &self.specials {
            for found in specials.first.find_iter(text) {
                self.split_range(text, start, found.start(), sink)?;
                sink.special(found.pattern().as_usize());
                start = found.end();
            }
        }
        self.split_range(text, start, text.len(), sink)
    }

    /// The pretokens of `text[start..end]` as if it stood alone, special tokens in it being ordinary text.
    /// The sink sees positions in `text`.
    pub fn split_range(&self, text: &[u8], start: usize, end: usize, sink: &mut impl Sink) -> Result<()> {
        match &self.pattern {
            Pattern::Gpt2(scanner) => scan(scanner, &text[..end], start, sink),
            Pattern::Digits1(scanner) => scan(scanner, &text[..end], start, sink),
            Pattern::Digits2(scanner) => scan(scanner, &text[..end], start, sink),
            Pattern::Digits3(scanner) => scan(scanner, &text[..end], start, sink),
            Pattern::Digits3Tail(scanner) => scan(scanner, &text[..end], start, sink),
            Pattern::O200k(scanner) => scan(scanner, &text[..end], start, sink),
            Pattern::Regex(regex) => regex.split(text, start, end, sink),
        }
    }

    /// The last position where `text` may be cut in two without changing a pretoken, whatever follows `text`.
    ///
    /// Between a letter or number and a space or symbol every named pattern ends a pretoken, and what comes
    /// before does not look across it. A mark or an apostrophe may continue a word in `gpt4o`, so never there.
    /// A general regex may look behind, so it is never cut. Nothing is looked for before `from`.
    pub fn last_cut(&self, text: &[u8], from: usize) -> Option<usize> {
        self.last_cut_where(text, from, |_| true)
    }

    /// The last such position that `accept` agrees with.
    pub fn last_cut_where(&self, text: &[u8], from: usize, accept: impl Fn(usize) -> bool) -> Option<usize> {
        if matches!(self.pattern, Pattern::Regex(_)) {
            return None;
        }
        let classes = Classes::get();
        let mut end = self.uncertain_from(text.len());
        while end > 0 && text[end] & 0xC0 == 0x80 {
            end -= 1;
        }
        while end > from {
            let (after, _) = classes.at(text, end);
            let word_ends = after & SPACE != 0
                || (after & (LETTER | NUMBER | UPPERISH | LOWERISH) == 0 && text[end] != b'\'');
            let (start, before, _) = classes.before(text, end);
            let is_border = word_ends && before & (LETTER | NUMBER) != 0;
            if is_border && accept(end) && !self.inside_special(text, end) {
                return Some(end);
            }
            end = start;
        }
        None
    }

    /// Where the last characters of a text of this length begin that may be the start of a longer character or of
    /// a special token: [`Splitter::last_cut`] looks no further.
    pub fn uncertain_from(&self, len: usize) -> usize {
        len.saturating_sub(self.specials.as_ref().map_or(0, |specials| specials.longest).max(4))
    }

    fn inside_special(&self, text: &[u8], cut: usize) -> bool {
        let Some(specials) = &self.specials else { return false };
        let around = cut.saturating_sub(specials.longest)..(cut + specials.longest).min(text.len());
        let cut = cut - around.start;
        // Every occurrence, since one special token may overlap another or itself.
        let mut found = specials.overlapping.find_overlapping_iter(&text[around]);
        found.any(|found| found.start() < cut && cut < found.end())
    }
}

/// Special tokens to cut out, and to stay away from when a text is cut.
struct SpecialFinder {
    /// The longest where several start.
    first: AhoCorasick,
    overlapping: AhoCorasick,
    longest: usize,
}

fn find_specials(special_tokens: &[String]) -> Result<Option<SpecialFinder>> {
    let mut seen = HashSet::with_capacity(special_tokens.len());
    for (index, special) in special_tokens.iter().enumerate() {
        if special.is_empty() {
            return Err(Error::config(format!("special token {index} is empty")));
        }
        if !seen.insert(special) {
            return Err(Error::config(format!("special token `{special}` is given twice")));
        }
    }
    let Some(longest) = special_tokens.iter().map(String::len).max() else { return Ok(None) };
    let build = |kind: MatchKind| {
        let finder = AhoCorasick::builder().match_kind(kind).build(special_tokens);
        finder.map_err(|e| Error::config(format!("special tokens cannot be searched for: {e}")))
    };
    let first = build(MatchKind::LeftmostLongest)?;
    Ok(Some(SpecialFinder { first, overlapping: build(MatchKind::Standard)?, longest }))
}
