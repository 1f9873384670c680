//! Shards that are complete, read document by document; and many of them joined into one row of shards.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::sync::atomic::Ordering;

use super::{Encoded, ShardFiles, ShardSize, Target};
use crate::count::Watch;
use crate::encode::Id;
use crate::error::{Error, Result};

/// What is read, and written, at a time.
pub(super) const BUFFER: usize = 1 << 20;

/// The shards of one split that one run has made.
pub struct Shards {
    pub target: Target,
    pub sizes: Vec<ShardSize>,
}

/// Append the documents of all `rows` to `out`, in order: what one run would have written that encoded them all.
pub fn join<I: Id>(rows: &[Shards], mut out: ShardFiles<I>, watch: &Watch) -> Result<ShardFiles<I>> {
    let mut part = Encoded::default();
    let mut body = Vec::new();
    for row in rows {
        row.each::<I>(&mut body, watch, |tokens, bytes, body| {
            let (ids, mask) = body.split_at(tokens * size_of::<I>());
            part.push(ids, mask, bytes);
            if part.ids.len() * size_of::<I>() >= BUFFER {
                out.append(&part)?;
                part.clear();
            }
            Ok(())
        })?;
    }
    out.append(&part)?;
    Ok(out)
}

impl Shards {
    pub fn total(&self) -> ShardSize {
        self.sizes.iter().fold(ShardSize::default(), |sum, size| ShardSize {
            tokens: sum.tokens + size.tokens,
            documents: sum.documents + size.documents,
            bytes: sum.bytes + size.bytes,
            trained: sum.trained + size.trained,
        })
    }

    /// Hand every document to `take`: its tokens, its bytes of text, and its ids followed by its mask, which lie in
    /// `body`.
    pub(super) fn each<I: Id>(
        &self,
        body: &mut Vec<u8>,
        watch: &Watch,
        mut take: impl FnMut(usize, u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for (number, size) in self.sizes.iter().enumerate() {
            if size.documents == 0 {
                continue; // begun and never filled
            }
            let mut shard = ShardReader::open(&self.target, number)?;
            for _ in 0..size.documents {
                if watch.cancelled() {
                    return Err(Error::Cancelled);
                }
                let (tokens, bytes) = shard.next::<I>(body)?;
                take(tokens, bytes, body)?;
                watch.done.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// The documents of a finished shard, one after another.
struct ShardReader {
    tokens: NumberedFile,
    mask: Option<NumberedFile>,
    ends: NumberedFile,
    bytes: NumberedFile,
    at: u64,
}

struct NumberedFile {
    file: BufReader<File>,
    path: String,
}

impl NumberedFile {
    fn open(path: String, header: u64) -> Result<Self> {
        let open = || -> std::io::Result<_> {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(header))?;
            Ok(BufReader::with_capacity(BUFFER, file))
        };
        match open() {
            Ok(file) => Ok(NumberedFile { file, path }),
            Err(e) => Err(Error::source(format!("cannot read `{path}`: {e}"))),
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact(buffer).map_err(|e| Error::source(format!("cannot read `{}`: {e}", self.path)))
    }

    fn number(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

impl ShardReader {
    fn open(target: &Target, number: usize) -> Result<Self> {
        let open = |kind: &str, header| NumberedFile::open(target.path(number, kind), header);
        let mask = if target.has_mask { Some(open("mask", target.other_header)?) } else { None };
        Ok(ShardReader {
            tokens: open("tokens", target.token_header)?,
            mask,
            ends: open("documents", target.other_header)?,
            bytes: open("bytes", target.other_header)?,
            at: 0,
        })
    }

    /// Read the ids, and the mask if there is one, of the next document into `body`; gives tokens and bytes of text.
    fn next<I: Id>(&mut self, body: &mut Vec<u8>) -> Result<(usize, u64)> {
        let (end, bytes) = (self.ends.number()?, self.bytes.number()?);
        let tokens = end
            .checked_sub(self.at)
            .ok_or_else(|| Error::format(format!("`{}` has ends that do not ascend", self.ends.path)))?;
        let tokens = tokens as usize;
        let id_bytes = tokens * size_of::<I>();
        body.resize(id_bytes + if self.mask.is_some() { tokens } else { 0 }, 0);
        self.tokens.fill(&mut body[..id_bytes])?;
        if let Some(mask) = &mut self.mask {
            mask.fill(&mut body[id_bytes..])?;
        }
        self.at = end;
        Ok((tokens, bytes))
    }
}
