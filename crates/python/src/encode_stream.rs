//! `EncodeStream`: ids of a text that arrives in parts.

use std::sync::Mutex;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokenmill_core::encode;

use crate::array::Array;
use crate::buffers::TextArg;
use crate::detached::{MOMENT, attentive};

#[pyclass(frozen, module = "tokenmill._core")]
pub struct EncodeStream {
    pub stream: Mutex<encode::EncodeStream>,
    pub is_wide: bool,
}

#[pymethods]
impl EncodeStream {
    fn feed(&self, text: &Bound<'_, PyAny>) -> PyResult<Array> {
        let py = text.py();
        let text = TextArg::required(text)?;
        let bytes = text.bytes()?;
        let stream = &mut *self.lock()?;
        let small = bytes.len() <= MOMENT;
        if self.is_wide {
            Ok(attentive(py, small, |watch| stream.feed::<u32>(bytes, watch))?.into())
        } else {
            Ok(attentive(py, small, |watch| stream.feed::<u16>(bytes, watch))?.into())
        }
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Array> {
        let stream = &mut *self.lock()?;
        if self.is_wide {
            Ok(attentive(py, false, |watch| stream.finish::<u32>(watch))?.into())
        } else {
            Ok(attentive(py, false, |watch| stream.finish::<u16>(watch))?.into())
        }
    }
}

impl EncodeStream {
    /// Two threads in one stream would mix two texts: an error, not a wait.
    fn lock(&self) -> PyResult<std::sync::MutexGuard<'_, encode::EncodeStream>> {
        let busy = |_| PyRuntimeError::new_err("this stream is being fed by another thread");
        self.stream.try_lock().map_err(busy)
    }
}
