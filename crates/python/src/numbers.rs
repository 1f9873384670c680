//! Python numbers made once, and lists of them: filling a list then only counts references.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

/// The numbers below the size of a vocab. Ids are such numbers, and so are most positions in a text.
pub struct Numbers {
    size: usize,
    made: OnceLock<Vec<Py<PyInt>>>,
}

impl Numbers {
    pub fn below(size: usize) -> Self {
        Numbers { size, made: OnceLock::new() }
    }

    fn all(&self, py: Python<'_>) -> &[Py<PyInt>] {
        self.made.get_or_init(|| {
            (0..self.size)
                .map(|number| number.into_pyobject(py).expect("a number is made").unbind())
                .collect()
        })
    }

    pub fn list<'py>(&self, py: Python<'py>, numbers: &[u32]) -> PyResult<Bound<'py, PyList>> {
        let made = self.all(py);
        if numbers.iter().all(|&number| (number as usize) < made.len()) {
            return list_of(py, numbers.iter().map(|&number| made[number as usize].as_ptr()));
        }
        PyList::new(py, numbers)
    }

    /// Pairs as tuples.
    pub fn pairs<'py>(
        &self,
        py: Python<'py>,
        pairs: impl ExactSizeIterator<Item = (i64, i64)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let made = self.all(py);
        // SAFETY: what is made is a new reference, counted once more here, or null with an error set.
        let number = |number: i64| unsafe {
            match made.get(number as usize) {
                Some(made) => {
                    ffi::Py_INCREF(made.as_ptr());
                    made.as_ptr()
                }
                None => ffi::PyLong_FromLongLong(number),
            }
        };
        // SAFETY: a new list is filled to its end before anyone sees it, with new tuples, each filled likewise; both calls
        // that set an item take the reference over and fail for no index below the length.
        unsafe {
            let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(pairs.len() as ffi::Py_ssize_t))?;
            for (index, (first, last)) in pairs.enumerate() {
                let pair = Bound::from_owned_ptr_or_err(py, ffi::PyTuple_New(2))?;
                for (place, value) in [(0, number(first)), (1, number(last))] {
                    if value.is_null() {
                        return Err(PyErr::fetch(py));
                    }
                    ffi::PyTuple_SetItem(pair.as_ptr(), place, value);
                }
                // A pair of numbers is never part of a cycle. The collector would find that out, pair by pair.
                ffi::PyObject_GC_UnTrack(pair.as_ptr().cast());
                ffi::PyList_SetItem(list.as_ptr(), index as ffi::Py_ssize_t, pair.into_ptr());
            }
            Ok(list.cast_into_unchecked())
        }
    }
}

/// A list of objects that live longer than it takes to make it.
pub fn list_of<'py>(
    py: Python<'py>,
    objects: impl ExactSizeIterator<Item = *mut ffi::PyObject>,
) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: a new list of this length is filled to its end before anyone sees it; each item is a live object, counted
    // once more for `PyList_SetItem`, which takes that over. It fails for no index below the length.
    unsafe {
        let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(objects.len() as ffi::Py_ssize_t))?;
        for (index, object) in objects.enumerate() {
            ffi::Py_INCREF(object);
            ffi::PyList_SetItem(list.as_ptr(), index as ffi::Py_ssize_t, object);
        }
        Ok(list.cast_into_unchecked())
    }
}
