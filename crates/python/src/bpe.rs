//! `Bpe`: a vocab that encodes and decodes.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokenmill_core::encode;

use crate::buffers::TextArg;
use crate::errors::IntoPython;
use crate::splitter::Splitter;

#[pyclass(frozen, module = "tokenmill._core")]
pub struct Bpe(encode::Bpe);

#[pymethods]
impl Bpe {
    #[new]
    fn new(
        py: Python<'_>,
        tokens: Vec<Vec<u8>>,
        merges: Vec<(u32, u32, u32)>,
        special_tokens: HashMap<String, u32>,
        splitter: &Splitter,
    ) -> PyResult<Self> {
        let splitter = splitter.0.clone();
        let bpe = py.detach(|| encode::Bpe::new(tokens, &merges, special_tokens, splitter));
        Ok(Bpe(bpe.into_python(py)?))
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }

    fn encode(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        allowed_special: Vec<String>,
    ) -> PyResult<Vec<u32>> {
        let text = TextArg::required(text)?;
        let bytes = text.bytes()?;
        py.detach(|| self.0.encode(bytes, &allowed_special)).into_python(py)
    }

    fn find_special(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        self.0.find_special(TextArg::required(text)?.bytes()?).into_python(py)
    }

    fn decode_bytes<'py>(&self, py: Python<'py>, ids: Vec<u32>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.0.decode(ids).into_python(py)?))
    }

    fn unreachable(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| self.0.unreachable())
    }
}
