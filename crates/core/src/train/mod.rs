//! Pretoken counts in, merges out, exactly as a full recount before every merge would choose them.
//!
//! [`sequences`] holds the distinct pretokens as one flat array of token ids, [`pair_counts`] knows how often each
//! pair occurs and where, [`ties`] orders pairs of equal count, [`merge_loop`] ties them together.

mod merge_loop;
mod pair_counts;
mod sequences;
mod ties;

pub use merge_loop::{train_merges, train_merges_from};
pub use pair_counts::PairMap;
pub use ties::Ties;

use crate::error::{Error, Result};

/// Largest vocab: ids must fit an i32 wherever people put them.
pub const MAX_TOKENS: usize = 1 << 31;

/// How to train. `num_tokens` counts the 256 bytes, not the special tokens.
#[derive(Clone, Debug)]
pub struct Options {
    pub num_tokens: usize,
    pub ties: Ties,
    pub min_count: u64,
    pub max_token_bytes: Option<usize>,
    pub special_tokens: Vec<String>,
    pub threads: usize,
    /// Scales the threshold below which new pairs are forgotten until needed; tests vary it to force rebuilds.
    /// The result does not depend on it.
    pub forget: f64,
}

impl Options {
    pub fn new(num_tokens: usize, ties: Ties) -> Self {
        Options {
            num_tokens,
            ties,
            min_count: 1,
            max_token_bytes: None,
            special_tokens: Vec::new(),
            threads: 1,
            forget: 0.2,
        }
    }

    fn check(&self) -> Result<()> {
        if self.num_tokens < 256 {
            return Err(Error::vocab(format!("{} tokens are fewer than the 256 bytes", self.num_tokens)));
        }
        if self.num_tokens > MAX_TOKENS {
            return Err(Error::vocab(format!("{} tokens are more than 2^31", self.num_tokens)));
        }
        Ok(())
    }
}

/// Why training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The vocab has its size.
    Full,
    /// No two tokens are left side by side.
    NoPairs,
    /// The best pair occurs less often than asked for.
    MinCount,
}

impl Stopped {
    pub fn name(self) -> &'static str {
        match self {
            Stopped::Full => "full",
            Stopped::NoPairs => "no pairs",
            Stopped::MinCount => "min count",
        }
    }
}

/// Two neighbouring ids, the left one in the high half.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Pair(u64);

impl Pair {
    #[inline]
    pub fn new(left: u32, right: u32) -> Self {
        Pair(u64::from(left) << 32 | u64::from(right))
    }
    #[inline]
    pub fn left(self) -> u32 {
        (self.0 >> 32) as u32
    }
    #[inline]
    pub fn right(self) -> u32 {
        self.0 as u32
    }
}

/// What was learned, in order. `tokens[id]` is the bytes of every id; merges that spell the same bytes share one.
#[derive(Clone, Debug)]
pub struct Merges {
    pub triples: Vec<(u32, u32, u32)>,
    /// Occurrences of each merge's pair when it was made.
    pub counts: Vec<u64>,
    pub tokens: Vec<Vec<u8>>,
    pub stopped: Stopped,
    /// Tokens that the counted text becomes.
    pub training_tokens: u128,
    /// Distinct pairs before the first merge.
    pub num_pairs: usize,
    /// The most frequent of them.
    pub top_pairs: Vec<(u32, u32, u64)>,
    /// Index of the first merge that reuses an id.
    pub first_shared: Option<usize>,
}
