//! `train_merges` and `Merges`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use tokenmill_core::Error;
use tokenmill_core::train::{self, Options, Ties};

use crate::counts::Counts;
use crate::detached::detached;
use crate::errors::IntoPython;

#[pyclass(frozen, module = "tokenmill._core")]
pub struct Merges(train::Merges);

#[pymethods]
impl Merges {
    fn __len__(&self) -> usize {
        self.0.triples.len()
    }

    fn triples(&self) -> Vec<(u32, u32, u32)> {
        self.0.triples.clone()
    }

    fn counts(&self) -> Vec<u64> {
        self.0.counts.clone()
    }

    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.tokens.iter().map(|token| PyBytes::new(py, token)))
    }

    #[getter]
    fn stopped(&self) -> &'static str {
        self.0.stopped.name()
    }

    #[getter]
    fn training_tokens(&self) -> u128 {
        self.0.training_tokens
    }

    #[getter]
    fn num_pairs(&self) -> usize {
        self.0.num_pairs
    }

    fn top_pairs(&self) -> Vec<(u32, u32, u64)> {
        self.0.top_pairs.clone()
    }

    #[getter]
    fn first_shared(&self) -> Option<usize> {
        self.0.first_shared
    }
}

#[pyfunction]
#[pyo3(signature = (counts, *, num_tokens, ties = "lowest-ids", min_count = 1, max_token_bytes = None,
                    special_tokens = Vec::new(), threads = 1, progress = None))]
#[allow(clippy::too_many_arguments)] // they are keywords in Python
pub fn train_merges(
    py: Python<'_>,
    counts: &Counts,
    num_tokens: usize,
    ties: &str,
    min_count: u64,
    max_token_bytes: Option<usize>,
    special_tokens: Vec<String>,
    threads: i64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Merges> {
    if threads < 1 {
        return Err(Error::config(format!("threads is {threads}, but must be at least 1"))).into_python(py);
    }
    let ties = Ties::from_name(ties).into_python(py)?;
    let threads = threads as usize;
    let options =
        Options { min_count, max_token_bytes, special_tokens, threads, ..Options::new(num_tokens, ties) };
    let counts = counts.get();
    detached(py, progress, move |watch| train::train_merges(&counts, &options, watch)).map(Merges)
}

#[pyfunction]
#[pyo3(signature = (tokens, pretokens, *, num_tokens, ties = "lowest-ids", min_count = 1, max_token_bytes = None))]
pub fn train_merges_from(
    py: Python<'_>,
    tokens: Vec<Vec<u8>>,
    pretokens: Vec<(Vec<u32>, u64)>,
    num_tokens: usize,
    ties: &str,
    min_count: u64,
    max_token_bytes: Option<usize>,
) -> PyResult<Merges> {
    let ties = Ties::from_name(ties).into_python(py)?;
    let options = Options { min_count, max_token_bytes, ..Options::new(num_tokens, ties) };
    detached(py, None, move |watch| train::train_merges_from(tokens, &pretokens, &options, watch)).map(Merges)
}
