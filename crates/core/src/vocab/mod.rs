//! Tokens by id, merges in rank order, special tokens: what a tokenizer knows, checked once and never changed.
//!
//! Tokens lie end to end in one allocation. Ids run from 0; an id that no token has (cl100k leaves some out between
//! its special tokens) has no bytes and stands above every ordinary token. Every single byte is an ordinary token, no
//! two ordinary tokens spell the same bytes, and each merge joins two ordinary tokens to the one they spell.
//!
//! Three ways lead here: values ([`Vocab::new`]), tiktoken's ranks ([`ranks`]) and the two long parts of a
//! tokenizer.json ([`tokenizer_json`], [`huggingface`]). All of them end in the same checks.

pub mod huggingface;
mod merging;
mod origin;
mod ranks;
mod token_ids;
mod tokenizer_json;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::train::{Pair, PairMap};
use merging::UsedMerges;
use origin::{Origin, show};
use token_ids::TokenIds;

/// More than one merge out of order in so many is an accident.
const UNORDERED_ONE_IN: usize = 100;

/// (left id, right id, joined id)
pub type Merge = (u32, u32, u32);

pub struct Vocab {
    text: Vec<u8>,
    /// Where each token ends in `text`; it starts where the one before it ends.
    ends: Vec<u32>,
    merges: Vec<Merge>,
    /// By id.
    special_tokens: Vec<(String, u32)>,
    ignore_merges: bool,
    byte_ids: [u32; 256],
    /// Ordinary tokens only.
    ids: TokenIds,
    /// Found when first asked for.
    used: OnceLock<UsedMerges>,
}

/// Tokens end to end, for those who make a [`Vocab`].
#[derive(Default)]
pub struct Tokens {
    text: Vec<u8>,
    ends: Vec<u32>,
}

impl Tokens {
    /// The next id spells `token`; an empty one leaves the id without a token.
    pub fn push(&mut self, token: &[u8]) -> Result<()> {
        self.text.extend_from_slice(token);
        let end = u32::try_from(self.text.len()).ok().filter(|_| self.ends.len() < u32::MAX as usize / 2);
        self.ends.push(end.ok_or_else(|| Error::vocab("the tokens of the vocab take more than 4 GB"))?);
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn get(&self, id: u32) -> &[u8] {
        slice(&self.text, &self.ends, id)
    }
}

#[inline]
fn slice<'a>(text: &'a [u8], ends: &[u32], id: u32) -> &'a [u8] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &text[start as usize..ends[id] as usize]
}

impl Vocab {
    /// `ignore_merges`: a pretoken that is a token becomes its id, whether merges lead to it or not.
    pub fn new(
        tokens: Tokens,
        merges: Vec<Merge>,
        special_tokens: &HashMap<String, u32>,
        ignore_merges: bool,
    ) -> Result<Self> {
        Vocab::of_tokens(tokens, special_tokens, &Origin::Caller)?.with_merges(
            merges,
            ignore_merges,
            &Origin::Caller,
        )
    }

    /// A vocab without merges so far: everything else is checked.
    fn of_tokens(tokens: Tokens, special_tokens: &HashMap<String, u32>, origin: &Origin) -> Result<Self> {
        let special_tokens = check_special_tokens(&tokens, special_tokens, origin)?;
        let ids = index_ordinary(&tokens, &special_tokens, origin)?;
        let mut byte_ids = [0; 256];
        let mut missing = Vec::new();
        for byte in 0..=255u8 {
            match ids.get(&tokens.text, &tokens.ends, &[byte]) {
                Some(id) => byte_ids[byte as usize] = id,
                None => missing.push(byte),
            }
        }
        if let Some(first) = missing.first() {
            let more = match missing.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let message = format!("{} has no token for byte 0x{first:02x}{more}", origin.tokens());
            return Err(origin
                .error(message)
                .hint("a byte-level vocab holds each of the 256 bytes as an ordinary token"));
        }
        let Tokens { text, ends } = tokens;
        let (merges, used) = (Vec::new(), OnceLock::new());
        Ok(Vocab { text, ends, merges, special_tokens, ignore_merges: false, byte_ids, ids, used })
    }

    fn with_merges(mut self, merges: Vec<Merge>, ignore_merges: bool, origin: &Origin) -> Result<Self> {
        let mut ranks: PairMap<u32> = PairMap::with_capacity_and_hasher(merges.len(), Default::default());
        for (rank, &merge) in merges.iter().enumerate() {
            self.check_merge(rank, merge, origin)?;
            let (left, right, _) = merge;
            if let Some(first) = ranks.insert(Pair::new(left, right), rank as u32) {
                let joins = self.joins(rank, merge, origin);
                let message = format!("{joins}, as {} does already", origin.merge(first as usize));
                return Err(origin.error(message));
            }
        }
        self.merges = merges;
        self.ignore_merges = ignore_merges;
        Ok(self)
    }

    fn check_merge(&self, rank: usize, merge: Merge, origin: &Origin) -> Result<()> {
        let (left, right, joined) = merge;
        if let Some(unknown) = [left, right, joined].into_iter().find(|&id| id as usize >= self.size()) {
            let last = self.size().saturating_sub(1);
            let merge = origin.merge(rank);
            return Err(origin.error(format!("{merge} names id {unknown}, but ids run from 0 to {last}")));
        }
        let (left_bytes, right_bytes, bytes) = (self.token(left), self.token(right), self.token(joined));
        let spells = !left_bytes.is_empty()
            && !right_bytes.is_empty()
            && bytes.len() == left_bytes.len() + right_bytes.len()
            && bytes.starts_with(left_bytes)
            && bytes.ends_with(right_bytes);
        if !spells {
            let joins = self.joins(rank, merge, origin);
            return Err(origin.error(format!("{joins} into id {joined}, which spells {}", show(bytes))));
        }
        match [left, right, joined].into_iter().find(|&id| self.is_special(id)) {
            Some(special) => {
                let (joins, special) = (self.joins(rank, merge, origin), show(self.token(special)));
                Err(origin.error(format!("{joins}, but {special} is a special token")))
            }
            None => Ok(()),
        }
    }

    fn joins(&self, rank: usize, (left, right, _): Merge, origin: &Origin) -> String {
        origin.joins(rank, self.token(left), self.token(right))
    }

    /// Number of ids, those without a token included.
    pub fn size(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of an id below [`Vocab::size`]; empty for one that no token has.
    #[inline]
    pub fn token(&self, id: u32) -> &[u8] {
        slice(&self.text, &self.ends, id)
    }

    /// The ordinary token that spells `bytes`.
    #[inline]
    pub fn token_id(&self, bytes: &[u8]) -> Option<u32> {
        self.ids.get(&self.text, &self.ends, bytes)
    }

    /// The token of every single byte, wherever its layout put it.
    pub fn byte_ids(&self) -> &[u32; 256] {
        &self.byte_ids
    }

    pub fn merges(&self) -> &[Merge] {
        &self.merges
    }

    /// Spelling and id of each special token, by id.
    pub fn special_tokens(&self) -> &[(String, u32)] {
        &self.special_tokens
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.special_tokens.binary_search_by_key(&id, |(_, id)| *id).is_ok()
    }

    pub fn ignore_merges(&self) -> bool {
        self.ignore_merges
    }

    /// Ids of ordinary tokens to which merges do not lead from their own bytes.
    pub fn unreachable(&self) -> &[u32] {
        &self.used().unreachable
    }

    /// Ranks of the merges that apply to some text: the one that makes each token that can be made ([`merging`] says
    /// why it is one). All others could be left out.
    pub fn used_merges(&self) -> &[u32] {
        &self.used().ranks
    }

    fn used(&self) -> &UsedMerges {
        self.used.get_or_init(|| merging::used_merges(self))
    }

    /// The first merge that comes before one that makes a part of it, where there are too many of them to be meant.
    ///
    /// Files that list every way to split a token hold many such merges, but for each token one in order; and a
    /// published vocab may have a few tokens without one (Llama 3: 107). A file that somebody sorted has many.
    pub fn unordered_merge(&self) -> Option<usize> {
        let mut made = vec![false; self.size()];
        self.byte_ids.iter().for_each(|&id| made[id as usize] = true);
        let mut waiting = Vec::new();
        for (rank, &(left, right, joined)) in self.merges.iter().enumerate() {
            if made[left as usize] && made[right as usize] {
                made[joined as usize] = true;
            } else if !made[joined as usize] {
                waiting.push(rank);
            }
        }
        waiting.retain(|&rank| !made[self.merges[rank].2 as usize]);
        let first = *waiting.first()?;
        (waiting.len().saturating_mul(UNORDERED_ONE_IN) > self.merges.len()).then_some(first)
    }

    /// Bytes this vocab occupies.
    pub fn memory(&self) -> usize {
        self.text.len() + self.ends.len() * 4 + self.merges.len() * 12 + self.ids.memory()
    }
}

impl PartialEq for Vocab {
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends
            && self.text == other.text
            && self.merges == other.merges
            && self.special_tokens == other.special_tokens
            && self.ignore_merges == other.ignore_merges
    }
}

impl Eq for Vocab {}

/// By id. Each must be what its id spells.
fn check_special_tokens(
    tokens: &Tokens,
    special_tokens: &HashMap<String, u32>,
    origin: &Origin,
) -> Result<Vec<(String, u32)>> {
    let mut placed: Vec<(String, u32)> =
        special_tokens.iter().map(|(text, &id)| (text.clone(), id)).collect();
    placed.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
    let place = origin.special_tokens();
    for (text, id) in &placed {
        if text.is_empty() {
            return Err(origin.error(format!("{place}a special token is the empty string")));
        }
        let found = if (*id as usize) < tokens.len() { tokens.get(*id) } else { &[] };
        if found != text.as_bytes() {
            let found = show(found);
            return Err(
                origin.error(format!("{place}special token `{text}` has id {id}, which spells {found}"))
            );
        }
    }
    Ok(placed)
}

/// Ordinary tokens by their bytes. None may spell what another does, and no id below one may be without a token.
fn index_ordinary(tokens: &Tokens, special_tokens: &[(String, u32)], origin: &Origin) -> Result<TokenIds> {
    let mut ids = TokenIds::with_capacity(tokens.len());
    let mut specials = special_tokens.iter().map(|(_, id)| *id).peekable();
    let (mut hole, mut last) = (None, 0);
    for id in 0..tokens.len() as u32 {
        if specials.next_if_eq(&id).is_some() {
            continue;
        }
        if tokens.get(id).is_empty() {
            hole = hole.or(Some(id));
            continue;
        }
        last = id;
        if let Some(first) = ids.insert(tokens, id) {
            return Err(origin.spelled_twice(first, id, tokens.get(id)));
        }
    }
    match hole {
        Some(hole) if hole < last => {
            let number =
                tokens.len() - (0..tokens.len() as u32).filter(|&id| tokens.get(id).is_empty()).count();
            Err(origin.hole(number, last, hole))
        }
        _ => Ok(ids),
    }
}

/// Tokens by id from what a file says about ordinary ones, in any order, with special tokens put in their places.
///
/// Special tokens may leave ids out, but not so many that a small file takes much memory.
fn assemble(
    mut ordinary: Vec<(u32, &[u8])>,
    special_tokens: &HashMap<String, u32>,
    origin: &Origin,
) -> Result<Tokens> {
    let mut all: Vec<(u32, &[u8], bool)> = Vec::with_capacity(ordinary.len() + special_tokens.len());
    all.extend(ordinary.drain(..).map(|(id, token)| (id, token, false)));
    all.extend(special_tokens.iter().map(|(text, &id)| (id, text.as_bytes(), true)));
    all.sort_by_key(|(id, _, special)| (*id, *special));
    let last = all.iter().rev().find(|(_, _, special)| !special).map_or(0, |(id, _, _)| *id);
    let most = all.len().saturating_mul(2).max(1 << 16);
    let mut tokens = Tokens::default();
    for index in 0..all.len() {
        let (id, token, special) = all[index];
        if index > 0 && all[index - 1].0 == id {
            return Err(origin.id_given_twice(id, all[index - 1].1, token, special));
        }
        if (tokens.len() as u32) < id {
            if id <= last {
                return Err(origin.hole(all.len(), last, tokens.len() as u32));
            }
            if id as usize >= most {
                let (place, text) = (origin.special_tokens(), show(token));
                let message = format!("{place}special token {text} has id {id}, far above all others");
                return Err(origin.error(message));
            }
            while (tokens.len() as u32) < id {
                tokens.push(&[])?;
            }
        }
        tokens.push(token)?;
    }
    Ok(tokens)
}
