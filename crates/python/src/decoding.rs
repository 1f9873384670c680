//! What is done with ids of whatever integer type: decode them, measure them.

use std::mem::MaybeUninit;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use tokenmill_core::Result;
use tokenmill_core::decode::{AsId, Decoder};

use crate::array::{WithIds, with_ids};
use crate::errors::IntoPython;
use crate::numbers::list_of;

/// So many ids are decoded before anyone could miss the GIL.
const BLINK: usize = 1 << 12;

/// So many ids get a buffer with room for all but the longest tokens: to measure them first takes half as long as to decode
/// them. It would be too much to ask for millions.
const IN_ONE_PASS: usize = 1 << 16;
/// From so many on it is worth a look at whether their text goes faster through UTF-16.
const WORTH_UTF16: usize = 1 << 7;

/// Work on so many ids, without the GIL if somebody could miss it.
fn unless_short<T: Send>(py: Python<'_>, num_ids: usize, work: impl FnOnce() -> T + Send) -> T {
    if num_ids <= BLINK { work() } else { py.detach(work) }
}

/// The bytes of `ids` in a buffer of our own.
fn decoded<I: AsId + Sync>(py: Python<'_>, decoder: &Decoder, ids: &[I]) -> Result<Vec<u8>> {
    unless_short(py, ids.len(), || {
        if ids.len() <= IN_ONE_PASS {
            let mut bytes = Vec::with_capacity(ids.len() * 16);
            decoder.decode(ids, &mut bytes)?;
            return Ok(bytes);
        }
        let len = decoder.num_bytes(ids)?;
        let mut bytes = Vec::with_capacity(len);
        decoder.write(ids, &mut bytes.spare_capacity_mut()[..len])?;
        // SAFETY: `write` fills the whole slice it is given, or fails.
        unsafe { bytes.set_len(len) };
        Ok(bytes)
    })
}

/// Into a `str`.
pub struct DecodeText<'a, 'py> {
    pub py: Python<'py>,
    pub decoder: &'a Decoder,
    pub errors: &'a str,
}

impl<'py> WithIds for DecodeText<'_, 'py> {
    type Out = PyResult<Bound<'py, PyString>>;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out {
        let (py, decoder) = (self.py, self.decoder);
        if (WORTH_UTF16..=IN_ONE_PASS).contains(&ids.len())
            && decoder.is_beyond_ascii(ids)
            && let Some(text) = unless_short(py, ids.len(), || decoder.utf16(ids))
        {
            return text_of_utf16(py, &text);
        }
        let bytes = decoded(py, decoder, ids).into_python(py)?;
        text_of(py, &bytes, self.errors)
    }
}

/// Into a `bytes` object: a long one is filled in place.
pub struct DecodeBytes<'a, 'py> {
    pub py: Python<'py>,
    pub decoder: &'a Decoder,
}

impl<'py> WithIds for DecodeBytes<'_, 'py> {
    type Out = PyResult<Bound<'py, PyBytes>>;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out {
        let (py, decoder) = (self.py, self.decoder);
        if ids.len() <= IN_ONE_PASS {
            return Ok(PyBytes::new(py, &decoded(py, decoder, ids).into_python(py)?));
        }
        let len = decoder.num_bytes(ids).into_python(py)?;
        // SAFETY: a new `bytes` object of this length, which nobody else knows yet, is filled to its end before it is
        // handed out; if that fails it is dropped.
        unsafe {
            let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), len as ffi::Py_ssize_t);
            let object: Bound<'py, PyBytes> = Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked();
            let start = ffi::PyBytes_AsString(object.as_ptr()).cast::<MaybeUninit<u8>>();
            let room = std::slice::from_raw_parts_mut(start, len);
            py.detach(|| decoder.write(ids, room)).into_python(py)?;
            Ok(object)
        }
    }
}

/// Each of several sequences of ids: text by `errors`, or bytes if there are none.
pub fn decode_each<'py>(
    batch: &Bound<'py, PyAny>,
    decoder: &Decoder,
    errors: Option<&str>,
) -> PyResult<Bound<'py, PyList>> {
    let py = batch.py();
    let rows = PyList::empty(py);
    for ids in batch.try_iter()? {
        match errors {
            Some(errors) => rows.append(with_ids(&ids?, DecodeText { py, decoder, errors })??)?,
            None => rows.append(with_ids(&ids?, DecodeBytes { py, decoder })??)?,
        }
    }
    Ok(rows)
}

/// Into a `str` that must be UTF-8, with the first character of each token.
pub struct DecodeWithStarts<'a, 'py> {
    pub py: Python<'py>,
    pub decoder: &'a Decoder,
}

impl<'py> WithIds for DecodeWithStarts<'_, 'py> {
    type Out = PyResult<(Bound<'py, PyString>, Vec<u32>)>;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out {
        let (py, decoder) = (self.py, self.decoder);
        let text = DecodeText { py, decoder, errors: "strict" }.with(ids)?;
        Ok((text, decoder.char_starts(ids).into_python(py)?))
    }
}

/// Token by token, from a list of all of them.
pub struct TokenList<'a, 'py> {
    pub py: Python<'py>,
    pub decoder: &'a Decoder,
    pub tokens: &'a [Py<PyBytes>],
}

impl<'py> WithIds for TokenList<'_, 'py> {
    type Out = PyResult<Bound<'py, PyList>>;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out {
        // Finds the unknown ones.
        self.decoder.num_bytes(ids).into_python(self.py)?;
        let token = |&id: &I| &self.tokens[id.as_id().map_or(0, |id| id as usize)];
        list_of(self.py, ids.iter().map(|id| token(id).as_ptr()))
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
        let wide = |number: I| number.show().parse().unwrap_or(-1);
        numbers.iter().map(|&number| number.as_id().map_or_else(|| wide(number), i64::from)).collect()
    }
}

pub fn text_of<'py>(py: Python<'py>, bytes: &[u8], errors: &str) -> PyResult<Bound<'py, PyString>> {
    let other;
    let errors = match errors {
        "replace" => c"replace",
        "strict" => c"strict",
        _ => {
            other = std::ffi::CString::new(errors)?;
            &other
        }
    };
    // SAFETY: pointer and length are those of `bytes`, `errors` ends with a zero, and the result is a new reference.
    unsafe {
        let len = bytes.len() as ffi::Py_ssize_t;
        let text = ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), len, errors.as_ptr());
        Ok(Bound::from_owned_ptr_or_err(py, text)?.cast_into_unchecked())
    }
}

/// `text` is what [`Decoder::utf16`] gives.
fn text_of_utf16<'py>(py: Python<'py>, text: &[u16]) -> PyResult<Bound<'py, PyString>> {
    // A byte order that is given keeps Python from taking a first U+FEFF for one.
    let mut byte_order = if cfg!(target_endian = "little") { -1 } else { 1 };
    // SAFETY: pointer and length, in bytes, are those of `text`, and the result is a new reference.
    unsafe {
        let len = (2 * text.len()) as ffi::Py_ssize_t;
        let text =
            ffi::PyUnicode_DecodeUTF16(text.as_ptr().cast(), len, std::ptr::null(), &raw mut byte_order);
        Ok(Bound::from_owned_ptr_or_err(py, text)?.cast_into_unchecked())
    }
}
