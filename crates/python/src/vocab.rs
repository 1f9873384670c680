//! `Vocab`: tokens, merges and special tokens, checked; `read_tokenizer_json` and `TokenizerModel` read one.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString};
use tokenmill_core::Error;
use tokenmill_core::vocab::huggingface;
use tokenmill_core::vocab::{self, Merge, Tokens};

use crate::buffers::Bytes;
use crate::errors::{IntoPython, to_python};

#[pyclass(frozen, module = "tokenmill._core")]
pub struct Vocab(pub Arc<vocab::Vocab>);

/// Special tokens and their ids, from any mapping, in its order.
fn special_ids(mapping: &Bound<'_, PyMapping>) -> PyResult<Vec<(String, u32)>> {
    let py = mapping.py();
    let refuse = |message: String| to_python(py, Error::vocab(message));
    let mut ids = Vec::with_capacity(mapping.len()?);
    for item in mapping.items()?.iter() {
        let (token, id): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let Ok(text) = token.cast::<PyString>() else {
            return Err(refuse(format!("special token {} is not a string", token.repr()?)));
        };
        let Ok(text) = text.to_str() else {
            return Err(refuse(format!("special token {} holds half of a surrogate pair", token.repr()?)));
        };
        let Some(id) = id.extract().ok().filter(|&id: &u32| id < 1 << 31) else {
            return Err(refuse(format!("special token `{text}` has id {id}, not in 0 … 2^31")));
        };
        ids.push((text.to_owned(), id));
    }
    Ok(ids)
}

fn byte_string<'a>(token: &'a Bound<'_, PyAny>, index: usize) -> PyResult<&'a [u8]> {
    match token.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes()),
        Err(_) => Err(PyTypeError::new_err(format!("token {index} is {}, not `bytes`", token.repr()?))),
    }
}

#[pymethods]
impl Vocab {
    #[new]
    #[pyo3(signature = (tokens, merges, special_tokens, *, ignore_merges = false))]
    fn new(
        py: Python<'_>,
        tokens: &Bound<'_, PyAny>,
        merges: Vec<Merge>,
        special_tokens: &Bound<'_, PyMapping>,
        ignore_merges: bool,
    ) -> PyResult<Self> {
        let mut all = Tokens::default();
        for (index, token) in tokens.try_iter()?.enumerate() {
            all.push(byte_string(&token?, index)?).into_python(py)?;
        }
        let special_tokens: HashMap<_, _> = special_ids(special_tokens)?.into_iter().collect();
        let vocab = py.detach(|| vocab::Vocab::new(all, merges, &special_tokens, ignore_merges));
        Ok(Vocab(Arc::new(vocab.into_python(py)?)))
    }

    #[staticmethod]
    fn from_ranks(
        py: Python<'_>,
        tokens: &Bound<'_, PyAny>,
        special_tokens: &Bound<'_, PyMapping>,
    ) -> PyResult<Self> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for (index, token) in tokens.try_iter()?.enumerate() {
            all.push(byte_string(&token?, index)?.to_vec());
        }
        let special_tokens: HashMap<_, _> = special_ids(special_tokens)?.into_iter().collect();
        let vocab = py.detach(|| vocab::Vocab::from_ranks(&all, &special_tokens));
        Ok(Vocab(Arc::new(vocab.into_python(py)?)))
    }

    #[staticmethod]
    #[pyo3(signature = (data, special_tokens, *, file))]
    fn read_ranks(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        special_tokens: &Bound<'_, PyMapping>,
        file: &str,
    ) -> PyResult<Self> {
        let data = Bytes::new(data)?;
        let bytes = data.as_ref();
        let special_tokens: HashMap<_, _> = special_ids(special_tokens)?.into_iter().collect();
        let vocab = py.detach(|| vocab::Vocab::read_ranks(bytes, &special_tokens, file));
        Ok(Vocab(Arc::new(vocab.into_python(py)?)))
    }

    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    #[getter]
    fn num_merges(&self) -> usize {
        self.0.merges().len()
    }

    #[getter]
    fn special_tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ids = PyDict::new(py);
        for (text, id) in self.0.special_tokens() {
            ids.set_item(text, id)?;
        }
        Ok(ids)
    }

    #[getter]
    fn ignore_merges(&self) -> bool {
        self.0.ignore_merges()
    }

    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let tokens: Vec<_> = (0..self.0.size() as u32).map(|id| PyBytes::new(py, self.0.token(id))).collect();
        PyList::new(py, tokens)
    }

    fn merges(&self) -> Vec<Merge> {
        self.0.merges().to_vec()
    }

    fn token<'py>(&self, py: Python<'py>, token_id: i64) -> Option<Bound<'py, PyBytes>> {
        let id = usize::try_from(token_id).ok().filter(|&id| id < self.0.size())? as u32;
        let token = self.0.token(id);
        (!token.is_empty()).then(|| PyBytes::new(py, token))
    }

    fn token_id(&self, token: &[u8]) -> Option<u32> {
        self.0.token_id(token)
    }

    fn unreachable(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| self.0.unreachable().to_vec())
    }

    fn used_merges(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| self.0.used_merges().to_vec())
    }

    fn unordered_merge(&self, py: Python<'_>) -> Option<usize> {
        py.detach(|| self.0.unordered_merge())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<Vocab>()
            .is_ok_and(|other| Arc::ptr_eq(&self.0, &other.get().0) || self.0 == other.get().0)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.0.size(), self.0.merges(), self.0.special_tokens(), self.0.ignore_merges()).hash(&mut hasher);
        hasher.finish()
    }
}

#[pyclass(frozen, module = "tokenmill._core")]
pub struct TokenizerModel(huggingface::TokenizerModel);

#[pymethods]
impl TokenizerModel {
    #[pyo3(signature = (special_tokens, *, ignore_merges))]
    fn vocab(
        &self,
        py: Python<'_>,
        special_tokens: &Bound<'_, PyMapping>,
        ignore_merges: bool,
    ) -> PyResult<Vocab> {
        let special_tokens = special_ids(special_tokens)?;
        let vocab = py.detach(|| self.0.vocab(&special_tokens, ignore_merges));
        Ok(Vocab(Arc::new(vocab.into_python(py)?)))
    }
}

#[pyfunction]
pub fn read_tokenizer_json(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    file: &str,
) -> PyResult<(String, TokenizerModel)> {
    let data = Bytes::new(data)?;
    let bytes = data.as_ref();
    let (rest, model) = py.detach(|| huggingface::read_tokenizer_json(bytes, file)).into_python(py)?;
    Ok((rest, TokenizerModel(model)))
}
