//! Offsets as Python pairs, with spaces left out of them as Hugging Face's ByteLevel does.

use std::collections::HashMap;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokenmill_core::decode::{AsId, Decoder};

use crate::array::WithIds;
use crate::numbers::Numbers;

/// What is left out of offsets, one time after another: spaces at both ends of tokens.
pub struct Trims<'a> {
    /// Whether the one space that a text may have been given stays (that of a token at character 0 and of one token
    /// besides), and the place of that token.
    pub trims: Vec<(bool, i64)>,
    /// Of special tokens, which are spelled by characters and not by bytes.
    pub special_spaces: HashMap<u32, (i64, i64)>,
    pub decoder: &'a Decoder,
}

impl Trims<'_> {
    pub fn is_empty(&self) -> bool {
        self.trims.is_empty()
    }

    fn apply(&self, id: u32, place: i64, (mut start, mut end): (i64, i64)) -> (i64, i64) {
        let (leading, trailing) = match self.special_spaces.get(&id) {
            Some(&spaces) => spaces,
            None => {
                let (leading, trailing) = self.decoder.outer_spaces(id);
                (leading as i64, trailing as i64)
            }
        };
        for &(keeps_one, first) in &self.trims {
            let stays = leading == 1 && keeps_one && (start == 0 || place == first);
            if !stays {
                start = (start + leading).min(end);
            }
            if end >= trailing {
                end = (end - trailing).max(start);
            }
        }
        (start, end)
    }
}

/// Of two numbers for each token, those of tokens `start` to `stop`.
pub struct OffsetPairs<'a, 'py> {
    pub py: Python<'py>,
    pub numbers: &'a Numbers,
    /// Of all tokens; not looked at if nothing is trimmed.
    pub ids: Vec<i64>,
    pub start: usize,
    pub stop: usize,
    pub trims: Trims<'a>,
}

impl<'py> WithIds for OffsetPairs<'_, 'py> {
    type Out = PyResult<Bound<'py, PyList>>;
    fn with<I: AsId + Sync>(self, offsets: &[I]) -> Self::Out {
        let range = self.start..self.stop.max(self.start);
        let is_there =
            offsets.len() / 2 >= range.end && (self.trims.is_empty() || self.ids.len() >= range.end);
        if !is_there {
            return Err(PyIndexError::new_err("there are fewer tokens than offsets are asked for"));
        }
        let number = |place: usize| offsets[place].as_id().map_or(0, i64::from);
        let pairs = range.map(|place| {
            let pair = (number(2 * place), number(2 * place + 1));
            match self.ids.get(place).and_then(|id| id.as_id()) {
                Some(id) => self.trims.apply(id, place as i64, pair),
                None => pair,
            }
        });
        self.numbers.pairs(self.py, pairs)
    }
}
