//! `Counts` and `Counter`: pretoken → occurrences.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyMapping, PyTuple};
use tokenmill_core::Error;
use tokenmill_core::count::{self, PretokenCounts};

use crate::buffers::Bytes;
use crate::detached::detached;
use crate::errors::IntoPython;
use crate::source::{Reader, raise};
use crate::splitter::Splitter;

/// The table sorts itself when an order is first asked for, so it sits behind a lock.
#[pyclass(frozen, module = "tokenmill._core")]
pub struct Counts(Mutex<Arc<PretokenCounts>>);

impl Counts {
    fn new(counts: PretokenCounts) -> Self {
        Counts(Mutex::new(Arc::new(counts)))
    }

    pub fn get(&self) -> Arc<PretokenCounts> {
        self.0.lock().expect("no thread panics holding it").clone()
    }

    fn sorted(&self, py: Python<'_>) -> Arc<PretokenCounts> {
        py.detach(|| {
            let mut counts = self.0.lock().expect("no thread panics holding it");
            Arc::make_mut(&mut counts).sort();
            counts.clone()
        })
    }
}

fn little_endian<T: Copy, const N: usize>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| to(value)).collect()
}

#[pymethods]
impl Counts {
    #[staticmethod]
    fn from_mapping(mapping: &Bound<'_, PyMapping>) -> PyResult<Self> {
        let py = mapping.py();
        let mut pairs: Vec<(Vec<u8>, u64)> = Vec::with_capacity(mapping.len()?);
        for item in mapping.items()?.iter() {
            let (pretoken, count): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            let bytes = pretoken.cast::<PyBytes>().map_err(|_| {
                PyTypeError::new_err(format!(
                    "pretoken {} is not `bytes`",
                    pretoken.repr().map_or_else(|_| "?".into(), |r| r.to_string())
                ))
            })?;
            let count: u64 = count.extract().map_err(|_| {
                let shown = String::from_utf8_lossy(bytes.as_bytes()).into_owned();
                crate::errors::to_python(
                    py,
                    Error::format(format!("the count of pretoken `{shown}` is {count}, not in 1 … 2^64 - 1")),
                )
            })?;
            pairs.push((bytes.as_bytes().to_vec(), count));
        }
        let counts = PretokenCounts::from_pairs(pairs.iter().map(|(p, c)| (p.as_slice(), *c)));
        Ok(Counts::new(counts.into_python(py)?))
    }

    #[staticmethod]
    fn from_buffers(
        py: Python<'_>,
        offsets: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        counts: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let (offsets, data, counts) = (Bytes::new(offsets)?, Bytes::new(data)?, Bytes::new(counts)?);
        let offsets: Vec<i64> = offsets.numbers::<8>()?.map(i64::from_le_bytes).collect();
        let counts: Vec<u64> = counts.numbers::<8>()?.map(u64::from_le_bytes).collect();
        let bytes = data.as_ref();
        let fits = |w: &[i64]| 0 <= w[0] && w[0] <= w[1] && w[1] as u64 <= bytes.len() as u64;
        if offsets.len() != counts.len() + 1 || !offsets.windows(2).all(fits) {
            return Err(Error::format("offsets, data and counts do not belong together")).into_python(py);
        }
        let pairs = offsets.windows(2).map(|w| &bytes[w[0] as usize..w[1] as usize]).zip(counts);
        Ok(Counts::new(PretokenCounts::from_pairs(pairs).into_python(py)?))
    }

    fn buffers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let counts = self.sorted(py);
        let offsets: Vec<u64> = std::iter::once(0).chain(counts.ends().iter().copied()).collect();
        let offsets = PyBytes::new(py, &little_endian(&offsets, u64::to_le_bytes));
        let numbers = PyBytes::new(py, &little_endian(counts.counts(), u64::to_le_bytes));
        (offsets, PyBytes::new(py, counts.data()), numbers).into_pyobject(py)
    }

    fn __len__(&self) -> usize {
        self.get().len()
    }

    #[getter]
    fn occurrences(&self) -> u128 {
        self.get().occurrences()
    }

    #[getter]
    fn total_bytes(&self) -> u128 {
        self.get().total_bytes()
    }

    fn most_common<'py>(&self, py: Python<'py>, n: usize) -> Vec<(Bound<'py, PyBytes>, u64)> {
        let counts = self.get();
        counts.most_common(n).into_iter().map(|(p, c)| (PyBytes::new(py, p), c)).collect()
    }

    fn add(&self, py: Python<'_>, other: &Counts) -> PyResult<Self> {
        let (a, b) = (self.sorted(py), other.sorted(py));
        let sum = py.detach(|| Arc::unwrap_or_clone(a).plus(Arc::unwrap_or_clone(b)));
        Ok(Counts::new(sum.into_python(py)?))
    }

    fn at_least(&self, py: Python<'_>, min_count: u64) -> Self {
        let counts = self.get();
        Counts::new(py.detach(|| counts.at_least(min_count)))
    }
}

/// `None` while it counts, and after a count that failed.
#[pyclass(frozen, module = "tokenmill._core")]
pub struct Counter(Mutex<Option<count::Counter>>);

impl Counter {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<count::Counter>> {
        self.0.lock().expect("no thread panics holding it")
    }

    fn take_counter(&self) -> PyResult<count::Counter> {
        self.lock()
            .take()
            .ok_or_else(|| PyRuntimeError::new_err("this counter is busy, or its last count failed"))
    }
}

#[pymethods]
impl Counter {
    #[new]
    fn new(py: Python<'_>, splitter: &Splitter, threads: i64) -> PyResult<Self> {
        if threads < 1 {
            return Err(Error::config(format!("threads is {threads}, but must be at least 1")))
                .into_python(py);
        }
        Ok(Counter(Mutex::new(Some(count::Counter::new(splitter.0.clone(), threads as usize)))))
    }

    #[pyo3(signature = (reader, sources, progress = None))]
    fn count(
        &self,
        py: Python<'_>,
        reader: &Reader,
        sources: &Bound<'_, PyIterator>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let mut counter = self.take_counter()?;
        reader.feed(sources)?;
        let shared = reader.reader.clone();
        let counted = detached(py, progress, move |watch| {
            let result = counter.count(&shared, watch);
            Ok((counter, result))
        });
        let (counter, result) = counted?;
        result.map_err(|error| raise(py, &reader.raised, error))?;
        *self.lock() = Some(counter);
        Ok(())
    }

    fn take(&self, py: Python<'_>) -> PyResult<Counts> {
        let mut counter = self.take_counter()?;
        let (counter, counts) = py.detach(move || {
            let counts = counter.take();
            (counter, counts)
        });
        *self.lock() = Some(counter);
        Ok(Counts::new(counts.into_python(py)?))
    }

    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = PyDict::new(py);
        let guard = self.lock();
        let (specials, unmatched) = guard.as_ref().map_or((0, 0), |c| (c.special_tokens, c.unmatched));
        report.set_item("special_tokens", specials)?;
        report.set_item("unmatched", unmatched)?;
        Ok(report)
    }
}
