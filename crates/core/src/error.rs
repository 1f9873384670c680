//! One error for the whole core. Each variant knows which of Python's exception classes it becomes.

use std::fmt;

pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Text cannot be read.
    Source { message: String, hint: Option<String> },
    /// A setting makes no sense.
    Config { message: String, hint: Option<String> },
    /// A vocab, merge, special token or id breaks a rule.
    Vocab { message: String, hint: Option<String> },
    /// A table of counts is not what it promises.
    Format { message: String, hint: Option<String> },
    /// A file cannot be written.
    Output { message: String, hint: Option<String> },
    /// A sum no longer fits its integer.
    Overflow { message: String },
    /// The caller asked to stop.
    Cancelled,
    /// A Python object behind a source raised; the binding keeps the exception itself.
    Foreign { message: String },
}

impl Error {
    pub fn source(message: impl Into<String>) -> Self {
        Self::Source { message: message.into(), hint: None }
    }
    pub fn config(message: impl Into<String>) -> Self {
        Self::Config { message: message.into(), hint: None }
    }
    pub fn vocab(message: impl Into<String>) -> Self {
        Self::Vocab { message: message.into(), hint: None }
    }
    pub fn format(message: impl Into<String>) -> Self {
        Self::Format { message: message.into(), hint: None }
    }

    /// The same error, its message led in by where it happened.
    pub fn at(mut self, place: &str) -> Self {
        if let Self::Source { message, .. }
        | Self::Config { message, .. }
        | Self::Vocab { message, .. }
        | Self::Format { message, .. } = &mut self
        {
            *message = format!("{place}: {message}");
        }
        self
    }

    /// The same error with a likely way out.
    pub fn hint(mut self, way_out: impl Into<String>) -> Self {
        if let Self::Source { hint, .. }
        | Self::Config { hint, .. }
        | Self::Vocab { hint, .. }
        | Self::Format { hint, .. } = &mut self
        {
            *hint = Some(way_out.into());
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { message, hint }
            | Self::Config { message, hint }
            | Self::Vocab { message, hint }
            | Self::Format { message, hint }
            | Self::Output { message, hint } => match hint {
                Some(hint) => write!(f, "{message}\nhint: {hint}"),
                None => f.write_str(message),
            },
            Self::Overflow { message } | Self::Foreign { message } => f.write_str(message),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {}
