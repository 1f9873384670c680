//! The files of one split while they grow: tokens, mask, document ends, text bytes of each document.
//!
//! A shard holds whole documents; it is closed at the first document end at or after so many tokens. What lies in a
//! file beyond the size a caller hands in is of a run that did not live to tell, and is cut off.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::marker::PhantomData;

use super::Encoded;
use crate::encode::Id;
use crate::error::{Error, Result};

/// Written bytes after which the system is told to start on them, so that the end of a shard need not wait for all of
/// its bytes at once.
const START_WRITING_AT: u64 = 8 << 20;

/// Where a split's files go and how they are cut.
#[derive(Clone, Debug)]
pub struct Target {
    /// `FOLDER/shard-train`: the number of the shard and the kind of file follow.
    pub prefix: String,
    /// Room left at the start of the token file, and of the others.
    pub token_header: u64,
    pub other_header: u64,
    pub shard_tokens: Option<u64>,
    pub has_mask: bool,
}

impl Target {
    /// The file of shard `number` that holds its tokens, mask, documents or bytes.
    pub fn path(&self, number: usize, kind: &str) -> String {
        format!("{}-{number:05}.{kind}", self.prefix)
    }
}

/// What a shard holds.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct ShardSize {
    pub tokens: u64,
    pub documents: u64,
    /// Of text.
    pub bytes: u64,
    /// Tokens whose mask is 1.
    pub trained: u64,
}

/// The last shard of a split, open, and the sizes of those before it since the files were opened.
pub struct ShardFiles<I> {
    target: Target,
    first: usize,
    sizes: Vec<ShardSize>,
    /// Ends and text bytes of documents whose tokens are not written yet.
    ends: Vec<u64>,
    bytes: Vec<u64>,
    /// Bytes of a document whose end has not come yet.
    open_bytes: u64,
    open: Option<OpenFiles>,
    ids: PhantomData<I>,
}

struct OpenFiles {
    tokens: GrowingFile,
    mask: Option<GrowingFile>,
    documents: GrowingFile,
    bytes: GrowingFile,
}

impl<I: Id> ShardFiles<I> {
    /// Go on with shard `number`, which holds `size`.
    pub fn new(target: Target, number: usize, size: ShardSize) -> Self {
        ShardFiles {
            target,
            first: number,
            sizes: vec![size],
            ends: Vec::new(),
            bytes: Vec::new(),
            open_bytes: 0,
            open: None,
            ids: PhantomData,
        }
    }

    /// The shards since the files were opened, from the one they went on with to the last, which may be empty.
    pub fn sizes(&self) -> &[ShardSize] {
        &self.sizes
    }

    fn size(&self) -> ShardSize {
        *self.sizes.last().expect("there is always one")
    }

    pub fn append(&mut self, part: &Encoded<I>) -> Result<()> {
        let mut from = 0;
        for &(end, text_bytes) in &part.ends {
            let end_in_shard = self.size().tokens + (end - from) as u64;
            self.ends.push(end_in_shard);
            self.bytes.push(text_bytes + std::mem::take(&mut self.open_bytes));
            if self.target.shard_tokens.is_some_and(|most| end_in_shard >= most) {
                self.write(part, from, end)?;
                self.sizes.push(ShardSize::default());
                self.open = None;
                from = end;
            }
        }
        self.open_bytes += part.open_bytes;
        self.write(part, from, part.ids.len())
    }

    /// Write the ids `from..to` of `part`, and all documents that end there.
    fn write(&mut self, part: &Encoded<I>, from: usize, to: usize) -> Result<()> {
        if from == to && self.ends.is_empty() {
            return Ok(());
        }
        if self.open.is_none() {
            self.open = Some(self.open_files()?);
        }
        let files = self.open.as_mut().expect("just opened");
        let size = self.sizes.last_mut().expect("there is always one");
        files.tokens.write(I::as_bytes(&part.ids[from..to]))?;
        if let Some(mask) = &mut files.mask {
            mask.write(&part.mask[from..to])?;
            size.trained += part.mask[from..to].iter().map(|&trained| u64::from(trained)).sum::<u64>();
        }
        files.documents.write(&little_endian(&self.ends))?;
        files.bytes.write(&little_endian(&self.bytes))?;
        size.tokens += (to - from) as u64;
        size.documents += self.ends.len() as u64;
        size.bytes += self.bytes.iter().sum::<u64>();
        self.ends.clear();
        self.bytes.clear();
        Ok(())
    }

    fn open_files(&self) -> Result<OpenFiles> {
        let (target, size) = (&self.target, self.size());
        let number = self.first + self.sizes.len() - 1;
        let open =
            |kind: &str, header: u64, len: u64| GrowingFile::open(target.path(number, kind), header, len);
        let mask = if target.has_mask { Some(open("mask", target.other_header, size.tokens)?) } else { None };
        Ok(OpenFiles {
            tokens: open("tokens", target.token_header, size.tokens * size_of::<I>() as u64)?,
            mask,
            documents: open("documents", target.other_header, size.documents * 8)?,
            bytes: open("bytes", target.other_header, size.documents * 8)?,
        })
    }
}

fn little_endian(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A file that is only written at its end.
struct GrowingFile {
    file: File,
    path: String,
    len: u64,
    /// The system was told to start writing up to here.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    started: u64,
}

impl GrowingFile {
    /// The file at `path` with `len` bytes after its header; more than that is cut off.
    fn open(path: String, header: u64, len: u64) -> Result<Self> {
        let failed = |e| cannot_write(&path, &e);
        let mut file = (OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path))
            .map_err(failed)?;
        let there = file.metadata().map_err(failed)?.len();
        if len > 0 && there < header + len {
            let message = format!("`{path}` should have {} bytes by now but has {there}", header + len);
            return Err(Error::format(message).hint("remove the work folder it is in and run again"));
        }
        file.set_len(header + len).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(GrowingFile { file, len: header + len, started: header + len, path })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| cannot_write(&self.path, &e))?;
        self.len += bytes.len() as u64;
        #[cfg(target_os = "linux")]
        if self.len - self.started >= START_WRITING_AT {
            use std::os::fd::AsRawFd;
            let (start, len) = (self.started as libc::off64_t, (self.len - self.started) as libc::off64_t);
            // SAFETY: the descriptor is open, and the call changes no memory of ours. Should the system refuse, the
            // bytes are written when they would have been anyway.
            unsafe { libc::sync_file_range(self.file.as_raw_fd(), start, len, libc::SYNC_FILE_RANGE_WRITE) };
            self.started = self.len;
        }
        Ok(())
    }
}

pub(super) fn cannot_write(path: &str, error: &std::io::Error) -> Error {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
        let message = format!("no room to write `{path}`: {error}");
        let hint = "what was finished is kept; free some space and run the same command again";
        return Error::Output { message, hint: Some(hint.into()) };
    }
    Error::Output { message: format!("`{path}` cannot be written: {error}"), hint: None }
}
