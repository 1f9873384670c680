//! Where a pretoken can be cut because no token of the vocab reaches across: Chinese and Japanese sentences, which are
//! one pretoken each, become pieces that repeat.
//!
//! A merge across a border makes a token that holds the last byte before it and the first byte after it. If no token
//! has the two characters side by side, nothing merges there, and what is left and right of it is encoded alone.
//! A yes may be wrong (the set is hashed), a no never is.

use super::merge_ranks::{MergeRanks, NO_MERGE};
use crate::hash::{SEED, fold};
use crate::unicode::decode;
use crate::vocab::Vocab;

/// In [`Borders::characters`]: merging starts from the bytes of this character.
const NO_TOKEN: u32 = u32::MAX;

pub struct Borders {
    /// The token of each character of the basic plane that merging may start from, where no token ends inside it or its
    /// neighbours: that leaves a third of the merges of Chinese text.
    characters: Vec<u32>,
    /// One bit for each hash of two neighbouring characters in a token; a power of two of bits.
    pairs: Vec<u64>,
    /// One bit for each (last byte, first byte) where a token starts or ends inside one of the two characters.
    bytes: Vec<u64>,
}

impl Borders {
    pub fn new(vocab: &Vocab, ranks: &MergeRanks) -> Self {
        let tokens = || (0..vocab.size() as u32).map(|id| vocab.token(id)).filter(|token| !token.is_ascii());
        let borders = |token: &[u8]| (1..token.len()).filter(|&at| starts(token[at])).count();
        // Sixteen bits for each pair: one question in sixteen gets a needless yes, and the set stays in the cache.
        let words = (tokens().map(borders).sum::<usize>() / 4).next_power_of_two().max(16);
        let characters = vec![NO_TOKEN; 1 << 16];
        let mut borders = Borders { characters, pairs: vec![0; words], bytes: vec![0; 1 << 10] };
        for token in tokens() {
            for at in (1..token.len()).filter(|&at| starts(token[at])) {
                match (character_before(token, at), decode(&token[at..])) {
                    (Some(left), Some((right, _))) => {
                        let bit = borders.bit_of(left, right);
                        borders.pairs[bit / 64] |= 1 << (bit % 64);
                    }
                    _ => {
                        let bit = usize::from(token[at - 1]) << 8 | usize::from(token[at]);
                        borders.bytes[bit / 64] |= 1 << (bit % 64);
                    }
                }
            }
        }
        borders.find_characters(vocab, ranks);
        borders
    }

    /// Let merging start from characters. A character may be merged ahead of its turn if it becomes one token by itself
    /// and no merge that takes it up comes before the merges that make it: whatever is chosen while it is still in
    /// the making then ranks before those, too.
    fn find_characters(&mut self, vocab: &Vocab, ranks: &MergeRanks) {
        let mut first_use = vec![NO_MERGE; vocab.size()];
        for (rank, &(left, right, _)) in vocab.merges().iter().enumerate().rev() {
            first_use[left as usize] = rank as u32;
            first_use[right as usize] = rank as u32;
        }
        for id in 0..vocab.size() as u32 {
            let token = vocab.token(id);
            if let Some((character @ 0x80..=0xFFFF, len)) = decode(token)
                && len == token.len()
                && !vocab.is_special(id)
                && let Some((made, last)) = merge_alone(vocab, ranks, token)
                && made == id
                && last < first_use[id as usize]
            {
                self.characters[character as usize] = id;
            }
        }
    }

    /// Write the tokens that merging `bytes` may start from into `ids`, and return how many they are.
    #[inline]
    pub fn start(&self, byte_ids: &[u32; 256], bytes: &[u8], ids: &mut [u32]) -> usize {
        let mut len = 0;
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] >= 0x80
                && let Some((character, width)) = decode(&bytes[at..])
                && let Some(&token) = self.characters.get(character as usize)
                && token != NO_TOKEN
                && !(at > 0 && self.is_torn(bytes[at - 1], bytes[at]))
                && bytes.get(at + width).is_none_or(|&next| {
                    // Only text that is no UTF-8 goes on inside a character, where no border was looked at.
                    starts(next) && !self.is_torn(bytes[at + width - 1], next)
                })
            {
                ids[len] = token;
                at += width;
            } else {
                ids[len] = byte_ids[bytes[at] as usize];
                at += 1;
            }
            len += 1;
        }
        len
    }

    /// Whether a token reaches across a border of characters with these bytes and ends inside one of the two.
    #[inline(always)]
    fn is_torn(&self, last: u8, first: u8) -> bool {
        let bit = usize::from(last) << 8 | usize::from(first);
        self.bytes[bit / 64] >> (bit % 64) & 1 != 0
    }

    /// Call `piece(start, end)` for each part of `pretoken` that can be encoded alone, from left to right.
    #[inline]
    pub fn pieces(&self, pretoken: &[u8], mut piece: impl FnMut(usize, usize)) {
        let mut start = 0;
        let mut at = 0;
        let mut left = None;
        while at < pretoken.len() {
            let right = decode(&pretoken[at..]);
            if let (Some(left), Some((right, _))) = (left, right)
                && (left | right) >= 0x80
                && !self.may_merge(left, right, pretoken[at - 1], pretoken[at])
            {
                piece(start, at);
                start = at;
            }
            left = right.map(|(character, _)| character);
            at += right.map_or(1, |(_, len)| len);
        }
        piece(start, at);
    }

    #[inline(always)]
    fn may_merge(&self, left: u32, right: u32, last: u8, first: u8) -> bool {
        let bit = self.bit_of(left, right);
        self.pairs[bit / 64] >> (bit % 64) & 1 != 0 || self.is_torn(last, first)
    }

    #[inline(always)]
    fn bit_of(&self, left: u32, right: u32) -> usize {
        fold(u64::from(left) << 32 | u64::from(right), SEED[0]) as usize & (self.pairs.len() * 64 - 1)
    }

    pub fn memory(&self) -> usize {
        (self.pairs.len() + self.bytes.len()) * 8 + self.characters.len() * 4
    }
}

#[inline(always)]
fn starts(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// The one token that `bytes` become, and the highest rank of the merges that make it.
fn merge_alone(vocab: &Vocab, ranks: &MergeRanks, bytes: &[u8]) -> Option<(u32, u32)> {
    let mut ids: Vec<u32> = bytes.iter().map(|&byte| vocab.byte_ids()[byte as usize]).collect();
    let mut last = 0;
    while ids.len() > 1 {
        let offers = ids.windows(2).enumerate().map(|(at, two)| (ranks.rank(two[0], two[1]), at));
        let (rank, at) = offers.min().filter(|&(rank, _)| rank != NO_MERGE)?;
        ids.splice(at..at + 2, [ranks.joined(rank)]);
        last = last.max(rank);
    }
    Some((ids[0], last))
}

/// The whole character that ends at `end`, if there is one.
fn character_before(token: &[u8], end: usize) -> Option<u32> {
    let start = (end.saturating_sub(4)..end).rev().find(|&at| starts(token[at]))?;
    decode(&token[start..end]).filter(|&(_, len)| start + len == end).map(|(character, _)| character)
}
