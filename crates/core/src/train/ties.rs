//! Which of several pairs with the same count goes first.

use std::cmp::Ordering;

use super::Pair;
use crate::error::{Error, Result};

/// `lowest-ids` is rustbpe's and nanochat's rule, `huggingface` the same with single bytes in the order of Hugging
/// Face's byte alphabet, `greatest-bytes` that of the CS336 course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    LowestIds,
    HuggingFace,
    GreatestBytes,
}

impl Ties {
    pub const NAMES: [&str; 3] = ["lowest-ids", "huggingface", "greatest-bytes"];

    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "lowest-ids" => Ok(Ties::LowestIds),
            "huggingface" => Ok(Ties::HuggingFace),
            "greatest-bytes" => Ok(Ties::GreatestBytes),
            _ => Err(Error::config(format!(
                "tie rule `{name}` is none of {}",
                Self::NAMES.map(|n| format!("`{n}`")).join(", ")
            ))),
        }
    }

    /// `Greater` if `a` is to be merged before `b`, both having the same count.
    #[inline]
    pub fn compare(self, a: Pair, b: Pair, tokens: &[Vec<u8>]) -> Ordering {
        match self {
            Ties::LowestIds => b.cmp(&a),
            Ties::HuggingFace => in_alphabet(b).cmp(&in_alphabet(a)),
            Ties::GreatestBytes => {
                let bytes = |p: Pair| (&tokens[p.left() as usize], &tokens[p.right() as usize]);
                bytes(a).cmp(&bytes(b))
            }
        }
    }
}

fn in_alphabet(pair: Pair) -> (u32, u32) {
    (alphabet_place(pair.left()), alphabet_place(pair.right()))
}

/// Hugging Face writes the bytes `!`…`~`, `¡`…`¬`, `®`…`ÿ` as the characters of the same number and the other 68
/// as characters from 256 on, then orders all of them by character.
#[inline]
fn alphabet_place(id: u32) -> u32 {
    match id {
        0x00..=0x20 => 188 + id,
        0x21..=0x7E => id - 0x21,
        0x7F..=0xA0 => 188 + 33 + (id - 0x7F),
        0xA1..=0xAC => 94 + (id - 0xA1),
        0xAD => 255,
        0xAE..=0xFF => 106 + (id - 0xAE),
        _ => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_a_permutation_in_the_order_of_its_characters() {
        let shown = |b: u32| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        let mut characters: Vec<(u32, u32)> = Vec::new();
        let mut next = 256;
        for byte in 0..256 {
            characters.push((if shown(byte) { byte } else { next }, byte));
            next += u32::from(!shown(byte));
        }
        characters.sort();
        for (place, (_, byte)) in characters.into_iter().enumerate() {
            assert_eq!(alphabet_place(byte), place as u32, "byte {byte}");
        }
    }
}
