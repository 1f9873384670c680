//! Text files: documents between separators, of any length.

use std::sync::Arc;

use memchr::memmem::Finder;

use super::block::{Layout, Piece, Place, Raw, Text};
use super::lines::Window;
use super::{FileInput, Input, Source, Want};
use crate::error::Result;

/// `window` starts inside a document if `in_document`, else at the start of one. Separators are found from the
/// left and never overlap, so what a document is does not depend on block sizes.
pub struct PlainText {
    name: Arc<str>,
    window: Window,
    separator: Finder<'static>,
    end: u64,
    in_document: bool,
    done: bool,
}

impl PlainText {
    pub fn new(input: Box<dyn Input>, name: &str, separator: &[u8]) -> Self {
        assert!(!separator.is_empty(), "the caller refuses an empty separator");
        let window = Window::new(input, 0);
        let separator = Finder::new(separator).into_owned();
        PlainText { name: name.into(), window, separator, end: u64::MAX, in_document: false, done: false }
    }

    /// The documents of a local file whose first byte lies in `start..end`. Right for every separator that
    /// cannot overlap itself.
    pub fn range(path: &str, name: &str, separator: &[u8], start: u64, end: u64) -> Result<Self> {
        let from = start.saturating_sub(separator.len() as u64);
        let input = Box::new(FileInput::open(path, from)?);
        let mut source = PlainText { end, ..PlainText::new(input, name, separator) };
        source.window.offset = from;
        if start > 0 {
            source.skip_to_document()?;
        }
        Ok(source)
    }

    /// Drop everything up to the end of the first separator.
    fn skip_to_document(&mut self) -> Result<()> {
        let keep = self.separator.needle().len() - 1;
        loop {
            self.window.fill(1 << 20)?;
            if let Some(at) = self.separator.find(&self.window.bytes) {
                self.window.take(at + keep + 1);
                break;
            }
            if self.window.ended {
                self.done = true;
                break;
            }
            self.window.take(self.window.bytes.len() - keep);
        }
        self.done |= self.window.offset >= self.end;
        Ok(())
    }
}

impl Source for PlainText {
    fn next(&mut self, want: &Want) -> Result<Option<Raw>> {
        if self.done {
            return Ok(None);
        }
        let separator_len = self.separator.needle().len();
        let mut pieces = Vec::new();
        let mut start = 0; // of the piece being looked at
        let mut searched = 0; // no separator starts before
        let mut uncut = 0; // nowhere to cut before
        let mut target = want.block_bytes;
        let taken = loop {
            self.window.fill(target)?;
            let window = &self.window;
            while let Some(at) = self.separator.find(&window.bytes[searched..]) {
                let end = searched + at;
                if end > start {
                    pieces.push(Piece { start, end, starts: !self.in_document, ends: true });
                } else if self.in_document {
                    pieces.push(Piece { start, end, starts: false, ends: true });
                }
                self.in_document = false;
                start = end + separator_len;
                searched = start;
                if window.offset + start as u64 >= self.end {
                    self.done = true;
                    break;
                }
            }
            if self.done {
                break start;
            }
            if window.ended {
                self.done = true;
                if start < window.bytes.len() || self.in_document {
                    let end = window.bytes.len();
                    pieces.push(Piece { start, end, starts: !self.in_document, ends: true });
                }
                break window.bytes.len();
            }
            if start > 0 {
                break start;
            }
            // One document fills the window: cut it where no pretoken and no separator can span, or read on.
            let certain = window.bytes.len().saturating_sub(separator_len - 1);
            searched = certain;
            if !want.whole_documents
                && let Some(cut) = want.splitter.last_cut(&window.bytes[..certain], uncut)
            {
                pieces.push(Piece { start: 0, end: cut, starts: !self.in_document, ends: false });
                self.in_document = true;
                break cut;
            }
            uncut = want.splitter.uncertain_from(certain).saturating_sub(4);
            target = window.bytes.len() * 2;
        };
        let place = Place { name: self.name.clone(), first: self.window.offset, path: None };
        let text = Text::Owned(self.window.take(taken));
        Ok(Some(Raw { text, layout: Layout::Pieces { pieces, records: false }, place, bad: Vec::new() }))
    }
}
