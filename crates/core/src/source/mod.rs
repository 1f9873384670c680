//! Bytes in, blocks of whole or safely cut documents out.
//!
//! A [`Source`] reads one file or stream, a [`Reader`] reads sources one after another under one set of limits.
//! Worker threads share the reader behind a lock and hold it only while a block is read; splitting JSON, checking
//! UTF-8 and counting happen outside, unless limits make the order of documents matter.

mod block;
mod json_lines;
mod lines;
mod plain_text;
mod reader;

pub(crate) use block::replace_invalid;
pub use block::{
    BadRecord, Block, BlockStats, Layout, Piece, Place, Prepared, REPLACE_HINT, Raw, SKIPPED_SHOWN, Text,
};
pub use json_lines::JsonLines;
pub use plain_text::PlainText;
pub use reader::{InvalidUtf8, Limits, OnError, Policy, Reader, Supplier};

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::pretokenize::Splitter;

/// What the one who asks for a block needs.
pub struct Want<'a> {
    pub splitter: &'a Splitter,
    pub block_bytes: usize,
    /// Never hand out a part of a document.
    pub whole_documents: bool,
}

/// The documents of one file or stream.
pub trait Source: Send {
    /// The next block, or `None` at the end. Called by one thread at a time.
    fn next(&mut self, want: &Want) -> Result<Option<Raw>>;
}

/// A file or stream of bytes. Unlike `Read`, it fails with our error, which names the file.
pub trait Input: Send {
    /// Read up to `buffer.len()` bytes; 0 means the end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize>;
}

/// A local file that must not change while it is read.
pub struct FileInput {
    file: File,
    path: String,
    opened_as: Option<(u64, Option<SystemTime>)>,
}

impl FileInput {
    pub fn open(path: &str, start: u64) -> Result<Self> {
        let open = || -> std::io::Result<Self> {
            let mut file = File::open(path)?;
            if start > 0 {
                file.seek(SeekFrom::Start(start))?;
            }
            let opened_as = identity(&file)?;
            Ok(FileInput { file, path: path.to_owned(), opened_as })
        };
        open().map_err(|e| Error::source(format!("cannot open `{path}`: {e}")))
    }
}

/// Size and time of change of a regular file; pipes and devices have none.
fn identity(file: &File) -> std::io::Result<Option<(u64, Option<SystemTime>)>> {
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then(|| (metadata.len(), metadata.modified().ok())))
}

impl Input for FileInput {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = loop {
            match self.file.read(buffer) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let failed = |e: std::io::Error| Error::source(format!("cannot read `{}`: {e}", self.path));
        let len = read.map_err(failed)?;
        if len == 0 && identity(&self.file).map_err(failed)? != self.opened_as {
            return Err(Error::source(format!("`{}` changed while it was read", self.path))
                .hint("wait until whatever writes it is done"));
        }
        Ok(len)
    }
}
