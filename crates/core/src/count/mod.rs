//! Documents in, exact pretoken counts out. Two counts add up to one.
//!
//! Every worker thread owns a [`table::CountTable`]; they take blocks from one reader and are added up at the
//! end, so neither the number of threads nor the way the text was cut into blocks can be seen in the result.

mod counts;
mod table;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub use counts::PretokenCounts;
use table::CountTable;

use crate::error::{Error, Result};
use crate::pretokenize::{Sink, Splitter};
use crate::source::{BlockStats, Reader};

/// Numbers a caller may look at, and the flag it may raise, while a long call runs.
#[derive(Default)]
pub struct Watch {
    pub cancel: AtomicBool,
    /// Text bytes read, or merges done.
    pub done: AtomicU64,
    /// Documents read, or the count of the last merge.
    pub detail: AtomicU64,
}

impl Watch {
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

/// Counts pretokens over any number of [`Counter::count`] calls.
pub struct Counter {
    splitter: Arc<Splitter>,
    tables: Vec<CountTable>,
    /// Occurrences of special tokens that were cut out.
    pub special_tokens: u64,
    /// Pretokens that no match of the pattern covered.
    pub unmatched: u64,
}

impl Counter {
    pub fn new(splitter: Arc<Splitter>, threads: usize) -> Self {
        let tables = (0..threads.max(1)).map(|_| CountTable::new()).collect();
        Counter { splitter, tables, special_tokens: 0, unmatched: 0 }
    }

    /// Count everything `reader` still has. The first error in the order of the text wins, on any thread count.
    pub fn count(&mut self, reader: &Mutex<Reader>, watch: &Watch) -> Result<()> {
        let splitter = &*self.splitter;
        let workers: Vec<Result<Tally>> = if self.tables.len() == 1 {
            vec![work(splitter, &mut self.tables[0], reader, watch)]
        } else {
            std::thread::scope(|scope| {
                let handles: Vec<_> = (self.tables.iter_mut())
                    .map(|table| scope.spawn(move || work(splitter, table, reader, watch)))
                    .collect();
                handles.into_iter().map(|h| h.join().expect("a counting thread does not panic")).collect()
            })
        };
        for tally in workers {
            let tally = tally?;
            self.special_tokens += tally.special_tokens;
            self.unmatched += tally.unmatched;
        }
        let mut reader = reader.lock().expect("no thread panics while it reads");
        match reader.take_error() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The counts so far; the counter is empty again.
    pub fn take(&mut self) -> Result<PretokenCounts> {
        let threads = self.tables.len();
        let mut tables: Vec<_> = self.tables.iter_mut().map(std::mem::take).collect();
        // A tree of pairwise sums: log2(threads) rounds, each in parallel.
        while tables.len() > 1 {
            let mut rest = tables.split_off(tables.len().div_ceil(2));
            std::thread::scope(|scope| {
                let handles: Vec<_> = (tables.iter_mut().zip(rest.drain(..)))
                    .map(|(into, from)| scope.spawn(move || into.add(from)))
                    .collect();
                handles.into_iter().try_for_each(|h| h.join().expect("adding does not panic"))
            })?;
        }
        self.tables = (0..threads).map(|_| CountTable::new()).collect();
        Ok(tables.pop().map(CountTable::into_counts).unwrap_or_default())
    }
}

#[derive(Default)]
struct Tally {
    special_tokens: u64,
    unmatched: u64,
}

struct CountSink<'a> {
    table: &'a mut CountTable,
    tally: &'a mut Tally,
    watch: &'a Watch,
}

impl Sink for CountSink<'_> {
    #[inline(always)]
    fn pretoken(&mut self, text: &[u8], start: usize, end: usize) {
        self.table.count(text, start, end);
    }
    fn special(&mut self, _index: usize) {
        self.tally.special_tokens += 1;
    }
    fn unmatched(&mut self) {
        self.tally.unmatched += 1;
    }
    fn cancelled(&self) -> bool {
        self.watch.cancelled()
    }
}

/// One worker: take a block, prepare it, count it, until there are none. Errors go to the reader, which keeps
/// the one that comes first in the text.
fn work(splitter: &Splitter, table: &mut CountTable, reader: &Mutex<Reader>, watch: &Watch) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut stats = BlockStats::default();
    loop {
        if watch.cancelled() {
            return Err(Error::Cancelled);
        }
        let next = {
            let mut reader = reader.lock().expect("no thread panics while it reads");
            reader.add_stats(&mut stats);
            reader.next_block(splitter)
        };
        let Some(block) = next else { break };
        let index = block.index;
        let counted = block.prepare(&mut stats).and_then(|block| {
            for piece in block.pieces() {
                let mut sink = CountSink { table, tally: &mut tally, watch };
                splitter.split(piece, &mut sink)?;
                table.flush(piece);
            }
            Ok(())
        });
        watch.done.fetch_add(stats.bytes, Ordering::Relaxed);
        watch.detail.fetch_add(stats.documents, Ordering::Relaxed);
        match counted {
            Ok(()) => {}
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) => reader.lock().expect("no thread panics while it reads").fail(index, error),
        }
    }
    reader.lock().expect("no thread panics while it reads").add_stats(&mut stats);
    Ok(tally)
}
