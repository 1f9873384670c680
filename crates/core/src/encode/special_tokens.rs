//! Special tokens in a text: which become ids, which are an error, which are text like any other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::{Error, Result};
use crate::vocab::Vocab;

/// Sets of special tokens that a search was built for are kept, up to this many.
const KEPT_SEARCHES: usize = 64;

pub struct SpecialTokens {
    tokens: Vec<(String, u32)>,
    index_of: HashMap<String, usize>,
    searches: Mutex<HashMap<Vec<usize>, Arc<Search>>>,
    all: Option<Arc<Search>>,
}

/// Looks for some of the special tokens: `tokens[i]` is what its pattern `i` is.
struct Search {
    finder: AhoCorasick,
    tokens: Vec<usize>,
}

/// Special tokens named by a caller.
pub enum Named<'a> {
    All,
    These(&'a [String]),
}

/// What to do with special tokens in one call.
pub struct Rules {
    search: Option<Arc<Search>>,
    /// For each special token, whether it becomes its id; one that is found and does not is an error.
    allowed: Vec<bool>,
    /// Bytes of the text that came before what is looked at, for messages.
    pub(super) bytes_before: usize,
}

impl Rules {
    /// Every special token is text.
    pub fn ordinary() -> Rules {
        Rules { search: None, allowed: Vec::new(), bytes_before: 0 }
    }
}

/// An occurrence of a special token.
pub struct Found {
    pub start: usize,
    pub end: usize,
    pub id: u32,
}

impl SpecialTokens {
    pub fn new(vocab: &Vocab) -> Result<Self> {
        let tokens = vocab.special_tokens().to_vec();
        if let Some((_, id)) = tokens.iter().find(|(text, _)| text.is_empty()) {
            return Err(Error::vocab(format!("special token {id} is the empty string")));
        }
        let index_of = tokens.iter().enumerate().map(|(index, (text, _))| (text.clone(), index)).collect();
        let mut special = SpecialTokens { tokens, index_of, searches: Mutex::new(HashMap::new()), all: None };
        if !special.tokens.is_empty() {
            special.all = Some(Arc::new(special.build((0..special.tokens.len()).collect())?));
        }
        Ok(special)
    }

    /// The rules for `allowed` (become ids) and `disallowed` (an error when found; all means all that are not
    /// allowed). One that is in both is an error when found, one in neither is text.
    pub fn rules(&self, allowed: Named<'_>, disallowed: Named<'_>) -> Result<Rules> {
        let every = self.tokens.len();
        let mut may = vec![matches!(allowed, Named::All); every];
        for name in allowed.names() {
            may[self.index(name)?] = true;
        }
        let mut wanted: Vec<usize> = match disallowed {
            Named::All => (0..every).collect(),
            Named::These(names) => {
                let mut wanted = (0..every).filter(|&index| may[index]).collect::<Vec<_>>();
                for name in names {
                    let index = self.index(name)?;
                    may[index] = false;
                    wanted.push(index);
                }
                wanted
            }
        };
        wanted.sort_unstable();
        wanted.dedup();
        Ok(Rules { search: self.search(wanted)?, allowed: may, bytes_before: 0 })
    }

    fn index(&self, name: &str) -> Result<usize> {
        self.index_of.get(name).copied().ok_or_else(|| {
            let known: Vec<_> = self.tokens.iter().take(8).map(|(text, _)| format!("`{text}`")).collect();
            let more = if self.tokens.len() > 8 { ", …" } else { "" };
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") + more };
            Error::vocab(format!("`{name}` is not a special token of this tokenizer"))
                .hint(format!("it has {known}"))
        })
    }

    fn search(&self, wanted: Vec<usize>) -> Result<Option<Arc<Search>>> {
        if wanted.is_empty() {
            return Ok(None);
        }
        if wanted.len() == self.tokens.len() {
            return Ok(self.all.clone());
        }
        // A lock that a fork left behind, or that another thread holds, only means building it again.
        if let Ok(kept) = self.searches.try_lock()
            && let Some(search) = kept.get(&wanted)
        {
            return Ok(Some(search.clone()));
        }
        let search = Arc::new(self.build(wanted.clone())?);
        if let Ok(mut kept) = self.searches.try_lock() {
            if kept.len() >= KEPT_SEARCHES {
                kept.clear();
            }
            kept.insert(wanted, search.clone());
        }
        Ok(Some(search))
    }

    fn build(&self, wanted: Vec<usize>) -> Result<Search> {
        let texts = wanted.iter().map(|&index| &self.tokens[index].0);
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
        let finder =
            finder.map_err(|e| Error::config(format!("special tokens cannot be searched for: {e}")))?;
        Ok(Search { finder, tokens: wanted })
    }

    /// Occurrences in `text[from..to]` that become ids, from left to right, the longest where several start. Error
    /// at one that is not allowed.
    pub fn find<'a>(
        &'a self,
        rules: &'a Rules,
        text: &'a [u8],
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = Result<Found>> + 'a {
        let found = rules.search.as_ref().map(|search| search.finder.find_iter(&text[from..to]));
        found.into_iter().flatten().map(move |found| {
            let search = rules.search.as_ref().expect("something was found");
            let index = search.tokens[found.pattern().as_usize()];
            let (token, id) = &self.tokens[index];
            if rules.allowed[index] {
                Ok(Found { start: from + found.start(), end: from + found.end(), id: *id })
            } else {
                Err(not_allowed(token, rules.bytes_before + from + found.start()))
            }
        })
    }

    /// Add up how often each occurs in `text` without becoming an id.
    pub fn count_lookalikes(&self, text: &[u8], rules: &Rules, counts: &mut [u64]) {
        if let Some(search) = &self.all {
            for found in search.finder.find_iter(text) {
                let index = search.tokens[found.pattern().as_usize()];
                counts[index] += u64::from(!rules.allowed.get(index).copied().unwrap_or(false));
            }
        }
    }

    /// Those that occur in `text`, in order of appearance, without repeats.
    pub fn occurring(&self, text: &[u8]) -> Vec<&str> {
        let mut seen = vec![false; self.tokens.len()];
        let mut names = Vec::new();
        if let Some(search) = &self.all {
            for found in search.finder.find_iter(text) {
                let index = search.tokens[found.pattern().as_usize()];
                if !std::mem::replace(&mut seen[index], true) {
                    names.push(self.tokens[index].0.as_str());
                }
            }
        }
        names
    }
}

impl<'a> Named<'a> {
    fn names(&self) -> &'a [String] {
        match self {
            Named::All => &[],
            Named::These(names) => names,
        }
    }
}

fn not_allowed(token: &str, at: usize) -> Error {
    Error::vocab(format!(
        "the text contains the special token `{token}` at byte {at}, which is not allowed here"
    ))
    .hint(format!(
        "pass `allowed_special={{\"{token}\"}}` to make it an id, or use `encode_ordinary` to treat it as text"
    ))
}
