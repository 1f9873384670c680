//! Bytes borrowed from Python, and bytes given back.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A read-only view of a contiguous Python buffer, kept alive by it.
pub struct Bytes(PyBuffer<u8>);

impl Bytes {
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        // Arrow and numpy hand out typed or signed buffers; `memoryview.cast` makes them bytes without a copy.
        let view = object.py().import("builtins")?.getattr("memoryview")?.call1((object,))?;
        let buffer = PyBuffer::<u8>::get(&view.call_method1("cast", ("B",))?)?;
        if !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err("a buffer with gaps cannot be read"));
        }
        Ok(Bytes(buffer))
    }

    /// Fixed-width little-endian numbers.
    pub fn numbers<const N: usize>(&self) -> PyResult<impl Iterator<Item = [u8; N]> + '_> {
        if self.as_ref().len() % N != 0 {
            return Err(PyTypeError::new_err(format!("a buffer of {N}-byte numbers ends inside one")));
        }
        Ok(self.as_ref().chunks_exact(N).map(|chunk| chunk.try_into().expect("N bytes")))
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the buffer is contiguous (checked in `new`), lives as long as `self`, and its owner promises, as
        // Arrow buffers and bytes do, not to write to it while it is lent out.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

/// `str` or `bytes`, borrowed. Lone surrogates in a `str` become the three bytes that would encode them.
pub enum TextArg<'py> {
    Str(Bound<'py, PyString>),
    Bytes(Bound<'py, PyBytes>),
    Surrogates(Bound<'py, PyBytes>),
}

impl<'py> TextArg<'py> {
    /// `None` if the object is neither.
    pub fn new(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(text) = object.cast::<PyString>() {
            if text.to_str().is_ok() {
                return Ok(Some(TextArg::Str(text.clone())));
            }
            let encoded = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
            return Ok(Some(TextArg::Surrogates(encoded.cast_into()?)));
        }
        Ok(object.cast::<PyBytes>().ok().map(|bytes| TextArg::Bytes(bytes.clone())))
    }

    pub fn required(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::new(object)?.ok_or_else(|| {
            let kind = object.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
            PyTypeError::new_err(format!("expected text as `str` or `bytes`, found `{kind}`"))
        })
    }

    pub fn bytes(&self) -> PyResult<&[u8]> {
        match self {
            TextArg::Str(text) => Ok(text.to_str()?.as_bytes()),
            TextArg::Bytes(bytes) | TextArg::Surrogates(bytes) => Ok(bytes.as_bytes()),
        }
    }
}
