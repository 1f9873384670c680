//! A vocab that encodes and decodes: text ⇄ token ids.

mod pretoken;

use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::{Error, Result};
use crate::pretokenize::{Sink, Splitter};
use crate::train::Pair;
use pretoken::MergeRanks;

/// `tokens[id]` is the bytes of every id. Immutable once built.
pub struct Bpe {
    tokens: Vec<Vec<u8>>,
    byte_ids: [u32; 256],
    ranks: MergeRanks,
    special_ids: HashMap<String, u32>,
    splitter: Arc<Splitter>,
}

impl Bpe {
    pub fn new(
        tokens: Vec<Vec<u8>>,
        merges: &[(u32, u32, u32)],
        special_ids: HashMap<String, u32>,
        splitter: Arc<Splitter>,
    ) -> Result<Self> {
        let special: HashMap<u32, &str> = special_ids.iter().map(|(text, &id)| (id, text.as_str())).collect();
        if special.len() != special_ids.len() {
            return Err(Error::vocab("two special tokens share an id"));
        }
        for (&id, text) in &special {
            if tokens.get(id as usize).is_none_or(|bytes| bytes != text.as_bytes()) {
                return Err(Error::vocab(format!("special token `{text}` is not what id {id} spells")));
            }
        }
        let byte_ids = find_bytes(&tokens, &special)?;
        check_merges(&tokens, merges)?;
        let ranks = MergeRanks::new(merges)?;
        Ok(Bpe { tokens, byte_ids, ranks, special_ids, splitter })
    }

    pub fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    /// Token ids of `text`. Special tokens in `allowed` become their ids, all others are ordinary text.
    pub fn encode(&self, text: &[u8], allowed: &[String]) -> Result<Vec<u32>> {
        let mut sink = EncodeSink { bpe: self, ids: Vec::with_capacity(text.len() / 3) };
        let mut start = 0;
        if !allowed.is_empty() {
            for (from, to, special) in self.occurrences(text, allowed)? {
                self.splitter.split_range(text, start, from, &mut sink)?;
                sink.ids.push(self.special_ids[special]);
                start = to;
            }
        }
        self.splitter.split_range(text, start, text.len(), &mut sink)?;
        Ok(sink.ids)
    }

    /// Where special tokens of `wanted` stand in `text`: the longest wins where several start.
    fn occurrences<'w>(&self, text: &[u8], wanted: &'w [String]) -> Result<Vec<(usize, usize, &'w str)>> {
        if let Some(unknown) = wanted.iter().find(|special| !self.special_ids.contains_key(*special)) {
            return Err(Error::vocab(format!("`{unknown}` is not a special token of this tokenizer")));
        }
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(wanted);
        let finder =
            finder.map_err(|e| Error::config(format!("special tokens cannot be searched for: {e}")))?;
        let found = finder.find_iter(text);
        Ok(found.map(|m| (m.start(), m.end(), wanted[m.pattern().as_usize()].as_str())).collect())
    }

    /// Special tokens that occur in `text`, in order of appearance, without repeats.
    pub fn find_special(&self, text: &[u8]) -> Result<Vec<String>> {
        let mut all: Vec<String> = self.special_ids.keys().cloned().collect();
        all.sort();
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let mut found: Vec<String> = Vec::new();
        for (_, _, special) in self.occurrences(text, &all)? {
            if !found.iter().any(|f| f == special) {
                found.push(special.to_owned());
            }
        }
        Ok(found)
    }

    pub fn decode(&self, ids: impl IntoIterator<Item = u32>) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        for id in ids {
            let bytes = self.tokens.get(id as usize).ok_or_else(|| {
                Error::vocab(format!("token id {id} is not below the vocab size {}", self.tokens.len()))
            })?;
            text.extend_from_slice(bytes);
        }
        Ok(text)
    }

    /// Ids that encoding their own bytes as one pretoken does not give back, special tokens aside.
    pub fn unreachable(&self) -> Vec<u32> {
        let mut out = Vec::new();
        let special: std::collections::HashSet<u32> = self.special_ids.values().copied().collect();
        let reached = |id: u32, out: &mut Vec<u32>| {
            out.clear();
            self.ranks.encode(&self.tokens[id as usize], &self.byte_ids, out);
            *out == [id]
        };
        (0..self.tokens.len() as u32).filter(|id| !special.contains(id) && !reached(*id, &mut out)).collect()
    }
}

struct EncodeSink<'a> {
    bpe: &'a Bpe,
    ids: Vec<u32>,
}

impl Sink for EncodeSink<'_> {
    fn pretoken(&mut self, text: &[u8], start: usize, end: usize) {
        self.bpe.ranks.encode(&text[start..end], &self.bpe.byte_ids, &mut self.ids);
    }
}

/// The id of every single byte, wherever a foreign layout put it.
fn find_bytes(tokens: &[Vec<u8>], special: &HashMap<u32, &str>) -> Result<[u32; 256]> {
    let mut seen: HashMap<&[u8], u32> = HashMap::with_capacity(tokens.len());
    let mut byte_ids = [u32::MAX; 256];
    for (id, bytes) in tokens.iter().enumerate() {
        let id = id as u32;
        if special.contains_key(&id) {
            continue;
        }
        if bytes.is_empty() {
            return Err(Error::vocab(format!("token {id} is empty")));
        }
        if let Some(first) = seen.insert(bytes, id) {
            let shown = String::from_utf8_lossy(bytes);
            return Err(Error::vocab(format!("tokens {first} and {id} are both `{shown}`")));
        }
        if let [byte] = bytes[..] {
            byte_ids[byte as usize] = id;
        }
    }
    match byte_ids.iter().position(|&id| id == u32::MAX) {
        Some(byte) => Err(Error::vocab(format!("byte 0x{byte:02X} has no token of its own"))),
        None => Ok(byte_ids),
    }
}

fn check_merges(tokens: &[Vec<u8>], merges: &[(u32, u32, u32)]) -> Result<()> {
    let mut seen = std::collections::HashSet::with_capacity(merges.len());
    for (rank, &(left, right, joined)) in merges.iter().enumerate() {
        let token = |id: u32| {
            tokens.get(id as usize).ok_or_else(|| {
                Error::vocab(format!("merge {rank} names id {id}, but the vocab has {} tokens", tokens.len()))
            })
        };
        let (left_bytes, right_bytes, bytes) = (token(left)?, token(right)?, token(joined)?);
        let spells = bytes.len() == left_bytes.len() + right_bytes.len()
            && bytes.starts_with(left_bytes)
            && bytes.ends_with(right_bytes);
        if !spells {
            return Err(Error::vocab(format!(
                "merge {rank} joins ids {left} and {right}, which do not spell id {joined}"
            )));
        }
        if !seen.insert(Pair::new(left, right)) {
            return Err(Error::vocab(format!(
                "merge {rank} joins ids {left} and {right}, as an earlier one does"
            )));
        }
    }
    Ok(())
}
