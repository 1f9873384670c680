//! A block on its way from the reader to the one who counts: raw bytes, then documents that passed every check.

use std::ops::Range;
use std::sync::Arc;

use super::json_lines;
use super::reader::{InvalidUtf8, Limits, OnError, Policy};
use crate::error::{Error, Result};
use crate::unicode::{decode, num_chars};

/// Bytes of our own, or borrowed from someone who keeps them alive (an Arrow buffer).
pub enum Text {
    Owned(Vec<u8>),
    Shared(Box<dyn AsRef<[u8]> + Send + Sync>),
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self {
            Text::Owned(bytes) => bytes,
            Text::Shared(bytes) => (**bytes).as_ref(),
        }
    }
}

/// A document, or a part of one that was cut where no pretoken spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub start: usize,
    pub end: usize,
    pub starts: bool,
    pub ends: bool,
}

impl Piece {
    pub fn whole(start: usize, end: usize) -> Self {
        Piece { start, end, starts: true, ends: true }
    }
}

/// Where a block comes from, for messages: `first` is the offset of its first byte or the number of its first
/// record. With `path`, records are counted from that offset of that file.
#[derive(Clone)]
pub struct Place {
    pub name: Arc<str>,
    pub first: u64,
    pub path: Option<(Arc<str>, u64)>,
}

/// How documents lie in the bytes of a block.
pub enum Layout {
    /// `records`: pieces are numbered records (of a table, of an iterable) and not byte ranges of a file.
    Pieces {
        pieces: Vec<Piece>,
        records: bool,
    },
    JsonLines {
        field: Arc<str>,
    },
}

/// A record that holds no document, by its place in the block.
pub struct BadRecord {
    pub record: u64,
    pub reason: String,
    pub hint: Option<&'static str>,
}

/// The way out of any other record that cannot be read.
const SKIP_HINT: &str =
    "pass `--on-error skip` (`on_error=\"skip\"`) to leave such records out; the report counts them";

/// The way out where text is not UTF-8.
pub const REPLACE_HINT: &str = "pass `--invalid-utf8 replace` (`invalid_utf8=\"replace\"`) to put U+FFFD there, or convert the file to UTF-8";

/// What a source hands out.
pub struct Raw {
    pub text: Text,
    pub layout: Layout,
    pub place: Place,
    pub bad: Vec<BadRecord>,
}

/// What happened while blocks were prepared; adds up.
#[derive(Default, Clone, Debug)]
pub struct BlockStats {
    pub documents: u64,
    pub bytes: u64,
    pub chars: u64,
    pub capped_documents: u64,
    pub skipped_records: u64,
    pub replaced_sequences: u64,
    /// The first few skipped records: block, place in it, message.
    pub skipped: Vec<(u64, u64, String)>,
}

/// How many skipped records are kept with their reason.
pub const SKIPPED_SHOWN: usize = 20;

impl BlockStats {
    /// Move everything from `other` here.
    pub fn add(&mut self, other: &mut BlockStats) {
        self.documents += other.documents;
        self.bytes += other.bytes;
        self.chars += other.chars;
        self.capped_documents += other.capped_documents;
        self.skipped_records += other.skipped_records;
        self.replaced_sequences += other.replaced_sequences;
        self.skipped.append(&mut other.skipped);
        self.skipped.sort();
        self.skipped.truncate(SKIPPED_SHOWN);
        *other = BlockStats::default();
    }
}

/// A block as the reader gives it: raw, or already prepared where the order of documents matters.
pub struct Block {
    pub index: u64,
    pub(super) state: State,
}

pub(super) enum State {
    Raw(Raw, Arc<Policy>),
    Prepared(Prepared),
}

impl Block {
    /// Find the documents and check them. An error is the first of the block.
    pub fn prepare(self, stats: &mut BlockStats) -> Result<Prepared> {
        match self.state {
            State::Raw(raw, policy) => prepare(raw, &policy, self.index, stats, None),
            State::Prepared(prepared) => Ok(prepared),
        }
    }
}

/// Documents ready to be counted or encoded.
pub struct Prepared {
    text: Text,
    documents: Vec<Piece>,
    /// The number of each in its block, and where the block is from: for messages.
    records: Vec<u64>,
    place: Place,
}

impl Prepared {
    /// The text of every piece, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = self.text.bytes();
        self.documents.iter().map(|piece| &bytes[piece.start..piece.end])
    }

    /// `reason` as a message about the document at `index`.
    pub fn about(&self, index: usize, reason: &str) -> String {
        self.place.record(self.records[index], reason)
    }

    /// The text of every piece, whether it starts a document and whether it ends one.
    pub fn documents(&self) -> impl Iterator<Item = (&[u8], bool, bool)> {
        self.documents.iter().zip(self.pieces()).map(|(piece, text)| (text, piece.starts, piece.ends))
    }
}

/// One piece while its block is prepared.
struct Checked {
    piece: Piece,
    record: u64,
    /// Stands for the piece's bytes if they had to be changed.
    replaced: Option<Vec<u8>>,
}

pub(super) fn prepare(
    raw: Raw,
    policy: &Policy,
    block: u64,
    stats: &mut BlockStats,
    mut limits: Option<&mut Limits>,
) -> Result<Prepared> {
    let Raw { mut text, layout, place, mut bad } = raw;
    let (pieces, numbers, by_record) = match layout {
        Layout::Pieces { pieces, records } => (pieces, Vec::new(), records),
        Layout::JsonLines { field } => {
            if policy.invalid_utf8 == InvalidUtf8::Replace
                && let Some(fixed) = replace_invalid(text.bytes(), &mut stats.replaced_sequences)
            {
                text = Text::Owned(fixed);
            }
            let found = json_lines::extract(text.bytes(), &field);
            text = Text::Owned(found.text);
            bad = found.bad;
            (found.pieces, found.records, true)
        }
    };
    let record_of = |index: usize| numbers.get(index).copied().unwrap_or(index as u64);
    let refuse = |record: u64, message: String, hint: &str, stats: &mut BlockStats| {
        if policy.on_error == OnError::Fail {
            return Err(Error::source(message).hint(hint));
        }
        stats.skipped_records += 1;
        if stats.skipped.len() < SKIPPED_SHOWN {
            stats.skipped.push((block, record, message));
        }
        Ok(())
    };
    let mut bad = bad.into_iter().peekable();
    let mut checked: Vec<Checked> = Vec::with_capacity(pieces.len());
    for (index, &piece) in pieces.iter().enumerate() {
        let record = record_of(index);
        while let Some(b) = bad.next_if(|b| b.record < record) {
            refuse(b.record, place.record(b.record, &b.reason), b.hint.unwrap_or(SKIP_HINT), stats)?;
        }
        if limits.as_ref().is_some_and(|l| l.reached) {
            break;
        }
        if piece.starts && piece.ends && piece.start == piece.end {
            continue; // an empty document is none
        }
        let bytes = &text.bytes()[piece.start..piece.end];
        let mut replaced = None;
        if policy.invalid_utf8 != InvalidUtf8::Keep
            && let Err(e) = simdutf8::compat::from_utf8(bytes)
        {
            let at = e.valid_up_to();
            if policy.invalid_utf8 == InvalidUtf8::Error {
                let message = invalid_message(&place, by_record, record, piece.start, at, bytes[at]);
                refuse(record, message, REPLACE_HINT, stats)?;
                continue;
            }
            replaced = replace_invalid(bytes, &mut stats.replaced_sequences);
        }
        let mut one = Checked { piece, record, replaced };
        match limits.as_deref_mut() {
            Some(limits) => {
                if !limits.admit(&mut one.piece, one.replaced.as_mut(), text.bytes(), stats) {
                    continue;
                }
            }
            None => count_piece(&one, text.bytes(), stats),
        }
        checked.push(one);
    }
    if !limits.as_ref().is_some_and(|l| l.reached) {
        for b in bad {
            refuse(b.record, place.record(b.record, &b.reason), b.hint.unwrap_or(SKIP_HINT), stats)?;
        }
    }
    Ok(assemble(text, checked, place))
}

fn count_piece(one: &Checked, text: &[u8], stats: &mut BlockStats) {
    let bytes = one.replaced.as_deref().unwrap_or(&text[one.piece.start..one.piece.end]);
    stats.documents += u64::from(one.piece.starts);
    stats.bytes += bytes.len() as u64;
    stats.chars += num_chars(bytes) as u64;
}

/// Where nothing was replaced the text stays as it is; else the pieces are copied together.
fn assemble(text: Text, checked: Vec<Checked>, place: Place) -> Prepared {
    let records = checked.iter().map(|one| one.record).collect();
    if checked.iter().all(|one| one.replaced.is_none()) {
        let documents = checked.into_iter().map(|one| one.piece).collect();
        return Prepared { text, documents, records, place };
    }
    let mut copy = Vec::with_capacity(text.bytes().len());
    let mut documents = Vec::with_capacity(checked.len());
    for Checked { piece, replaced, .. } in checked {
        let start = copy.len();
        copy.extend_from_slice(replaced.as_deref().unwrap_or(&text.bytes()[piece.start..piece.end]));
        documents.push(Piece { start, end: copy.len(), ..piece });
    }
    Prepared { text: Text::Owned(copy), documents, records, place }
}

impl Place {
    fn record(&self, record: u64, reason: &str) -> String {
        let before = self.path.as_ref().map_or(0, |(path, offset)| lines_before(path, *offset));
        format!("`{}:{}` {reason}", self.name, before + self.first + record)
    }
}

fn invalid_message(place: &Place, by_record: bool, record: u64, start: usize, at: usize, byte: u8) -> String {
    if by_record {
        return place.record(record, &format!("is not valid UTF-8: byte {at} of the text is 0x{byte:02X}"));
    }
    let offset = place.first + (start + at) as u64;
    format!("`{}` is not valid UTF-8: byte {offset} is 0x{byte:02X}", place.name)
}

/// Lines before `offset`, read again only when a message needs it. A file that is gone gives 0.
fn lines_before(path: &str, offset: u64) -> u64 {
    use std::io::Read;
    let Ok(file) = std::fs::File::open(path) else { return 0 };
    let mut left = file.take(offset);
    let mut buffer = vec![0; 1 << 20];
    let mut lines = 0;
    while let Ok(n @ 1..) = left.read(&mut buffer) {
        lines += memchr::memchr_iter(b'\n', &buffer[..n]).count() as u64;
    }
    lines
}

/// `text` with U+FFFD in place of each maximal part that is not UTF-8, or `None` if it all is. A surrogate that
/// was encoded as three bytes is one part.
pub fn replace_invalid(text: &[u8], replaced: &mut u64) -> Option<Vec<u8>> {
    simdutf8::basic::from_utf8(text).err()?;
    let mut fixed = Vec::with_capacity(text.len() + 16);
    let mut rest = text;
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(_) => rest.len(),
            Err(e) => e.valid_up_to(),
        };
        fixed.extend_from_slice(&rest[..valid]);
        rest = &rest[valid..];
        if rest.is_empty() {
            break;
        }
        let skip = match rest {
            [0xED, 0xA0..=0xBF, 0x80..=0xBF, ..] => 3,
            _ => std::str::from_utf8(rest).err().and_then(|e| e.error_len()).unwrap_or(rest.len()),
        };
        fixed.extend_from_slice("\u{FFFD}".as_bytes());
        *replaced += 1;
        rest = &rest[skip..];
    }
    Some(fixed)
}

/// Length in bytes of the first `chars` characters of `text`, if it has more than that.
pub(super) fn cap_at(text: &[u8], chars: u64) -> Option<usize> {
    if text.len() as u64 <= chars {
        return None;
    }
    let mut at = 0;
    for _ in 0..chars {
        if at >= text.len() {
            return None;
        }
        at += decode(&text[at..]).map_or(1, |(_, len)| len);
    }
    (at < text.len()).then_some(at)
}

pub(super) fn range_of(piece: &Piece) -> Range<usize> {
    piece.start..piece.end
}
