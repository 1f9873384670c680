//! Documents in, token files out.
//!
//! Worker threads take blocks from one reader, encode them side by side, and hand them in; [`in_order`] lets each be
//! written when all before it are, so the files are the same on any number of threads. [`shard_files`] are the files:
//! raw little-endian numbers behind room for a header, which whoever knows the format writes at the end.

mod foreign_rows;
mod hands;
mod in_order;
mod shard_files;
mod shard_reader;
mod shuffle;

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::chat::{ChatEncoder, Reason};
use crate::count::Watch;
use crate::encode::{Bpe, Id, Rules};
use crate::error::{Error, Result};
use crate::source::{BlockStats, OnError, Prepared, Reader};
use hands::Hands;
use in_order::InOrder;

pub use foreign_rows::{ForeignBatch, ForeignDocument, ForeignRows, ForeignSkip};
pub use shard_files::{ShardFiles, ShardSize, Target};
pub use shard_reader::{Shards, join};
pub use shuffle::Shuffle;

/// How documents become tokens, and which file they go to.
pub struct Recipe<'a> {
    pub kind: Kind<'a>,
    pub held_out: Option<HeldOut>,
}

/// What documents are.
pub enum Kind<'a> {
    Text(TextRecipe),
    /// Each is a JSON row; one that cannot be read is an error, or skipped and counted.
    Rows(&'a ChatEncoder, OnError),
    Foreign(&'a dyn ForeignRows, OnError),
}

pub struct TextRecipe {
    /// Which special tokens in the text become ids; those of the others are counted.
    pub rules: Rules,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
}

/// Documents that go to the second target: those whose hash falls below a bound. The hash is xxh3 of their bytes, so
/// equal documents go the same way, in any order and on any machine.
#[derive(Clone, Copy)]
pub struct HeldOut {
    pub below: u64,
    pub seed: u64,
}

impl HeldOut {
    /// About `fraction` of all documents.
    pub fn new(fraction: f64, seed: u64) -> Self {
        // 2^64 itself does not fit: a fraction of 1 leaves out one hash in 2^64.
        HeldOut { below: (fraction * 2f64.powi(64)) as u64, seed }
    }

    fn takes(self, document: &[u8]) -> bool {
        xxh3_64_with_seed(document, self.seed) < self.below
    }
}

/// What encoding met, besides what the reader counted. Adds up.
#[derive(Default)]
pub struct Tally {
    /// Occurrences of each special token as ordinary text, in the order of the vocab's special tokens.
    pub lookalikes: Vec<u64>,
    /// Rows that were left out, in the order of [`Reason::ALL`].
    pub left_out: [u64; Reason::ALL.len()],
    /// Documents that were cut to their longest length.
    pub truncated: u64,
}

impl Tally {
    fn leave_out(&mut self, reason: Reason) {
        let kind = Reason::ALL.iter().position(|&each| each == reason);
        self.left_out[kind.expect("all of them are there")] += 1;
    }

    fn add(&mut self, other: &Tally) {
        self.lookalikes.resize(self.lookalikes.len().max(other.lookalikes.len()), 0);
        for (sum, found) in self.lookalikes.iter_mut().zip(&other.lookalikes) {
            *sum += found;
        }
        for (sum, found) in self.left_out.iter_mut().zip(&other.left_out) {
            *sum += found;
        }
        self.truncated += other.truncated;
    }
}

/// The documents of one block on their way to one target.
pub struct Encoded<I> {
    pub ids: Vec<I>,
    /// Which of them are trained on; empty where all are.
    pub mask: Vec<u8>,
    /// Where documents end in `ids`, and how many bytes of text they had since the end before, or since the block
    /// began.
    pub ends: Vec<(usize, u64)>,
    /// Bytes of a document that the block does not end.
    pub open_bytes: u64,
}

impl<I> Default for Encoded<I> {
    fn default() -> Self {
        Encoded { ids: Vec::new(), mask: Vec::new(), ends: Vec::new(), open_bytes: 0 }
    }
}

impl<I: Id> Encoded<I> {
    /// Add a whole document as files keep it.
    fn push(&mut self, ids: &[u8], mask: &[u8], text_bytes: u64) {
        I::extend_from_bytes(&mut self.ids, ids);
        self.mask.extend_from_slice(mask);
        self.ends.push((self.ids.len(), text_bytes));
    }
}

impl<I> Encoded<I> {
    fn clear(&mut self) {
        self.ids.clear();
        self.mask.clear();
        self.ends.clear();
        self.open_bytes = 0;
    }
}

/// Encode everything `reader` still has into `files`: one target, or two where documents are held out. The first error
/// in the order of the text wins, on any thread count.
pub fn encode_documents<I: Id>(
    bpe: &Bpe,
    reader: &Mutex<Reader>,
    recipe: &Recipe,
    files: Vec<ShardFiles<I>>,
    threads: usize,
    watch: &Watch,
) -> Result<(Vec<ShardFiles<I>>, Tally)> {
    assert_eq!(files.len(), 1 + usize::from(recipe.held_out.is_some()), "one target for each way to go");
    let line = InOrder::new(files, 4 * threads as u64 + 4);
    let job = Job { bpe, reader, recipe, line: &line, watch };
    let tallies: Vec<Result<Tally>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(|| job.work())).collect();
        let mut tallies = vec![job.work()];
        tallies.extend(workers.into_iter().map(|w| w.join().expect("an encoding thread does not panic")));
        tallies
    });
    let mut total = Tally::default();
    for tally in tallies {
        total.add(&tally?);
    }
    if let Some(error) = reader.lock().expect("no thread panics while it reads").take_error() {
        return Err(error);
    }
    Ok((line.into_files()?, total))
}

struct Job<'a, I> {
    bpe: &'a Bpe,
    reader: &'a Mutex<Reader>,
    recipe: &'a Recipe<'a>,
    line: &'a InOrder<I>,
    watch: &'a Watch,
}

impl<I: Id> Job<'_, I> {
    /// One worker: take a block, encode it, hand it in, until there are none.
    fn work(&self) -> Result<Tally> {
        let mut hands = Hands::new(self.recipe, self.bpe);
        let mut stats = BlockStats::default();
        loop {
            if self.watch.cancelled() {
                return Err(Error::Cancelled);
            }
            let next = {
                let mut reader = self.reader.lock().expect("no thread panics while it reads");
                reader.add_stats(&mut stats);
                if self.wants_whole_documents() {
                    reader.next_documents(self.bpe.splitter())
                } else {
                    reader.next_block(self.bpe.splitter())
                }
            };
            let Some(block) = next else { break };
            let index = block.index;
            let mut parts = self.line.spare();
            let encoded = block
                .prepare(&mut stats)
                .and_then(|block| self.encode(&mut hands, &block, index, &mut parts, &mut stats));
            self.watch.done.fetch_add(stats.bytes, Ordering::Relaxed);
            self.watch.detail.fetch_add(stats.documents, Ordering::Relaxed);
            match encoded {
                Ok(()) => self.line.hand_in(index, parts, self.watch)?,
                Err(error) => {
                    self.line.stop();
                    if error == Error::Cancelled {
                        return Err(error);
                    }
                    self.reader.lock().expect("no thread panics while it reads").fail(index, error);
                    break;
                }
            }
        }
        self.reader.lock().expect("no thread panics while it reads").add_stats(&mut stats);
        Ok(hands.into_tally())
    }

    /// Where a document goes is known when all of it is; and what is normalized may not be cut at every border.
    fn wants_whole_documents(&self) -> bool {
        self.recipe.held_out.is_some() || self.bpe.normalizes()
    }

    fn encode(
        &self,
        hands: &mut Hands<'_>,
        block: &Prepared,
        number: u64,
        parts: &mut [Encoded<I>],
        stats: &mut BlockStats,
    ) -> Result<()> {
        if let Hands::Foreign(hands) = hands {
            return hands.encode(block, number, self.recipe.held_out, parts, stats);
        }
        for (index, (text, starts, ends)) in block.documents().enumerate() {
            let held_out = self.recipe.held_out.is_some_and(|held_out| held_out.takes(text));
            let part = &mut parts[usize::from(held_out)];
            match hands {
                Hands::Text(hands) => hands.encode(text, starts, ends, part, self.watch)?,
                Hands::Rows(hands) => {
                    let about = |reason: &str| block.about(index, reason);
                    hands.encode(text, about, (number, index as u64), part, stats, self.watch)?;
                }
                Hands::Foreign(_) => unreachable!("a block at a time, above"),
            }
        }
        Ok(())
    }
}
