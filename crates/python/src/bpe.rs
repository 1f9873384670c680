//! `Bpe`: text to token ids and back.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use tokenmill_core::Error;
use tokenmill_core::count::Watch;
use tokenmill_core::encode::{self, Batch, DEFAULT_CACHE_BYTES, Named, Rules};

use crate::array::{Array, with_ids};
use crate::buffers::TextArg;
use crate::decoding::{
    ByteOffsets, CharOffsets, Collect, DecodeBytes, DecodeRows, DecodeText, DecodeWithStarts, TokenList,
    decode_each,
};
use crate::detached::{MOMENT, attentive};
use crate::encode_stream::EncodeStream;
use crate::errors::IntoPython;
use crate::numbers::Numbers;
use crate::offset_pairs::{OffsetPairs, Trims};
use crate::splitter::Splitter;
use crate::texts::{ArrowArray, Column, borrowed};
use crate::vocab::Vocab;
use crate::word_numbers::WordNumbers;

/// Texts up to this many bytes are encoded before a signal could be noticed, and with the GIL held: letting it go and
/// taking it back costs more than they do.
const BLINK: usize = 1 << 12;

#[pyclass(frozen, module = "tokenmill._core")]
pub struct Bpe {
    core: Arc<encode::Bpe>,
    /// No special token allowed, all of them errors: what most calls want.
    strict: Rules,
    /// All of them allowed.
    free: Rules,
    ordinary: Rules,
    numbers: Numbers,
    /// The bytes of each id, made when first asked for.
    tokens: OnceLock<Vec<Py<PyBytes>>>,
}

/// The rules of one call, borrowed where they are the usual ones.
enum CallRules<'a> {
    Kept(&'a Rules),
    Own(Rules),
}

impl std::ops::Deref for CallRules<'_> {
    type Target = Rules;
    fn deref(&self) -> &Rules {
        match self {
            CallRules::Kept(rules) => rules,
            CallRules::Own(rules) => rules,
        }
    }
}

#[pymethods]
impl Bpe {
    #[new]
    #[pyo3(signature = (vocab, splitter, *, nfc = false, cache_bytes = DEFAULT_CACHE_BYTES))]
    fn new(
        py: Python<'_>,
        vocab: &Vocab,
        splitter: &Splitter,
        nfc: bool,
        cache_bytes: usize,
    ) -> PyResult<Self> {
        let (vocab, splitter) = (vocab.0.clone(), splitter.0.clone());
        let core = py.detach(|| encode::Bpe::new(vocab, &splitter, nfc, cache_bytes)).into_python(py)?;
        let strict = core.rules(Named::These(&[]), Named::All).into_python(py)?;
        let free = core.rules(Named::All, Named::These(&[])).into_python(py)?;
        let ordinary = Rules::ordinary();
        let numbers = Numbers::below(core.vocab().size());
        Ok(Bpe { core: Arc::new(core), strict, free, ordinary, numbers, tokens: OnceLock::new() })
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.core.vocab().size()
    }

    fn encode<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        allowed_special: &Bound<'py, PyAny>,
        disallowed_special: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = text.py();
        let rules = self.rules(allowed_special, disallowed_special)?;
        let text = TextArg::required(text)?;
        let bytes = text.bytes()?;
        let mut ids: Vec<u32> = Vec::with_capacity(bytes.len() / 3 + 8);
        if bytes.len() <= BLINK {
            self.core.encode(bytes, &rules, &mut ids, &Watch::default()).into_python(py)?;
        } else {
            let work = |watch: &Watch| self.core.encode(bytes, &rules, &mut ids, watch);
            attentive(py, bytes.len() <= MOMENT, work)?;
        }
        self.numbers.list(py, &ids)
    }

    #[pyo3(signature = (text, allowed_special, disallowed_special, threads = 1, *, wide = false))]
    fn encode_to_array<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        allowed_special: &Bound<'py, PyAny>,
        disallowed_special: &Bound<'py, PyAny>,
        threads: usize,
        wide: bool,
    ) -> PyResult<Array> {
        let py = text.py();
        let rules = self.rules(allowed_special, disallowed_special)?;
        let text = TextArg::required(text)?;
        let bytes = text.bytes()?;
        let small = bytes.len() <= MOMENT;
        if wide || self.core.is_wide() {
            let batch =
                attentive(py, small, |w| self.core.encode_batch::<u32>(&[bytes], &rules, threads, w))?;
            Ok(batch.ids.into())
        } else {
            let batch =
                attentive(py, small, |w| self.core.encode_batch::<u16>(&[bytes], &rules, threads, w))?;
            Ok(batch.ids.into())
        }
    }

    #[pyo3(signature = (texts, allowed_special, disallowed_special, threads = 1))]
    fn encode_batch<'py>(
        &self,
        texts: &Bound<'py, PyAny>,
        allowed_special: &Bound<'py, PyAny>,
        disallowed_special: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<(Array, Array)> {
        let rules = self.rules(allowed_special, disallowed_special)?;
        let texts = borrowed(texts)?;
        let bytes = texts.iter().map(TextArg::bytes).collect::<PyResult<Vec<_>>>()?;
        self.encode_all(allowed_special.py(), &bytes, &rules, threads)
    }

    #[pyo3(signature = (texts, allowed_special, disallowed_special, threads = 1))]
    fn encode_lists<'py>(
        &self,
        texts: &Bound<'py, PyAny>,
        allowed_special: &Bound<'py, PyAny>,
        disallowed_special: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = texts.py();
        let rules = self.rules(allowed_special, disallowed_special)?;
        let texts = borrowed(texts)?;
        let bytes = texts.iter().map(TextArg::bytes).collect::<PyResult<Vec<_>>>()?;
        let small = bytes.iter().map(|text| text.len()).sum::<usize>() <= MOMENT;
        let batch: Batch<u32> = attentive(py, small, |w| self.core.encode_batch(&bytes, &rules, threads, w))?;
        let lists = PyList::empty(py);
        let mut start = 0;
        for &end in &batch.ends {
            lists.append(self.numbers.list(py, &batch.ids[start..end])?)?;
            start = end;
        }
        Ok(lists)
    }

    #[pyo3(signature = (arrays, allowed_special, disallowed_special, threads = 1))]
    fn encode_arrow<'py>(
        &self,
        arrays: Vec<ArrowArray<'py>>,
        allowed_special: &Bound<'py, PyAny>,
        disallowed_special: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<(Array, Array)> {
        let py = allowed_special.py();
        let rules = self.rules(allowed_special, disallowed_special)?;
        let columns = arrays.iter().map(Column::new).collect::<PyResult<Vec<_>>>()?;
        let mut texts = Vec::new();
        for column in &columns {
            column.texts(&mut texts).into_python(py)?;
        }
        self.encode_all(py, &texts, &rules, threads)
    }

    fn encode_with_dropout<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        allowed_special: &Bound<'py, PyAny>,
        disallowed_special: &Bound<'py, PyAny>,
        dropout: f64,
        seed: u64,
    ) -> PyResult<Array> {
        let py = text.py();
        let rules = self.rules(allowed_special, disallowed_special)?;
        let text = TextArg::required(text)?;
        let bytes = text.bytes()?;
        let mut ids = Vec::new();
        attentive(py, bytes.len() <= MOMENT, |_| {
            self.core.encode_with_dropout(bytes, &rules, dropout, seed, &mut ids)
        })?;
        Ok(self.narrowed(ids))
    }

    fn encode_start<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        max_tokens: usize,
        allowed_special: &Bound<'py, PyAny>,
        disallowed_special: &Bound<'py, PyAny>,
    ) -> PyResult<(Array, usize)> {
        let py = text.py();
        let rules = self.rules(allowed_special, disallowed_special)?;
        let text = TextArg::required(text)?;
        let bytes = text.bytes()?;
        let (ids, spelled) =
            attentive(py, max_tokens <= MOMENT, |_| self.core.encode_start(bytes, max_tokens, &rules))?;
        Ok((self.narrowed(ids), spelled))
    }

    #[pyo3(signature = (text, allowed_special, disallowed_special, threads = 1))]
    fn count<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        allowed_special: &Bound<'py, PyAny>,
        disallowed_special: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
        let py = text.py();
        let rules = self.rules(allowed_special, disallowed_special)?;
        let text = TextArg::required(text)?;
        let bytes = text.bytes()?;
        attentive(py, bytes.len() <= MOMENT, |watch| self.core.count(bytes, &rules, threads, watch))
    }

    #[pyo3(signature = (allowed_special, disallowed_special, threads = 1))]
    fn stream<'py>(
        &self,
        allowed_special: &Bound<'py, PyAny>,
        disallowed_special: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<EncodeStream> {
        let py = allowed_special.py();
        let allowed = Names::new(allowed_special, "allowed_special")?;
        let disallowed = Names::new(disallowed_special, "disallowed_special")?;
        let rules = self.core.rules(allowed.named(), disallowed.named()).into_python(py)?;
        let stream = encode::EncodeStream::new(self.core.clone(), rules, threads);
        Ok(EncodeStream { stream: Mutex::new(stream), is_wide: self.core.is_wide() })
    }

    fn find_special(&self, text: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        let text = TextArg::required(text)?;
        Ok(self.core.find_special(text.bytes()?).into_iter().map(str::to_owned).collect())
    }

    fn normalize<'py>(&self, text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = text.py();
        let text = TextArg::required(text)?;
        Ok(PyBytes::new(py, &self.core.normalize(text.bytes()?)))
    }

    fn decode_bytes<'py>(&self, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        with_ids(ids, DecodeBytes { py: ids.py(), decoder: self.core.decoder() })?
    }

    #[pyo3(signature = (ids, errors = "replace"))]
    fn decode<'py>(&self, ids: &Bound<'py, PyAny>, errors: &str) -> PyResult<Bound<'py, PyString>> {
        with_ids(ids, DecodeText { py: ids.py(), decoder: self.core.decoder(), errors })?
    }

    fn decode_batch<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        offsets: &Bound<'py, PyAny>,
        errors: Option<&str>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = ids.py();
        let offsets: Vec<i64> = with_ids(offsets, Collect)?;
        let work = DecodeRows { py, decoder: self.core.decoder(), offsets: &offsets, errors };
        with_ids(ids, work)?
    }

    fn decode_each<'py>(
        &self,
        batch: &Bound<'py, PyAny>,
        errors: Option<&str>,
    ) -> PyResult<Bound<'py, PyList>> {
        decode_each(batch, self.core.decoder(), errors)
    }

    fn decode_with_starts<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyString>, Bound<'py, PyList>)> {
        let (py, decoder) = (ids.py(), self.core.decoder());
        let (text, starts) = with_ids(ids, DecodeWithStarts { py, decoder })??;
        Ok((text, self.numbers.list(py, &starts)?))
    }

    fn tokens<'py>(&self, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = ids.py();
        let decoder = self.core.decoder();
        let tokens = self.tokens.get_or_init(|| {
            let size = self.core.vocab().size() as u32;
            let token = |id| PyBytes::new(py, decoder.token(id).unwrap_or_default()).unbind();
            (0..size).map(token).collect()
        });
        with_ids(ids, TokenList { py, decoder, tokens })?
    }

    fn byte_offsets(&self, ids: &Bound<'_, PyAny>) -> PyResult<Array> {
        let offsets = with_ids(ids, ByteOffsets(self.core.decoder()))?;
        Ok(offsets.into_python(ids.py())?.into())
    }

    fn char_offsets(&self, text: &Bound<'_, PyAny>, ids: &Bound<'_, PyAny>) -> PyResult<Array> {
        let text = TextArg::required(text)?;
        let offsets = with_ids(ids, CharOffsets(self.core.decoder(), text.bytes()?))?;
        Ok(offsets.into_python(ids.py())?.into())
    }

    /// The array of `char_offsets` as pairs: those of tokens `start` to `stop`.
    #[pyo3(signature = (offsets, ids, start, stop, trims, special_spaces))]
    fn offset_pairs<'py>(
        &self,
        offsets: &Bound<'py, PyAny>,
        ids: &Bound<'py, PyAny>,
        start: usize,
        stop: usize,
        trims: Vec<(bool, i64)>,
        special_spaces: HashMap<u32, (i64, i64)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let trims = Trims { trims, special_spaces, decoder: self.core.decoder() };
        let ids = if trims.is_empty() { Vec::new() } else { with_ids(ids, Collect)? };
        with_ids(offsets, OffsetPairs { py: offsets.py(), numbers: &self.numbers, ids, start, stop, trims })?
    }

    fn word_numbers<'py>(
        &self,
        splitter: &Splitter,
        ids: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = ids.py();
        let (vocab, decoder) = (self.core.vocab(), self.core.decoder());
        let work = WordNumbers { vocab, decoder, splitter: &splitter.0 };
        self.numbers.list(py, &with_ids(ids, work)?.into_python(py)?)
    }

    fn memory(&self) -> BTreeMap<&'static str, usize> {
        self.core.memory().into_iter().collect()
    }
}

impl Bpe {
    pub fn core(&self) -> &Arc<encode::Bpe> {
        &self.core
    }

    /// The rules under which these special tokens become ids and the others are text.
    pub fn allowing(&self, special: &Bound<'_, PyAny>) -> PyResult<Rules> {
        let allowed = Names::new(special, "allowed_special")?;
        self.core.rules(allowed.named(), Named::These(&[])).into_python(special.py())
    }

    fn rules<'a>(
        &'a self,
        allowed: &Bound<'_, PyAny>,
        disallowed: &Bound<'_, PyAny>,
    ) -> PyResult<CallRules<'a>> {
        let allowed = Names::new(allowed, "allowed_special")?;
        let disallowed = Names::new(disallowed, "disallowed_special")?;
        match (&allowed, &disallowed) {
            (Names::None, Names::All) => Ok(CallRules::Kept(&self.strict)),
            (Names::All, Names::All | Names::None) => Ok(CallRules::Kept(&self.free)),
            (Names::None, Names::None) => Ok(CallRules::Kept(&self.ordinary)),
            _ => {
                let rules = self.core.rules(allowed.named(), disallowed.named());
                Ok(CallRules::Own(Python::attach(|py| rules.into_python(py))?))
            }
        }
    }

    fn encode_all(
        &self,
        py: Python<'_>,
        texts: &[&[u8]],
        rules: &Rules,
        threads: usize,
    ) -> PyResult<(Array, Array)> {
        let small = texts.iter().map(|text| text.len()).sum::<usize>() <= MOMENT;
        let offsets = |ends: Vec<usize>| -> Array {
            std::iter::once(0).chain(ends.into_iter().map(|end| end as i64)).collect::<Vec<i64>>().into()
        };
        if self.core.is_wide() {
            let batch = attentive(py, small, |w| self.core.encode_batch::<u32>(texts, rules, threads, w))?;
            Ok((batch.ids.into(), offsets(batch.ends)))
        } else {
            let batch = attentive(py, small, |w| self.core.encode_batch::<u16>(texts, rules, threads, w))?;
            Ok((batch.ids.into(), offsets(batch.ends)))
        }
    }

    fn narrowed(&self, ids: Vec<u32>) -> Array {
        if self.core.is_wide() {
            ids.into()
        } else {
            ids.into_iter().map(|id| id as u16).collect::<Vec<u16>>().into()
        }
    }
}

/// Special tokens as a caller names them.
enum Names {
    All,
    None,
    These(Vec<String>),
}

impl Names {
    fn new(object: &Bound<'_, PyAny>, argument: &str) -> PyResult<Names> {
        if let Ok(text) = object.cast::<PyString>() {
            if text == "all" {
                return Ok(Names::All);
            }
            let error = Error::config(format!("`{argument}` is the string `{text}`, not `all` or a set"))
                .hint(format!("pass `{{\"{text}\"}}`"));
            return Err(error).into_python(object.py());
        }
        if object.len().is_ok_and(|len| len == 0) {
            return Ok(Names::None);
        }
        let names = object.try_iter()?.map(|name| name?.extract()).collect::<PyResult<Vec<String>>>()?;
        Ok(if names.is_empty() { Names::None } else { Names::These(names) })
    }

    fn named(&self) -> Named<'_> {
        match self {
            Names::All => Named::All,
            Names::None => Named::These(&[]),
            Names::These(names) => Named::These(names),
        }
    }
}
