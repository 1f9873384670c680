//! The ten-line version of training and encoding, for the core's own tests: obviously right, hopelessly slow.

use std::collections::HashMap;

use crate::train::{Pair, Ties};

/// Merges as (left, right, joined) by recounting every pair before every merge.
pub fn train(counts: &[(&[u8], u64)], num_tokens: usize, ties: Ties) -> Vec<(u32, u32, u32)> {
    let bytes = (0..=255).map(|byte| vec![byte]).collect();
    let words = counts.iter().map(|(w, c)| (w.iter().map(|&b| u32::from(b)).collect(), *c)).collect();
    train_from(bytes, words, num_tokens, ties)
}

/// The same on words that are tokens already.
pub fn train_from(
    mut tokens: Vec<Vec<u8>>,
    mut words: Vec<(Vec<u32>, u64)>,
    num_tokens: usize,
    ties: Ties,
) -> Vec<(u32, u32, u32)> {
    let mut merges = Vec::new();
    while tokens.len() < num_tokens {
        let mut pairs: HashMap<Pair, u64> = HashMap::new();
        for (word, count) in &words {
            for two in word.windows(2) {
                *pairs.entry(Pair::new(two[0], two[1])).or_default() += count;
            }
        }
        let best =
            pairs.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| ties.compare(a.0, b.0, &tokens)));
        let Some((pair, _)) = best else { break };
        let bytes = [&tokens[pair.left() as usize][..], &tokens[pair.right() as usize][..]].concat();
        let known = tokens.iter().position(|token| *token == bytes);
        let joined = known.unwrap_or(tokens.len()) as u32;
        if known.is_none() {
            tokens.push(bytes);
        }
        // A shared id can bring a pair back that was merged before; it is merged again but keeps its one rank.
        if !merges.contains(&(pair.left(), pair.right(), joined)) {
            merges.push((pair.left(), pair.right(), joined));
        }
        for (word, _) in &mut words {
            *word = apply(word, pair, joined);
        }
    }
    merges
}

/// `ids` with `pair` replaced by `joined`, leftmost first.
fn apply(ids: &[u32], pair: Pair, joined: u32) -> Vec<u32> {
    let mut out = Vec::with_capacity(ids.len());
    let mut at = 0;
    while at < ids.len() {
        let here = at + 1 < ids.len() && Pair::new(ids[at], ids[at + 1]) == pair;
        out.push(if here { joined } else { ids[at] });
        at += 1 + usize::from(here);
    }
    out
}

/// Token ids of one pretoken: the merge of lowest rank, at its leftmost place, until none applies.
pub fn encode(pretoken: &[u8], byte_ids: &[u32; 256], merges: &[(u32, u32, u32)]) -> Vec<u32> {
    let mut ids: Vec<u32> = pretoken.iter().map(|&byte| byte_ids[byte as usize]).collect();
    let place = |ids: &[u32], merge: &(u32, u32, u32)| ids.windows(2).position(|w| w == [merge.0, merge.1]);
    while let Some((at, joined)) = merges.iter().find_map(|merge| Some((place(&ids, merge)?, merge.2))) {
        ids.splice(at..at + 2, [joined]);
    }
    ids
}
