//! Token → id: an open-addressed table of ids, compared with the bytes the vocab keeps.

use std::hash::{BuildHasher, RandomState};

use super::Tokens;
use crate::hash::{SHORT_MAX, hash_bytes, hash_key, short_key, slot_of};

/// `slots` has a power of two of entries, at most half of them used: the low half of an entry is 1 + an id, the high
/// half is that of the token's hash, which keeps most look-ups of what is no token away from the bytes. 0 is free.
pub struct TokenIds {
    slots: Vec<u64>,
    /// Takes over where somebody chose tokens that all have the same hash.
    keyed: Option<RandomState>,
}

/// Slots in a row that only chosen tokens fill: with half of them free, a million tokens of the world fill 60 or so.
const LONGEST_ROW: usize = 1024;
const TAG: u64 = 0xFFFF_FFFF_0000_0000;

impl TokenIds {
    pub fn with_capacity(tokens: usize) -> Self {
        TokenIds { slots: vec![0; (tokens * 2).next_power_of_two().max(16)], keyed: None }
    }

    /// The id that spells the same bytes already, if there is one.
    pub fn insert(&mut self, tokens: &Tokens, id: u32) -> Option<u32> {
        let wanted = self.wanted_id(tokens, id);
        match self.find(&tokens.text, &tokens.ends, &wanted) {
            Ok(known) => Some(known),
            Err(free) => {
                let tag = wanted.tag();
                let row = free.wrapping_sub(slot_of(wanted.hash, self.slots.len())) & (self.slots.len() - 1);
                self.slots[free] = tag | u64::from(id + 1);
                if row > LONGEST_ROW && self.keyed.is_none() {
                    self.key(tokens);
                }
                None
            }
        }
    }

    /// Put every token where a secret hash says.
    fn key(&mut self, tokens: &Tokens) {
        self.keyed = Some(RandomState::new());
        let slots = vec![0; self.slots.len()];
        for found in std::mem::replace(&mut self.slots, slots).into_iter().filter(|&found| found != 0) {
            self.insert(tokens, found as u32 - 1);
        }
    }

    #[inline]
    pub fn get(&self, text: &[u8], ends: &[u32], bytes: &[u8]) -> Option<u32> {
        self.get_within(text, ends, bytes, 0, bytes.len())
    }

    /// The id of `within[start..start + len]`: quicker than [`TokenIds::get`] where more bytes follow.
    #[inline]
    pub fn get_within(
        &self,
        text: &[u8],
        ends: &[u32],
        within: &[u8],
        start: usize,
        len: usize,
    ) -> Option<u32> {
        self.find(text, ends, &self.wanted(within, start, len)).ok()
    }

    #[inline]
    fn find(&self, text: &[u8], ends: &[u32], wanted: &Wanted<'_>) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut at = slot_of(wanted.hash, self.slots.len());
        loop {
            match self.slots[at & mask] {
                0 => return Err(at & mask),
                found if found & TAG == wanted.tag() && wanted.is(text, ends, found as u32 - 1) => {
                    return Ok(found as u32 - 1);
                }
                _ => at += 1,
            }
        }
    }

    fn wanted_id<'t>(&self, tokens: &'t Tokens, id: u32) -> Wanted<'t> {
        let len = tokens.get(id).len();
        self.wanted(&tokens.text, tokens.ends[id as usize] as usize - len, len)
    }

    #[inline]
    fn wanted<'w>(&self, within: &'w [u8], start: usize, len: usize) -> Wanted<'w> {
        let bytes = &within[start..start + len];
        let key = if (1..=SHORT_MAX).contains(&len) { short_key(within, start, len) } else { 0 };
        let hash = match &self.keyed {
            Some(state) => state.hash_one(bytes),
            None if key != 0 => hash_key(key),
            None => hash_bytes(bytes),
        };
        Wanted { bytes, key, hash }
    }

    pub fn memory(&self) -> usize {
        self.slots.len() * 8
    }
}

/// Bytes looked for, with what is known of them.
struct Wanted<'a> {
    bytes: &'a [u8],
    /// Of short ones, 0 for others.
    key: u128,
    hash: u64,
}

impl Wanted<'_> {
    /// The slot follows the high bits of the hash, so the low half tells more.
    #[inline]
    fn tag(&self) -> u64 {
        self.hash << 32
    }

    #[inline]
    fn is(&self, text: &[u8], ends: &[u32], id: u32) -> bool {
        let end = ends[id as usize] as usize;
        let start = if id == 0 { 0 } else { ends[id as usize - 1] as usize };
        if end - start != self.bytes.len() {
            return false;
        }
        match self.key {
            0 => &text[start..end] == self.bytes,
            key => short_key(text, start, end - start) == key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SEED;

    #[test]
    fn chosen_tokens_of_one_hash_do_not_fill_one_row() {
        let mut tokens = Tokens::default();
        let mut ids = TokenIds::with_capacity(40_000);
        for id in 0..20_000u32 {
            // Eight bytes that cancel the seed, so that the product is 0 whatever follows.
            let mut token = SEED[0].to_le_bytes().to_vec();
            token.extend_from_slice(&id.to_be_bytes());
            tokens.push(&token).unwrap();
            assert_eq!(ids.insert(&tokens, id), None);
        }
        assert!(ids.keyed.is_some());
        for id in 0..20_000 {
            let token = tokens.get(id);
            assert_eq!(ids.get(&tokens.text, &tokens.ends, token), Some(id));
            assert_eq!(ids.get(&tokens.text, &tokens.ends, &token[..11]), None);
        }
        let again = tokens.len() as u32;
        let seventh = tokens.get(7).to_vec();
        tokens.push(&seventh).unwrap();
        assert_eq!(ids.insert(&tokens, again), Some(7));
    }

    #[test]
    fn tokens_of_any_length_are_found() {
        let mut tokens = Tokens::default();
        let mut ids = TokenIds::with_capacity(100);
        for len in 1..100usize {
            tokens.push(&vec![b'a'; len]).unwrap();
            assert_eq!(ids.insert(&tokens, len as u32 - 1), None);
        }
        let text = vec![b'a'; 200];
        for len in 1..100 {
            assert_eq!(ids.get(&tokens.text, &tokens.ends, &text[..len]), Some(len as u32 - 1));
            assert_eq!(ids.get_within(&tokens.text, &tokens.ends, &text, 3, len), Some(len as u32 - 1));
        }
        assert_eq!(ids.get(&tokens.text, &tokens.ends, &text[..100]), None);
        assert_eq!(ids.get(&tokens.text, &tokens.ends, b""), None);
    }
}
