//! `ChatEncoder`: rows of conversations to ids and a mask.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::prelude::*;
use tokenmill_core::Error;
use tokenmill_core::chat::{self, Definition, Mode, Piece, Role, RowBatch, RowOptions, Shape, TooLong};
use tokenmill_core::encode::Id;
use tokenmill_core::source::InvalidUtf8;

use crate::array::Array;
use crate::bpe::Bpe;
use crate::buffers::TextArg;
use crate::detached::{MOMENT, attentive};
use crate::errors::IntoPython;
use crate::texts::borrowed;

/// A special token by its id, or literal text.
#[derive(FromPyObject)]
pub enum PyPiece {
    Special(u32),
    Text(String),
}

impl From<PyPiece> for Piece {
    fn from(piece: PyPiece) -> Self {
        match piece {
            PyPiece::Special(id) => Piece::Special(id),
            PyPiece::Text(text) => Piece::Text(text),
        }
    }
}

fn pieces(given: Vec<PyPiece>) -> Vec<Piece> {
    given.into_iter().map(Piece::from).collect()
}

/// Name, before, after, whether it is trained on, how many pieces of `after` are.
type PyRole = (String, Vec<PyPiece>, Vec<PyPiece>, bool, usize);

#[pyclass(frozen, module = "tokenmill._core")]
pub struct ChatEncoder {
    pub core: Arc<chat::ChatEncoder>,
}

#[pymethods]
impl ChatEncoder {
    #[new]
    #[pyo3(signature = (
        bpe, *, roles, bos, merge_system, instruction, input, mode = "sft", shape = None, max_tokens = None,
        too_long = "drop", invalid_utf8 = "error",
    ))]
    #[allow(clippy::too_many_arguments)] // named, on the Python side
    fn new(
        py: Python<'_>,
        bpe: &Bpe,
        roles: Vec<PyRole>,
        bos: Vec<PyPiece>,
        merge_system: Option<String>,
        instruction: String,
        input: String,
        mode: &str,
        shape: Option<&str>,
        max_tokens: Option<usize>,
        too_long: &str,
        invalid_utf8: &str,
    ) -> PyResult<Self> {
        let role = |(name, before, after, is_trained, trained_after): PyRole| Role {
            name,
            before: pieces(before),
            after: pieces(after),
            is_trained,
            trained_after,
        };
        let roles = roles.into_iter().map(role).collect();
        let definition = Definition { bos: pieces(bos), roles, merge_system, instruction, input };
        let modes = [("sft", Mode::Sft), ("preference", Mode::Preference)];
        let invalid =
            [("error", InvalidUtf8::Error), ("replace", InvalidUtf8::Replace), ("keep", InvalidUtf8::Keep)];
        let options = RowOptions {
            mode: named(py, "mode", mode, &modes)?,
            shape: shape.map(|shape| named(py, "shape", shape, &Shape::NAMES)).transpose()?,
            max_tokens,
            too_long: named(py, "too_long", too_long, &TooLong::NAMES)?,
            invalid_utf8: named(py, "invalid_utf8", invalid_utf8, &invalid)?,
        };
        let core = chat::ChatEncoder::new(bpe.core().clone(), definition, options).into_python(py)?;
        Ok(ChatEncoder { core: Arc::new(core) })
    }

    #[pyo3(signature = (rows, *, skip_errors = false, threads = 1))]
    fn encode_rows(
        &self,
        rows: &Bound<'_, PyAny>,
        skip_errors: bool,
        threads: usize,
    ) -> PyResult<EncodedRows> {
        let py = rows.py();
        let rows = borrowed(rows)?;
        let rows = rows.iter().map(TextArg::bytes).collect::<PyResult<Vec<_>>>()?;
        let small = rows.iter().map(|row| row.len()).sum::<usize>() <= MOMENT;
        let specials = self.core.bpe().vocab().special_tokens();
        if self.core.bpe().is_wide() {
            let batch = attentive(py, small, |watch| {
                self.core.encode_rows::<u32>(&rows, skip_errors, threads, watch)
            })?;
            Ok(EncodedRows::new(batch, specials))
        } else {
            let batch = attentive(py, small, |watch| {
                self.core.encode_rows::<u16>(&rows, skip_errors, threads, watch)
            })?;
            Ok(EncodedRows::new(batch, specials))
        }
    }
}

fn named<T: Copy>(py: Python<'_>, what: &str, name: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let names: Vec<_> = known.iter().map(|(name, _)| format!("`{name}`")).collect();
    found
        .ok_or_else(|| Error::config(format!("`{what}` is `{name}`, not one of {}", names.join(", "))))
        .into_python(py)
}

/// What rows became.
#[pyclass(frozen, get_all, module = "tokenmill._core")]
pub struct EncodedRows {
    ids: Py<Array>,
    offsets: Py<Array>,
    mask: Py<Array>,
    bytes: Py<Array>,
    rows: Py<Array>,
    skipped: Vec<(usize, &'static str, String)>,
    truncated: usize,
    trained: usize,
    lookalikes: BTreeMap<String, u64>,
}

impl EncodedRows {
    fn new<I: Id>(batch: RowBatch<I>, specials: &[(String, u32)]) -> Self
    where
        Array: From<Vec<I>>,
    {
        let RowBatch { ids, mask, documents, rows, skipped, lookalikes } = batch;
        let mut end = 0;
        let mut offsets = vec![0];
        offsets.extend(documents.iter().map(|document| {
            end += document.tokens as i64;
            end
        }));
        let bytes: Vec<i64> = documents.iter().map(|document| document.bytes as i64).collect();
        let rows: Vec<i64> = rows.into_iter().map(|row| row as i64).collect();
        let held = |array: Array| Python::attach(|py| Py::new(py, array).expect("a small object fits"));
        EncodedRows {
            ids: held(ids.into()),
            offsets: held(offsets.into()),
            mask: held(mask.into()),
            bytes: held(bytes.into()),
            rows: held(rows.into()),
            skipped: skipped.into_iter().map(|one| (one.row, one.reason, one.detail)).collect(),
            truncated: documents.iter().filter(|document| document.is_truncated).count(),
            trained: documents.iter().map(|document| document.trained).sum(),
            lookalikes: specials
                .iter()
                .zip(lookalikes)
                .filter(|(_, count)| *count > 0)
                .map(|((text, _), count)| (text.clone(), count))
                .collect(),
        }
    }
}
