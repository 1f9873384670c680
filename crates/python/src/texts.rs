//! Many texts at once, borrowed from Python: a sequence of them, or the buffers of Arrow arrays.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use tokenmill_core::{Error, Result};

use crate::buffers::{Bytes, TextArg};

/// Validity bits or None, offsets, data, whether offsets are 64 bits wide, array offset, array length.
pub type ArrowArray<'py> =
    (Option<Bound<'py, PyAny>>, Bound<'py, PyAny>, Bound<'py, PyAny>, bool, usize, usize);

/// The texts of a Python sequence, borrowed.
pub fn borrowed<'py>(texts: &Bound<'py, PyAny>) -> PyResult<Vec<TextArg<'py>>> {
    if texts.is_instance_of::<PyString>() || texts.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err("expected several texts, found one: pass a list"));
    }
    let py = texts.py();
    let place =
        |index: usize| move |error: PyErr| PyTypeError::new_err(format!("text {index}: {}", error.value(py)));
    let texts = texts.try_iter()?.enumerate();
    texts.map(|(index, text)| TextArg::required(&text?).map_err(place(index))).collect()
}

/// One Arrow array of strings, its buffers held.
pub struct Column {
    validity: Option<Bytes>,
    offsets: Bytes,
    data: Bytes,
    is_large: bool,
    start: usize,
    len: usize,
}

impl Column {
    pub fn new((validity, offsets, data, is_large, start, len): &ArrowArray<'_>) -> PyResult<Self> {
        Ok(Column {
            validity: validity.as_ref().map(Bytes::new).transpose()?,
            offsets: Bytes::new(offsets)?,
            data: Bytes::new(data)?,
            is_large: *is_large,
            start: *start,
            len: *len,
        })
    }

    pub fn texts<'a>(&'a self, texts: &mut Vec<&'a [u8]>) -> Result<()> {
        let damaged = || Error::source("an Arrow array says where its texts are, but they are not there");
        let offset = |index: usize| -> Option<usize> {
            let (offsets, width) = (self.offsets.as_ref(), if self.is_large { 8 } else { 4 });
            let number = offsets.get(index * width..(index + 1) * width)?;
            let number = match number.try_into() {
                Ok(four) => i64::from(i32::from_le_bytes(four)),
                Err(_) => i64::from_le_bytes(number.try_into().ok()?),
            };
            usize::try_from(number).ok()
        };
        for index in self.start..self.start + self.len {
            if let Some(validity) = &self.validity {
                let byte = validity.as_ref().get(index / 8).ok_or_else(damaged)?;
                if byte >> (index % 8) & 1 == 0 {
                    return Err(Error::source(format!("text {} is null", texts.len()))
                        .hint("drop or fill nulls first, as `drop_nulls()` does"));
                }
            }
            let (start, end) = (offset(index).ok_or_else(damaged)?, offset(index + 1).ok_or_else(damaged)?);
            texts.push(self.data.as_ref().get(start..end).ok_or_else(damaged)?);
        }
        Ok(())
    }
}
