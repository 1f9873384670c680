//! `Array`: numbers that the core made, lent to numpy without a copy; and ids that come from Python.

use std::ffi::{CStr, c_int, c_void};

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use tokenmill_core::Error;
use tokenmill_core::decode::AsId;

use crate::errors::IntoPython;
use crate::int_lists::small_ints;

/// One array of numbers, of one type.
enum Numbers {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    I64(Vec<i64>),
}

#[pyclass(frozen, module = "tokenmill._core")]
pub struct Array {
    numbers: Numbers,
    /// What a buffer's `shape` points to.
    len: isize,
}

impl From<Vec<u8>> for Array {
    fn from(numbers: Vec<u8>) -> Self {
        Array { len: numbers.len() as isize, numbers: Numbers::U8(numbers) }
    }
}

impl From<Vec<u16>> for Array {
    fn from(numbers: Vec<u16>) -> Self {
        Array { len: numbers.len() as isize, numbers: Numbers::U16(numbers) }
    }
}

impl From<Vec<u32>> for Array {
    fn from(numbers: Vec<u32>) -> Self {
        Array { len: numbers.len() as isize, numbers: Numbers::U32(numbers) }
    }
}

impl From<Vec<i64>> for Array {
    fn from(numbers: Vec<i64>) -> Self {
        Array { len: numbers.len() as isize, numbers: Numbers::I64(numbers) }
    }
}

impl Array {
    /// Address, bytes of one number, and its letter in the language of buffers.
    fn layout(&self) -> (*const c_void, isize, &'static CStr) {
        match &self.numbers {
            Numbers::U8(numbers) => (numbers.as_ptr().cast(), 1, c"B"),
            Numbers::U16(numbers) => (numbers.as_ptr().cast(), 2, c"H"),
            Numbers::U32(numbers) => (numbers.as_ptr().cast(), 4, c"I"),
            Numbers::I64(numbers) => (numbers.as_ptr().cast(), 8, c"q"),
        }
    }
}

#[pymethods]
impl Array {
    fn __len__(&self) -> usize {
        self.len as usize
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        match self.numbers {
            Numbers::U8(_) => "uint8",
            Numbers::U16(_) => "uint16",
            Numbers::U32(_) => "uint32",
            Numbers::I64(_) => "int64",
        }
    }

    /// # Safety
    /// `view` comes from Python, which fills and releases it by the rules of the buffer protocol.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no buffer to fill"));
        }
        let array = slf.get();
        let (address, item_size, format) = array.layout();
        let wanted = |flag: c_int| flags & flag == flag;
        // SAFETY: `view` is not null and ours to fill. The numbers, their length and the format outlive it, because
        // the view holds a reference to `slf`, which never moves or drops them. Rust reads them
        // again only as ids to decode, each checked when it is read, so whoever writes through the view can at worst get
        // other tokens.
        unsafe {
            (*view).buf = address.cast_mut();
            (*view).len = array.len * item_size;
            (*view).readonly = 0;
            (*view).itemsize = item_size;
            (*view).format =
                if wanted(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).ndim = 1;
            (*view).shape = if wanted(ffi::PyBUF_ND) {
                std::ptr::from_ref(&array.len).cast_mut()
            } else {
                std::ptr::null_mut()
            };
            (*view).strides =
                if wanted(ffi::PyBUF_STRIDES) { &raw mut (*view).itemsize } else { std::ptr::null_mut() };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }
}

/// What can be done with ids of any integer type.
pub trait WithIds {
    type Out;
    fn with<I: AsId + Sync>(self, ids: &[I]) -> Self::Out;
}

/// Call `work` with the ids in `object`: a list or other sequence of whole numbers, or an array of any integer type.
pub fn with_ids<W: WithIds>(object: &Bound<'_, PyAny>, work: W) -> PyResult<W::Out> {
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return sequence(object, work);
    }
    if let Ok(array) = object.cast::<Array>() {
        match &array.get().numbers {
            Numbers::U8(ids) => return Ok(work.with(ids)),
            Numbers::U16(ids) => return Ok(work.with(ids)),
            Numbers::U32(ids) => return Ok(work.with(ids)),
            Numbers::I64(ids) => return Ok(work.with(ids)),
        }
    }
    macro_rules! try_buffers {
        ($($integer:ty),*) => {$(
            if let Ok(buffer) = PyBuffer::<$integer>::get(object) {
                return buffered(object.py(), &buffer, work);
            }
        )*};
    }
    try_buffers!(u16, u32, i64, i32, u64, u8, i16, i8);
    sequence(object, work)
}

fn buffered<I: AsId + Element + Sync, W: WithIds>(
    py: Python<'_>,
    buffer: &PyBuffer<I>,
    work: W,
) -> PyResult<W::Out> {
    if buffer.dimensions() != 1 {
        let found = buffer.dimensions();
        return Err(PyTypeError::new_err(format!("expected one row of token ids, found {found} dimensions")));
    }
    if buffer.item_count() == 0 {
        return Ok(work.with::<I>(&[]));
    }
    if !buffer.is_c_contiguous() {
        return Ok(work.with(&buffer.to_vec(py)?));
    }
    // SAFETY: the buffer is contiguous, of this type, and held for as long as the slice lives. Who writes to an array
    // while it is being decoded may get any token, but every value is checked when it is read.
    let ids = unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<I>(), buffer.item_count()) };
    Ok(work.with(ids))
}

fn sequence<W: WithIds>(object: &Bound<'_, PyAny>, work: W) -> PyResult<W::Out> {
    if object.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("expected token ids, found text"));
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return sequence(tuple.to_list().as_any(), work);
    }
    if let Ok(list) = object.cast::<PyList>() {
        if let Some(ids) = small_ints(list) {
            return Ok(work.with(&ids));
        }
        if let Some(ids) = numbers_of(list) {
            return Ok(work.with(&ids));
        }
    }
    Ok(work.with(&one_by_one(object)?))
}

/// The items of a list of plain whole numbers, `None` if one is something else or needs more than 64 bits.
fn numbers_of(list: &Bound<'_, PyList>) -> Option<Vec<i64>> {
    let mut ids = Vec::with_capacity(list.len());
    for item in list {
        // SAFETY: the item is a live object, and it is looked at only if it is an `int`; an error is cleared.
        unsafe {
            if ffi::PyLong_Check(item.as_ptr()) == 0 {
                return None;
            }
            let number = ffi::PyLong_AsLongLong(item.as_ptr());
            if number == -1 && !ffi::PyErr_Occurred().is_null() {
                ffi::PyErr_Clear();
                return None;
            }
            ids.push(number);
        }
    }
    Some(ids)
}

/// Slow and patient: any iterable of whole numbers.
fn one_by_one(object: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let mut ids = Vec::new();
    for item in object.try_iter()? {
        let item = item?;
        let whole = item.call_method0("__index__").map_err(|_| {
            let kind = item.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
            PyTypeError::new_err(format!(
                "token ids are whole numbers, found `{kind}` at position {}",
                ids.len()
            ))
        })?;
        let id = whole.extract::<i64>();
        let unknown = |_| Error::vocab(format!("token id {whole} is not in the vocab"));
        ids.push(id.map_err(unknown).into_python(object.py())?);
    }
    Ok(ids)
}
