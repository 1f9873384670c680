//! `Source` and `Reader`: documents out of files, streams, iterables and Arrow arrays.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyString};
use tokenmill_core::pretokenize::Splitter as CoreSplitter;
use tokenmill_core::source::{
    self, BadRecord, Input, InvalidUtf8, JsonLines, Layout, Limits, OnError, Piece, Place, PlainText, Policy,
    Raw, Supplier, Text, Want,
};
use tokenmill_core::{Error, Result};

use crate::buffers::{Bytes, TextArg};
use crate::errors::IntoPython;

/// An exception that a Python object raised inside a worker, until the calling thread raises it again.
pub type Raised = Arc<Mutex<Option<PyErr>>>;

pub fn foreign(raised: &Raised, error: PyErr) -> Error {
    let message = error.to_string();
    raised.lock().expect("no thread panics holding it").get_or_insert(error);
    Error::Foreign { message }
}

/// A source waits here until the reader comes to it.
enum Opener {
    Text {
        file: File,
        name: String,
        separator: Vec<u8>,
        start: u64,
        end: u64,
    },
    /// Without a field, a document is the whole line.
    Lines {
        file: File,
        name: String,
        field: Option<String>,
        start: u64,
        end: u64,
    },
    Strings {
        items: Py<PyIterator>,
        name: String,
    },
    Arrow {
        arrays: Py<PyIterator>,
        name: String,
    },
}

enum File {
    Path(String),
    Stream(Py<PyAny>),
}

impl File {
    fn new(file: &Bound<'_, PyAny>) -> PyResult<File> {
        match file.cast::<PyString>() {
            Ok(path) => Ok(File::Path(path.to_str()?.to_owned())),
            Err(_) => Ok(File::Stream(file.clone().unbind())),
        }
    }
}

#[pyclass(module = "tokenmill._core")]
pub struct Source(Option<Opener>);

#[pymethods]
impl Source {
    #[staticmethod]
    #[pyo3(signature = (file, *, name, separator, start = 0, end = None))]
    fn plain_text(
        file: &Bound<'_, PyAny>,
        name: String,
        separator: Vec<u8>,
        start: u64,
        end: Option<u64>,
    ) -> PyResult<Self> {
        if separator.is_empty() {
            return Err(Error::config("the separator is empty")).into_python(file.py());
        }
        let end = end.unwrap_or(u64::MAX);
        Ok(Source(Some(Opener::Text { file: File::new(file)?, name, separator, start, end })))
    }

    #[staticmethod]
    #[pyo3(signature = (file, *, name, field, start = 0, end = None))]
    fn json_lines(
        file: &Bound<'_, PyAny>,
        name: String,
        field: Option<String>,
        start: u64,
        end: Option<u64>,
    ) -> PyResult<Self> {
        let end = end.unwrap_or(u64::MAX);
        Ok(Source(Some(Opener::Lines { file: File::new(file)?, name, field, start, end })))
    }

    #[staticmethod]
    #[pyo3(signature = (texts, *, name))]
    fn strings(texts: &Bound<'_, PyIterator>, name: String) -> Self {
        Source(Some(Opener::Strings { items: texts.clone().unbind(), name }))
    }

    #[staticmethod]
    #[pyo3(signature = (arrays, *, name))]
    fn arrow(arrays: &Bound<'_, PyIterator>, name: String) -> Self {
        Source(Some(Opener::Arrow { arrays: arrays.clone().unbind(), name }))
    }
}

impl Opener {
    fn open(self, raised: &Raised) -> Result<Box<dyn source::Source>> {
        let raised = raised.clone();
        Ok(match self {
            Opener::Text { file: File::Path(path), name, separator, start, end } => {
                Box::new(PlainText::range(&path, &name, &separator, start, end)?)
            }
            Opener::Text { file: File::Stream(stream), name, separator, .. } => {
                Box::new(PlainText::new(Box::new(Stream { stream, rest: None, raised }), &name, &separator))
            }
            Opener::Lines { file: File::Path(path), name, field, start, end } => {
                Box::new(JsonLines::range(&path, &name, field.as_deref(), start, end)?)
            }
            Opener::Lines { file: File::Stream(stream), name, field, .. } => {
                let stream = Box::new(Stream { stream, rest: None, raised });
                Box::new(JsonLines::new(stream, &name, field.as_deref()))
            }
            Opener::Strings { items, name } => {
                Box::new(Strings { items, name: name.into(), number: 0, raised })
            }
            Opener::Arrow { arrays, name } => {
                Box::new(Arrow { arrays, name: name.into(), number: 0, raised, ready: VecDeque::new() })
            }
        })
    }
}

/// Anything with `read(n)`.
struct Stream {
    stream: Py<PyAny>,
    /// What a `read` gave beyond what was asked for.
    rest: Option<(Bytes, usize)>,
    raised: Raised,
}

impl Input for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.rest.is_none() {
            let chunk = Python::attach(|py| {
                let chunk = self.stream.bind(py).call_method1("read", (buffer.len(),))?;
                Bytes::new(&chunk)
            });
            self.rest = Some((chunk.map_err(|e| foreign(&self.raised, e))?, 0));
        }
        let (chunk, at) = self.rest.as_mut().expect("just read");
        let left = &chunk.as_ref()[*at..];
        let len = left.len().min(buffer.len());
        buffer[..len].copy_from_slice(&left[..len]);
        *at += len;
        if *at == chunk.as_ref().len() {
            self.rest = None;
        }
        Ok(len)
    }
}

/// An iterator of `str` and `bytes`.
struct Strings {
    items: Py<PyIterator>,
    name: Arc<str>,
    number: u64,
    raised: Raised,
}

impl source::Source for Strings {
    fn next(&mut self, want: &Want) -> Result<Option<Raw>> {
        let first = self.number;
        let (mut text, mut pieces, mut bad) = (Vec::new(), Vec::new(), Vec::new());
        Python::attach(|py| -> Result<()> {
            let mut items = self.items.bind(py).clone();
            while text.len() < want.block_bytes {
                let Some(item) = items.next() else { break };
                let item = item.map_err(|e| foreign(&self.raised, e))?;
                let start = text.len();
                match TextArg::new(&item).map_err(|e| foreign(&self.raised, e))? {
                    Some(arg) => text.extend_from_slice(arg.bytes().map_err(|e| foreign(&self.raised, e))?),
                    None => {
                        let kind = item.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
                        let reason = format!("is a `{kind}`, not `str` or `bytes`");
                        bad.push(BadRecord { record: self.number - first, reason, hint: None });
                    }
                }
                // Also for an empty or bad item, so that the place of a piece is its number.
                pieces.push(Piece::whole(start, text.len()));
                self.number += 1;
            }
            Ok(())
        })?;
        if pieces.is_empty() {
            return Ok(None);
        }
        Ok(Some(records(Text::Owned(text), pieces, bad, &self.name, first)))
    }
}

fn records(text: Text, pieces: Vec<Piece>, bad: Vec<BadRecord>, name: &Arc<str>, first: u64) -> Raw {
    let place = Place { name: name.clone(), first, path: None };
    Raw { text, layout: Layout::Pieces { pieces, records: true }, place, bad }
}

/// An iterator of Arrow string arrays, as their buffers. A large array is handed out in several blocks, so that
/// threads end together.
struct Arrow {
    arrays: Py<PyIterator>,
    name: Arc<str>,
    number: u64,
    raised: Raised,
    ready: VecDeque<Raw>,
}

impl source::Source for Arrow {
    fn next(&mut self, want: &Want) -> Result<Option<Raw>> {
        while self.ready.is_empty() {
            let array = Python::attach(|py| -> PyResult<Option<ArrowStrings>> {
                let mut arrays = self.arrays.bind(py).clone();
                arrays.next().map(|array| ArrowStrings::new(&array?)).transpose()
            });
            let Some(array) = array.map_err(|e| foreign(&self.raised, e))? else { return Ok(None) };
            let first = self.number;
            self.number += array.len as u64;
            let (pieces, bad) = array.pieces().map_err(|reason| {
                Error::source(format!("`{}` holds a broken Arrow array: {reason}", self.name))
            })?;
            self.hand_out(Arc::new(array.data), &pieces, bad, first, want.block_bytes);
        }
        Ok(self.ready.pop_front())
    }
}

impl Arrow {
    fn hand_out(
        &mut self,
        data: Arc<Bytes>,
        mut pieces: &[Piece],
        bad: Vec<BadRecord>,
        first: u64,
        block_bytes: usize,
    ) {
        let (mut at, mut bad) = (0, bad.into_iter().peekable());
        while !pieces.is_empty() {
            let mut bytes = 0;
            let fits = |piece: &&Piece| {
                let enough = bytes >= block_bytes;
                bytes += piece.end - piece.start;
                !enough
            };
            let (block, rest) = pieces.split_at(pieces.iter().take_while(fits).count());
            let end = at + block.len() as u64;
            let mut bad_here = Vec::new();
            while let Some(mut record) = bad.next_if(|b| b.record < end) {
                record.record -= at;
                bad_here.push(record);
            }
            let text = Text::Shared(Box::new(Shared(data.clone())));
            self.ready.push_back(records(text, block.to_vec(), bad_here, &self.name, first + at));
            (at, pieces) = (end, rest);
        }
    }
}

/// One buffer behind several blocks.
struct Shared(Arc<Bytes>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().as_ref()
    }
}

struct ArrowStrings {
    validity: Option<Bytes>,
    offsets: Bytes,
    data: Bytes,
    wide: bool,
    offset: usize,
    len: usize,
}

impl ArrowStrings {
    fn new(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        type Parts<'py> =
            (Option<Bound<'py, PyAny>>, Bound<'py, PyAny>, Bound<'py, PyAny>, bool, usize, usize);
        let (validity, offsets, data, wide, offset, len): Parts<'_> = array.extract()?;
        let validity = validity.map(|v| Bytes::new(&v)).transpose()?;
        Ok(ArrowStrings {
            validity,
            offsets: Bytes::new(&offsets)?,
            data: Bytes::new(&data)?,
            wide,
            offset,
            len,
        })
    }

    /// Where each value lies in `data`; a null is a bad record. Nothing about the array is taken on trust.
    fn pieces(&self) -> std::result::Result<(Vec<Piece>, Vec<BadRecord>), String> {
        let width = if self.wide { 8 } else { 4 };
        let all = self.offsets.as_ref();
        let end = (self.offset.checked_add(self.len))
            .and_then(|n| n.checked_add(1))
            .ok_or("its length overflows")?;
        if self.len > 0 && all.len() / width < end {
            return Err(format!("{} offsets for {} values", all.len() / width, end - 1));
        }
        let at = |index: usize| -> i64 {
            let bytes = &all[(self.offset + index) * width..][..width];
            match bytes.try_into() {
                Ok(wide) => i64::from_le_bytes(wide),
                Err(_) => i64::from(i32::from_le_bytes(bytes.try_into().expect("four bytes"))),
            }
        };
        let is_null = |index: usize| {
            let bit = self.offset + index;
            let bits = self.validity.as_ref().map(|v| v.as_ref());
            bits.is_some_and(|bits| bits.get(bit / 8).is_none_or(|byte| byte >> (bit % 8) & 1 == 0))
        };
        let (mut pieces, mut bad) = (Vec::with_capacity(self.len), Vec::new());
        for index in 0..self.len {
            if is_null(index) {
                bad.push(BadRecord { record: index as u64, reason: "is null".into(), hint: None });
                pieces.push(Piece::whole(0, 0));
                continue;
            }
            let (start, end) = (at(index), at(index + 1));
            if start < 0 || start > end || end as u64 > self.data.as_ref().len() as u64 {
                return Err(format!("value {index} spans {start}..{end} of {}", self.data.as_ref().len()));
            }
            pieces.push(Piece::whole(start as usize, end as usize));
        }
        Ok((pieces, bad))
    }
}

#[pyclass(frozen, module = "tokenmill._core")]
pub struct Reader {
    pub reader: Arc<Mutex<source::Reader>>,
    pub raised: Raised,
}

impl Reader {
    /// Have the reader take its sources from a Python iterator.
    pub fn feed(&self, sources: &Bound<'_, PyIterator>) -> PyResult<()> {
        let py = sources.py();
        let (sources, raised) = (sources.clone().unbind(), self.raised.clone());
        let supplier: Supplier = Box::new(move || {
            let next = Python::attach(|py| -> PyResult<Option<Opener>> {
                let mut sources = sources.bind(py).clone();
                let Some(source) = sources.next() else { return Ok(None) };
                let source = source?.cast_into::<Source>()?;
                let opener = source.borrow_mut().0.take();
                opener.map(Some).ok_or_else(|| PyRuntimeError::new_err("a source was read twice"))
            });
            let opener = next.map_err(|e| foreign(&raised, e))?;
            opener.map(|opener| opener.open(&raised)).transpose()
        });
        self.with_reader(py, |reader| reader.feed(supplier));
        Ok(())
    }

    /// A worker that holds the lock may be waiting for the GIL, so it is given up before the lock is taken.
    fn with_reader<T: Send>(&self, py: Python<'_>, run: impl FnOnce(&mut source::Reader) -> T + Send) -> T {
        py.detach(|| run(&mut self.reader.lock().expect("no thread panics while it reads")))
    }
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (*, doc_cap = None, max_chars = None, max_bytes = None, on_error = "fail",
                        invalid_utf8 = "error", chars_before = 0, bytes_before = 0, block_bytes = 1048576))]
    #[allow(clippy::too_many_arguments)] // they are keywords in Python
    fn new(
        py: Python<'_>,
        doc_cap: Option<u64>,
        max_chars: Option<u64>,
        max_bytes: Option<u64>,
        on_error: &str,
        invalid_utf8: &str,
        chars_before: u64,
        bytes_before: u64,
        block_bytes: usize,
    ) -> PyResult<Self> {
        let on_error = match on_error {
            "fail" => OnError::Fail,
            "skip" => OnError::Skip,
            _ => {
                return Err(Error::config(format!("on_error `{on_error}` is neither `fail` nor `skip`")))
                    .into_python(py);
            }
        };
        let invalid_utf8 = match invalid_utf8 {
            "error" => InvalidUtf8::Error,
            "replace" => InvalidUtf8::Replace,
            "keep" => InvalidUtf8::Keep,
            _ => {
                let message = format!("invalid_utf8 `{invalid_utf8}` is none of `error`, `replace`, `keep`");
                return Err(Error::config(message)).into_python(py);
            }
        };
        let limits = Limits::new(doc_cap, max_chars, max_bytes).start_from(chars_before, bytes_before);
        let reader = source::Reader::new(Policy { on_error, invalid_utf8 }, limits, block_bytes);
        Ok(Reader { reader: Arc::new(Mutex::new(reader)), raised: Raised::default() })
    }

    fn documents(&self, sources: &Bound<'_, PyIterator>) -> PyResult<Documents> {
        self.feed(sources)?;
        let splitter = CoreSplitter::new("gpt2", &[]).into_python(sources.py())?;
        let (reader, raised) = (self.reader.clone(), self.raised.clone());
        Ok(Documents { reader, raised, splitter, ready: Vec::new() })
    }

    #[getter]
    fn limit_reached(&self, py: Python<'_>) -> bool {
        self.with_reader(py, |reader| reader.limits.reached)
    }

    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.with_reader(py, |reader| reader.stats.clone());
        let report = PyDict::new(py);
        for (name, value) in [
            ("documents", stats.documents),
            ("bytes", stats.bytes),
            ("chars", stats.chars),
            ("capped_documents", stats.capped_documents),
            ("skipped_records", stats.skipped_records),
            ("replaced_sequences", stats.replaced_sequences),
        ] {
            report.set_item(name, value)?;
        }
        Ok(report)
    }

    #[getter]
    fn skipped(&self, py: Python<'_>) -> Vec<String> {
        let skipped = self.with_reader(py, |reader| reader.stats.skipped.clone());
        skipped.into_iter().map(|(_, _, message)| message).collect()
    }
}

/// Documents one by one, as `bytes`.
#[pyclass(module = "tokenmill._core")]
pub struct Documents {
    reader: Arc<Mutex<source::Reader>>,
    raised: Raised,
    splitter: CoreSplitter,
    /// Of the current block, the last first.
    ready: Vec<Vec<u8>>,
}

#[pymethods]
impl Documents {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        while self.ready.is_empty() {
            match py.detach(|| self.next_block()) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => return Err(raise(py, &self.raised, error)),
            }
        }
        Ok(self.ready.pop().map(|document| PyBytes::new(py, &document)))
    }
}

impl Documents {
    fn next_block(&mut self) -> Result<bool> {
        let mut reader = self.reader.lock().expect("no thread panics while it reads");
        let Some(block) = reader.next_documents(&self.splitter) else {
            return reader.take_error().map_or(Ok(false), Err);
        };
        let mut stats = source::BlockStats::default();
        let prepared = block.prepare(&mut stats);
        reader.add_stats(&mut stats);
        self.ready = prepared?.pieces().filter(|p| !p.is_empty()).map(<[u8]>::to_vec).collect();
        self.ready.reverse();
        Ok(true)
    }
}

/// The exception for `error`: the one a Python object raised, if that is what happened.
pub fn raise(py: Python<'_>, raised: &Raised, error: Error) -> PyErr {
    if let Error::Foreign { .. } = error
        && let Some(original) = raised.lock().expect("no thread panics holding it").take()
    {
        return original;
    }
    crate::errors::to_python(py, error)
}
