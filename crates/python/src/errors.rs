//! Core errors become the exceptions of `tokenmill.errors`.

use pyo3::exceptions::{PyKeyboardInterrupt, PyOverflowError, PyRuntimeError};
use pyo3::prelude::*;
use tokenmill_core::Error;

/// The exception for `error`. A cancelled call only comes from a signal that Python already knows about.
pub fn to_python(py: Python<'_>, error: Error) -> PyErr {
    let (class, message, hint) = match error {
        Error::Source { message, hint } => ("SourceError", message, hint),
        Error::Config { message, hint } => ("ConfigError", message, hint),
        Error::Vocab { message, hint } => ("VocabError", message, hint),
        Error::Format { message, hint } => ("FormatError", message, hint),
        Error::Output { message, hint } => ("TokenmillError", message, hint),
        Error::Overflow { message } => return PyOverflowError::new_err(message),
        Error::Foreign { message } => return PyRuntimeError::new_err(message),
        Error::Cancelled => return PyKeyboardInterrupt::new_err(()),
    };
    let raise = || -> PyResult<PyErr> {
        let class = py.import("tokenmill.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((message, hint))?))
    };
    raise().unwrap_or_else(|failed| failed)
}

/// Shorthand for results.
pub trait IntoPython<T> {
    fn into_python(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> IntoPython<T> for tokenmill_core::Result<T> {
    fn into_python(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, error))
    }
}
