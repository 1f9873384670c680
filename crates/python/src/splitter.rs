//! `Splitter`: text into pretokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use tokenmill_core::pretokenize;

use crate::buffers::TextArg;
use crate::errors::IntoPython;

#[pyclass(frozen, module = "tokenmill._core")]
pub struct Splitter(pub Arc<pretokenize::Splitter>);

#[pymethods]
impl Splitter {
    #[new]
    #[pyo3(signature = (pattern, special_tokens = Vec::new()))]
    fn new(py: Python<'_>, pattern: &str, special_tokens: Vec<String>) -> PyResult<Self> {
        Ok(Splitter(Arc::new(pretokenize::Splitter::new(pattern, &special_tokens).into_python(py)?)))
    }

    #[getter]
    fn name(&self) -> Option<&'static str> {
        self.0.name()
    }

    #[getter]
    fn regex(&self) -> &str {
        self.0.regex()
    }

    #[getter]
    fn special_tokens(&self) -> Vec<String> {
        self.0.special_tokens().to_vec()
    }

    fn split<'py>(&self, py: Python<'py>, text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        struct Ends(Vec<(usize, usize)>);
        impl pretokenize::Sink for Ends {
            fn pretoken(&mut self, _text: &[u8], start: usize, end: usize) {
                self.0.push((start, end));
            }
        }
        let text = TextArg::required(text)?;
        let bytes = text.bytes()?;
        let mut ends = Ends(Vec::new());
        self.0.split(bytes, &mut ends).into_python(py)?;
        PyList::new(py, ends.0.iter().map(|&(start, end)| PyBytes::new(py, &bytes[start..end])))
    }

    fn covers(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<bool> {
        #[derive(Default)]
        struct Gaps(bool);
        impl pretokenize::Sink for Gaps {
            fn pretoken(&mut self, _text: &[u8], _start: usize, _end: usize) {}
            fn unmatched(&mut self) {
                self.0 = true;
            }
        }
        let text = TextArg::required(text)?;
        let mut gaps = Gaps::default();
        self.0.split(text.bytes()?, &mut gaps).into_python(py)?;
        Ok(!gaps.0)
    }
}

#[pyfunction]
pub fn named_patterns() -> BTreeMap<&'static str, &'static str> {
    pretokenize::named_patterns().collect()
}
