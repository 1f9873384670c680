//! `encode_documents`: documents in, growing token files out; `shuffle_documents` puts them into another
//! order and `join_documents` makes one row of files out of several.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList};
use tokenmill_core::Error;
use tokenmill_core::chat::{self, Reason};
use tokenmill_core::dataset::{
    self, ForeignBatch, ForeignDocument, ForeignRows, ForeignSkip, HeldOut, Kind, Recipe, ShardFiles,
    ShardSize, Shards, Shuffle, Tally, Target, TextRecipe,
};
use tokenmill_core::encode::{self, Id};
use tokenmill_core::source::OnError;

use crate::bpe::Bpe;
use crate::chat::ChatEncoder;
use crate::detached::detached;
use crate::errors::IntoPython;
use crate::source::{Raised, Reader, foreign, raise};

/// The name under which a row that cannot be read is left out.
const UNREADABLE: &str = "unreadable";

/// (tokens, documents, text bytes, trained tokens)
type Size = (u64, u64, u64, u64);

/// Special tokens that were encoded as text, and how often.
type Lookalikes = BTreeMap<String, u64>;
/// Rows that became no document, by reason.
type LeftOut = BTreeMap<&'static str, u64>;

/// Who encodes rows: the core, or a Python object that is called with many of them.
#[derive(FromPyObject)]
pub enum Rows {
    Encoder(Py<ChatEncoder>),
    Call(Py<PyAny>),
}

#[pyfunction]
#[pyo3(signature = (bpe, reader, sources, *, targets, token_header, other_header, shard_tokens, wide, masked, bos, eos,
                    allowed_special, rows, skip_errors, held_out, threads, progress = None))]
#[allow(clippy::too_many_arguments)] // they are keywords in Python
pub fn encode_documents(
    py: Python<'_>,
    bpe: &Bpe,
    reader: &Reader,
    sources: &Bound<'_, PyIterator>,
    targets: Vec<(String, usize, Size)>,
    token_header: u64,
    other_header: u64,
    shard_tokens: Option<u64>,
    wide: bool,
    masked: bool,
    bos: Option<u32>,
    eos: Option<u32>,
    allowed_special: &Bound<'_, PyAny>,
    rows: Option<Rows>,
    skip_errors: bool,
    held_out: Option<(f64, u64)>,
    threads: i64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<Vec<Size>>, Lookalikes, LeftOut, u64)> {
    let core = bpe.core();
    if threads < 1 {
        return Err(Error::config(format!("threads is {threads}, but must be at least 1"))).into_python(py);
    }
    if !wide && core.is_wide() {
        let size = core.vocab().size();
        return Err(Error::config(format!("a vocab of {size} ids does not fit uint16"))).into_python(py);
    }
    let held_out = held_out.map(|(fraction, seed)| HeldOut::new(fraction, seed));
    if targets.len() != 1 + usize::from(held_out.is_some()) {
        return Err(Error::config("one target, and a second one exactly where documents are held out"))
            .into_python(py);
    }
    let on_error = if skip_errors { OnError::Skip } else { OnError::Fail };
    let text = TextRecipe { rules: bpe.allowing(allowed_special)?, bos, eos };
    let what = match rows {
        Some(Rows::Encoder(encoder)) => What::Rows(encoder.get().core.clone(), on_error),
        Some(Rows::Call(call)) => {
            let specials = core.vocab().special_tokens().iter().map(|(text, _)| text.clone()).collect();
            What::Foreign(Call { call, specials, raised: reader.raised.clone() }, on_error)
        }
        None => What::Text(text),
    };
    let targets = targets.into_iter().map(|(prefix, number, size)| {
        let target = Target { prefix, token_header, other_header, shard_tokens, has_mask: masked };
        (target, number, size)
    });
    reader.feed(sources)?;
    let (core, targets, threads) = (core.clone(), targets.collect(), threads as usize);
    let run = Run { core: core.clone(), reader, what, held_out, targets, threads };
    let (sizes, tally) = if wide { run.go::<u32>(py, progress)? } else { run.go::<u16>(py, progress)? };
    let names = core.vocab().special_tokens().iter().map(|(text, _)| text.clone());
    let lookalikes = names.zip(tally.lookalikes).filter(|(_, found)| *found > 0).collect();
    let left_out = Reason::ALL.iter().map(|reason| reason.name()).zip(tally.left_out);
    Ok((sizes, lookalikes, left_out.filter(|(_, found)| *found > 0).collect(), tally.truncated))
}

#[pyfunction]
#[pyo3(signature = (*, source, target, sizes, token_header, other_header, shard_tokens, wide, masked, seed, group, memory,
                    progress = None))]
#[allow(clippy::too_many_arguments)] // they are keywords in Python
pub fn shuffle_documents(
    py: Python<'_>,
    source: String,
    target: String,
    sizes: Vec<Size>,
    token_header: u64,
    other_header: u64,
    shard_tokens: Option<u64>,
    wide: bool,
    masked: bool,
    seed: u64,
    group: usize,
    memory: u64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Size>> {
    let from = Target { prefix: source, token_header, other_header, shard_tokens, has_mask: masked };
    let to = Target { prefix: target, ..from.clone() };
    let shards = Shards { target: from, sizes: sizes.into_iter().map(shard_size).collect() };
    detached(py, progress, move |watch| {
        let shuffle = Shuffle { shards: &shards, seed, group, memory };
        if wide {
            let out = ShardFiles::<u32>::new(to, 0, ShardSize::default());
            Ok(sizes_of(&shuffle.run(out, watch)?))
        } else {
            let out = ShardFiles::<u16>::new(to, 0, ShardSize::default());
            Ok(sizes_of(&shuffle.run(out, watch)?))
        }
    })
}

#[pyfunction]
#[pyo3(signature = (*, sources, target, token_header, other_header, shard_tokens, wide, masked, progress = None))]
#[allow(clippy::too_many_arguments)] // they are keywords in Python
pub fn join_documents(
    py: Python<'_>,
    sources: Vec<(String, Vec<Size>)>,
    target: String,
    token_header: u64,
    other_header: u64,
    shard_tokens: Option<u64>,
    wide: bool,
    masked: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Size>> {
    let to = Target { prefix: target, token_header, other_header, shard_tokens, has_mask: masked };
    let rows: Vec<Shards> = (sources.into_iter())
        .map(|(prefix, sizes)| Shards {
            target: Target { prefix, ..to.clone() },
            sizes: sizes.into_iter().map(shard_size).collect(),
        })
        .collect();
    detached(py, progress, move |watch| {
        if wide {
            let out = ShardFiles::<u32>::new(to, 0, ShardSize::default());
            Ok(sizes_of(&dataset::join(&rows, out, watch)?))
        } else {
            let out = ShardFiles::<u16>::new(to, 0, ShardSize::default());
            Ok(sizes_of(&dataset::join(&rows, out, watch)?))
        }
    })
}

fn shard_size((tokens, documents, bytes, trained): Size) -> ShardSize {
    ShardSize { tokens, documents, bytes, trained }
}

fn sizes_of<I: Id>(files: &ShardFiles<I>) -> Vec<Size> {
    let sizes = files.sizes().iter();
    sizes.map(|size| (size.tokens, size.documents, size.bytes, size.trained)).collect()
}

/// What documents are, held until the work is done.
enum What {
    Text(TextRecipe),
    Rows(Arc<chat::ChatEncoder>, OnError),
    Foreign(Call, OnError),
}

/// A Python object that encodes rows.
struct Call {
    call: Py<PyAny>,
    /// Special tokens in the vocab's order.
    specials: Vec<String>,
    raised: Raised,
}

/// What it gives: ids (uint32) and mask as bytes, (row, tokens, text bytes) of each document, (row, reason, more words)
/// of each row that is none, how many documents were cut, how many sequences were not UTF-8 and replaced, special tokens
/// that were encoded as text.
type Called<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Vec<(usize, usize, u64)>,
    Vec<(usize, String, String)>,
    u64,
    u64,
    BTreeMap<String, u64>,
);

impl ForeignRows for Call {
    fn encode(&self, rows: &[&[u8]]) -> tokenmill_core::Result<ForeignBatch> {
        Python::attach(|py| {
            let rows = PyList::new(py, rows.iter().map(|row| PyBytes::new(py, row)))?;
            self.batch(self.call.bind(py).call1((rows,))?.extract()?)
        })
        .map_err(|error| foreign(&self.raised, error))
    }
}

impl Call {
    fn batch(&self, called: Called<'_>) -> PyResult<ForeignBatch> {
        let (ids, mask, documents, skipped, truncated, replaced_sequences, lookalikes) = called;
        let skip = |(row, reason, detail): (usize, String, String)| match Reason::named(&reason) {
            None if reason != UNREADABLE => {
                Err(PyValueError::new_err(format!("no reason is called {reason}")))
            }
            reason => Ok(ForeignSkip { row, reason, detail }),
        };
        let document = |(row, tokens, text_bytes)| ForeignDocument { row, tokens, text_bytes };
        Ok(ForeignBatch {
            ids: numbers(ids.as_bytes()),
            mask: mask.as_bytes().to_vec(),
            documents: documents.into_iter().map(document).collect(),
            skipped: skipped.into_iter().map(skip).collect::<PyResult<_>>()?,
            truncated,
            replaced_sequences,
            lookalikes: self.specials.iter().map(|text| lookalikes.get(text).copied().unwrap_or(0)).collect(),
        })
    }
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}

struct Run<'a> {
    core: Arc<encode::Bpe>,
    reader: &'a Reader,
    what: What,
    held_out: Option<HeldOut>,
    targets: Vec<(Target, usize, Size)>,
    threads: usize,
}

impl Run<'_> {
    fn go<I: Id>(
        self,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Vec<Vec<Size>>, Tally)> {
        let Run { core, reader, what, held_out, targets, threads } = self;
        let shared = reader.reader.clone();
        let encoded = detached(py, progress, move |watch| {
            let files: Vec<ShardFiles<I>> = (targets.into_iter())
                .map(|(target, number, size)| ShardFiles::new(target, number, shard_size(size)))
                .collect();
            let kind = match what {
                What::Text(recipe) => Kind::Text(recipe),
                What::Rows(ref encoder, on_error) => Kind::Rows(encoder, on_error),
                What::Foreign(ref call, on_error) => Kind::Foreign(call, on_error),
            };
            let recipe = Recipe { kind, held_out };
            // The error travels beside the result, since only the calling thread knows what Python raised.
            Ok(dataset::encode_documents(&core, &shared, &recipe, files, threads, watch))
        })?;
        let (files, tally) = encoded.map_err(|error| raise(py, &reader.raised, error))?;
        Ok((files.iter().map(sizes_of).collect(), tally))
    }
}
