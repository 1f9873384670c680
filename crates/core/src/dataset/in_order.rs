//! A line in which blocks are written in the order of the text, whichever thread encoded them first.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::{Encoded, ShardFiles};
use crate::count::Watch;
use crate::encode::Id;
use crate::error::{Error, Result};

/// How long a thread whose block is too early sleeps before it looks whether the caller wants to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub struct InOrder<I> {
    line: Mutex<Line<I>>,
    moved: Condvar,
    /// How far ahead of the block to be written next a block may wait: what bounds the memory.
    window: u64,
}

struct Line<I> {
    files: Vec<ShardFiles<I>>,
    /// Index of the block to be written next.
    next: u64,
    /// Blocks that came early.
    waiting: BTreeMap<u64, Vec<Encoded<I>>>,
    /// Emptied, to be filled again: memory that is new to a process costs a page fault every four kilobytes.
    spare: Vec<Vec<Encoded<I>>>,
    /// No block is written any more.
    stopped: bool,
    failed: Option<Error>,
}

impl<I: Id> InOrder<I> {
    pub fn new(files: Vec<ShardFiles<I>>, window: u64) -> Self {
        let line = Line {
            files,
            next: 0,
            waiting: BTreeMap::new(),
            spare: Vec::new(),
            stopped: false,
            failed: None,
        };
        InOrder { line: Mutex::new(line), moved: Condvar::new(), window }
    }

    fn lock(&self) -> MutexGuard<'_, Line<I>> {
        self.line.lock().expect("no thread panics while it writes")
    }

    /// One empty part for each target.
    pub fn spare(&self) -> Vec<Encoded<I>> {
        let mut line = self.lock();
        let targets = line.files.len();
        line.spare.pop().unwrap_or_else(|| (0..targets).map(|_| Encoded::default()).collect())
    }

    /// Write the block with this index as soon as it is its turn, together with those that waited for it. A block that
    /// is far too early keeps its thread waiting.
    pub fn hand_in(&self, index: u64, parts: Vec<Encoded<I>>, watch: &Watch) -> Result<()> {
        let mut line = self.lock();
        while index >= line.next + self.window && !line.stopped {
            if watch.cancelled() {
                return Err(Error::Cancelled);
            }
            line = self.moved.wait_timeout(line, LOOK_EVERY).expect("no thread panics while it writes").0;
        }
        line.waiting.insert(index, parts);
        let before = line.next;
        while let Some(parts) = line.take_next() {
            line.write(parts);
        }
        if line.next > before || line.stopped {
            self.moved.notify_all();
        }
        Ok(())
    }

    /// Write no more blocks: what comes after a block that failed has no place.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.moved.notify_all();
    }

    /// The files after the last block, or what went wrong when one was written.
    pub fn into_files(self) -> Result<Vec<ShardFiles<I>>> {
        let line = self.line.into_inner().expect("no thread panics while it writes");
        match line.failed {
            Some(error) => Err(error),
            None => Ok(line.files),
        }
    }
}

impl<I: Id> Line<I> {
    fn take_next(&mut self) -> Option<Vec<Encoded<I>>> {
        if self.stopped { None } else { self.waiting.remove(&self.next) }
    }

    fn write(&mut self, mut parts: Vec<Encoded<I>>) {
        for (part, files) in parts.iter_mut().zip(&mut self.files) {
            if let Err(error) = files.append(part) {
                self.failed.get_or_insert(error);
                self.stopped = true;
                return;
            }
            part.clear();
        }
        self.next += 1;
        self.spare.push(parts);
    }
}
