//! `LenientDecoder`: ids to text, where ids without a token spell nothing.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use tokenmill_core::decode::Decoder;

use crate::array::with_ids;
use crate::decoding::{DecodeText, decode_each};

#[pyclass(frozen, module = "tokenmill._core")]
pub struct LenientDecoder(Decoder);

#[pymethods]
impl LenientDecoder {
    #[new]
    fn new(tokens: Vec<Bound<'_, PyBytes>>) -> Self {
        LenientDecoder(Decoder::skipping_unknown(tokens.iter().map(|token| token.as_bytes())))
    }

    #[pyo3(signature = (ids, errors = "replace"))]
    fn decode<'py>(&self, ids: &Bound<'py, PyAny>, errors: &str) -> PyResult<Bound<'py, PyString>> {
        with_ids(ids, DecodeText { py: ids.py(), decoder: &self.0, errors })?
    }

    #[pyo3(signature = (batch, errors = "replace"))]
    fn decode_each<'py>(&self, batch: &Bound<'py, PyAny>, errors: &str) -> PyResult<Bound<'py, PyList>> {
        decode_each(batch, &self.0, Some(errors))
    }
}
