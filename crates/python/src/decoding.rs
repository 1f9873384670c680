//! What is done with ids of whatever integer type: decode them, measure them.

use std::mem::MaybeUninit;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use tokenmill_core::Result;
use tokenmill_core::decode::{AsId, Decoder};

use crate::array::WithIds;
use crate::errors::IntoPython;

/// So many ids are decoded before anyone could miss the GIL.
const BLINK: usize = 1 << 12;

/// Into a buffer of our own.
pub struct Decode<'a, 'py> {
    pub py: Python<'py>,
    pub decoder: &'a Decoder,
}

impl WithIds for Decode<'_, '_> {
    type Out = Result<Vec<u8>>;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out {
        let decode = || {
            let len = self.decoder.num_bytes(ids)?;
            let mut bytes = Vec::with_capacity(len);
            self.decoder.write(ids, &mut bytes.spare_capacity_mut()[..len])?;
            // SAFETY: `write` fills the whole slice it is given, or fails.
            unsafe { bytes.set_len(len) };
            Ok(bytes)
        };
        if ids.len() <= BLINK { decode() } else { self.py.detach(decode) }
    }
}

/// Into a `bytes` object, without a copy between.
pub struct DecodeBytes<'a, 'py> {
    pub py: Python<'py>,
    pub decoder: &'a Decoder,
}

impl<'py> WithIds for DecodeBytes<'_, 'py> {
    type Out = PyResult<Bound<'py, PyBytes>>;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out {
        let py = self.py;
        let len = self.decoder.num_bytes(ids).into_python(py)?;
        // SAFETY: a new `bytes` object of this length, which nobody else knows yet, is filled to its end before it is
        // handed out; if that fails it is dropped.
        unsafe {
            let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), len as ffi::Py_ssize_t);
            let object: Bound<'py, PyBytes> = Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked();
            let start = ffi::PyBytes_AsString(object.as_ptr()).cast::<MaybeUninit<u8>>();
            let room = std::slice::from_raw_parts_mut(start, len);
            if ids.len() <= BLINK {
                self.decoder.write(ids, room).into_python(py)?;
            } else {
                let decoder = self.decoder;
                py.detach(|| decoder.write(ids, room)).into_python(py)?;
            }
            Ok(object)
        }
    }
}

/// Row by row: `offsets` say where each starts; text by `errors`, or bytes if there are none.
pub struct DecodeRows<'a, 'py> {
    pub py: Python<'py>,
    pub decoder: &'a Decoder,
    pub offsets: &'a [i64],
    pub errors: Option<&'a str>,
}

impl<'py> WithIds for DecodeRows<'_, 'py> {
    type Out = PyResult<Bound<'py, PyList>>;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out {
        let rows = PyList::empty(self.py);
        let mut bytes = Vec::new();
        for (index, two) in self.offsets.windows(2).enumerate() {
            let row = usize::try_from(two[0]).ok().zip(usize::try_from(two[1]).ok());
            let row = row.and_then(|(start, end)| ids.get(start..end));
            let row = row.ok_or_else(|| {
                PyTypeError::new_err(format!(
                    "offsets {} and {} do not lie in {} ids",
                    two[0],
                    two[1],
                    ids.len()
                ))
            })?;
            bytes.clear();
            let decoded = self.decoder.decode(row, &mut bytes);
            decoded.map_err(|error| error.at(&format!("row {index}"))).into_python(self.py)?;
            match self.errors {
                Some(errors) => rows.append(text_of(self.py, &bytes, errors)?)?,
                None => rows.append(PyBytes::new(self.py, &bytes))?,
            }
        }
        Ok(rows)
    }
}

pub struct ByteOffsets<'a>(pub &'a Decoder);

impl WithIds for ByteOffsets<'_> {
    type Out = Result<Vec<i64>>;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out {
        self.0.offsets(ids)
    }
}

/// In this text.
pub struct CharOffsets<'a>(pub &'a Decoder, pub &'a [u8]);

impl WithIds for CharOffsets<'_> {
    type Out = Result<Vec<i64>>;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out {
        self.0.char_offsets(self.1, ids)
    }
}

/// Numbers of any integer type as the widest; what does not fit is -1.
pub struct Collect;

impl WithIds for Collect {
    type Out = Vec<i64>;
    fn with<I: AsId + Sync>(self, numbers: &[I]) -> Vec<i64> {
        numbers.iter().map(|number| number.show().parse().unwrap_or(-1)).collect()
    }
}

pub fn text_of<'py>(py: Python<'py>, bytes: &[u8], errors: &str) -> PyResult<Bound<'py, PyString>> {
    let errors = std::ffi::CString::new(errors)?;
    // SAFETY: pointer and length are those of `bytes`, `errors` ends with a zero, and the result is a new reference.
    unsafe {
        let len = bytes.len() as ffi::Py_ssize_t;
        let text = ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), len, errors.as_ptr());
        Ok(Bound::from_owned_ptr_or_err(py, text)?.cast_into_unchecked())
    }
}
