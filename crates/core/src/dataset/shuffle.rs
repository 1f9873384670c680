//! Documents in a random order that depends on a seed and their number alone.
//!
//! Each document gets a key, the hash of its place under the seed, and the new order is that of the keys. Where all
//! tokens do not fit the memory, documents are first dealt into buckets by the top bits of their keys; buckets, sorted
//! one by one, give the same order as all at once.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::shard_files::cannot_write;
use super::shard_reader::{BUFFER, Shards};
use super::{Encoded, ShardFiles};
use crate::count::Watch;
use crate::encode::Id;
use crate::error::{Error, Result};

/// A shuffle of the documents of `shards`.
pub struct Shuffle<'a> {
    pub shards: &'a Shards,
    pub seed: u64,
    /// Documents that stay together, such as the two of a preference.
    pub group: usize,
    /// What one bucket may take.
    pub memory: u64,
}

impl Shuffle<'_> {
    /// Write all documents to `out`, in their new order. Buckets go to files beside it, which are removed.
    pub fn run<I: Id>(&self, mut out: ShardFiles<I>, watch: &Watch) -> Result<ShardFiles<I>> {
        let bits = self.bucket_bits::<I>();
        let mut buckets: Vec<Bucket> =
            (0..1usize << bits).map(|n| Bucket::new(&self.shards.target.prefix, n)).collect();
        let room =
            usize::try_from(self.memory).unwrap_or(usize::MAX).div_ceil(buckets.len()).clamp(4096, BUFFER);
        self.deal::<I>(&mut buckets, bits, room, watch)?;
        let mut part = Encoded::default();
        for bucket in buckets {
            let records = bucket.into_records()?;
            self.append_sorted(&records, &mut out, &mut part, watch)?;
        }
        Ok(out)
    }

    fn bucket_bits<I: Id>(&self) -> u32 {
        let size = self.shards.total();
        let width = size_of::<I>() as u64 + u64::from(self.shards.target.has_mask);
        let bytes = size.tokens * width + size.documents * HEAD as u64;
        bytes.div_ceil(self.memory.max(1)).next_power_of_two().trailing_zeros()
    }

    /// Put the record of every document into the bucket of its key.
    fn deal<I: Id>(&self, buckets: &mut [Bucket], bits: u32, room: usize, watch: &Watch) -> Result<()> {
        let mut index = 0u64;
        self.shards.each::<I>(&mut Vec::new(), watch, |tokens, bytes, body| {
            let key = xxh3_64_with_seed(&(index / self.group as u64).to_le_bytes(), self.seed);
            let bucket = if bits == 0 { 0 } else { key >> (64 - bits) };
            let bucket = &mut buckets[bucket as usize];
            for number in [key, index, tokens as u64, bytes] {
                bucket.waiting.extend_from_slice(&number.to_le_bytes());
            }
            bucket.waiting.extend_from_slice(body);
            index += 1;
            if bits > 0 && bucket.waiting.len() >= room { bucket.flush() } else { Ok(()) }
        })
    }

    fn append_sorted<I: Id>(
        &self,
        records: &[u8],
        out: &mut ShardFiles<I>,
        part: &mut Encoded<I>,
        watch: &Watch,
    ) -> Result<()> {
        let width = size_of::<I>() + usize::from(self.shards.target.has_mask);
        let mut order = Vec::new();
        let mut at = 0;
        while at < records.len() {
            let [key, index, tokens, bytes] = head(&records[at..]);
            order.push((key, index, at + HEAD, tokens as usize, bytes));
            at += HEAD + tokens as usize * width;
        }
        order.sort_unstable();
        for (_, _, start, tokens, bytes) in order {
            let (ids, mask) = records[start..start + tokens * width].split_at(tokens * size_of::<I>());
            part.push(ids, mask, bytes);
            if part.ids.len() * size_of::<I>() >= BUFFER {
                out.append(part)?;
                part.clear();
                if watch.cancelled() {
                    return Err(Error::Cancelled);
                }
            }
        }
        out.append(part)?;
        part.clear();
        Ok(())
    }
}

/// Bytes before the tokens of a record: key, number of the document, tokens, bytes of text.
const HEAD: usize = 32;

fn head(record: &[u8]) -> [u64; 4] {
    std::array::from_fn(|n| u64::from_le_bytes(record[n * 8..][..8].try_into().expect("eight bytes")))
}

/// Records whose keys start with the same bits.
struct Bucket {
    path: PathBuf,
    file: bool,
    waiting: Vec<u8>,
}

impl Bucket {
    fn new(prefix: &str, number: usize) -> Self {
        Bucket { path: format!("{prefix}-bucket-{number:05}").into(), file: false, waiting: Vec::new() }
    }

    /// Opened and closed each time: there may be more buckets than files a process may have open.
    fn flush(&mut self) -> Result<()> {
        let failed = |e| cannot_write(&self.path.to_string_lossy(), &e);
        let mut options = OpenOptions::new();
        let options =
            if self.file { options.append(true) } else { options.write(true).create(true).truncate(true) };
        options.open(&self.path).and_then(|mut file| file.write_all(&self.waiting)).map_err(failed)?;
        self.file = true;
        self.waiting.clear();
        Ok(())
    }

    fn into_records(mut self) -> Result<Vec<u8>> {
        if !self.file {
            return Ok(self.waiting);
        }
        self.flush()?;
        let records = std::fs::read(&self.path).and_then(|records| {
            std::fs::remove_file(&self.path)?;
            Ok(records)
        });
        records.map_err(|e| Error::source(format!("cannot read `{}`: {e}", self.path.display())))
    }
}
