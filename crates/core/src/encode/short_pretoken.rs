//! Token ids of one short pretoken: look at every pair, join the one of lowest rank, the leftmost of equals, repeat.

use super::borders::Borders;
use super::merge_ranks::{MergeRanks, NO_MERGE, RANK_BITS};

/// Longest pretoken, in bytes, that is encoded by looking at every pair after every merge: a few vector instructions,
/// where a heap would take branches that nobody can predict.
pub const SHORT_PRETOKEN_MAX: usize = 1 << POSITION_BITS;

const POSITION_BITS: u32 = 7;
const NO_OFFER: i32 = i32::MAX;
const _: () = assert!(RANK_BITS + POSITION_BITS < 31);

/// Append the ids of `pretoken`, which is not empty and at most [`SHORT_PRETOKEN_MAX`] bytes long, to `out`.
#[inline]
pub fn encode(ranks: &MergeRanks, byte_ids: &[u32; 256], pretoken: &[u8], out: &mut Vec<u32>) {
    match pretoken.len() {
        0..=16 => encode_bytes::<16>(ranks, byte_ids, pretoken, out),
        17..=48 => encode_bytes::<48>(ranks, byte_ids, pretoken, out),
        _ => encode_bytes::<SHORT_PRETOKEN_MAX>(ranks, byte_ids, pretoken, out),
    }
}

/// The same where merging starts from the tokens that [`Borders::start`] finds.
#[inline]
pub fn encode_from(
    ranks: &MergeRanks,
    byte_ids: &[u32; 256],
    borders: &Borders,
    pretoken: &[u8],
    out: &mut Vec<u32>,
) {
    let mut ids = [0; SHORT_PRETOKEN_MAX];
    match borders.start(byte_ids, pretoken, &mut ids) {
        1 => out.push(ids[0]),
        len @ 0..=16 => encode_tokens::<16>(ranks, &ids[..len], out),
        len @ 17..=48 => encode_tokens::<48>(ranks, &ids[..len], out),
        len => encode_tokens::<SHORT_PRETOKEN_MAX>(ranks, &ids[..len], out),
    }
}

#[inline(never)]
fn encode_bytes<const MAX: usize>(
    ranks: &MergeRanks,
    byte_ids: &[u32; 256],
    pretoken: &[u8],
    out: &mut Vec<u32>,
) {
    let mut ids = [0u32; MAX];
    let mut offers = [NO_OFFER; MAX];
    for (id, &byte) in ids.iter_mut().zip(pretoken) {
        *id = byte_ids[byte as usize];
    }
    for (at, two) in pretoken.windows(2).enumerate().take(MAX) {
        offers[at] = offer(ranks.rank_of_bytes(two[0], two[1]), at);
    }
    merge(ranks, &mut ids, &mut offers, pretoken.len(), out);
}

#[inline(never)]
fn encode_tokens<const MAX: usize>(ranks: &MergeRanks, tokens: &[u32], out: &mut Vec<u32>) {
    let mut ids = [0u32; MAX];
    let mut offers = [NO_OFFER; MAX];
    ids[..tokens.len()].copy_from_slice(tokens);
    for (at, two) in tokens.windows(2).enumerate().take(MAX) {
        offers[at] = offer(ranks.rank(two[0], two[1]), at);
    }
    merge(ranks, &mut ids, &mut offers, tokens.len(), out);
}

/// Tokens stay where they are and are linked to their neighbours; `offers[i]` is the merge of the token at `i` with the
/// next one, its rank above its position, so that the least of them is the one to do.
#[inline(always)]
fn merge<const MAX: usize>(
    ranks: &MergeRanks,
    ids: &mut [u32; MAX],
    offers: &mut [i32; MAX],
    len: usize,
    out: &mut Vec<u32>,
) {
    let mut next: [u8; MAX] = std::array::from_fn(|at| at as u8 + 1);
    let mut previous: [u8; MAX] = std::array::from_fn(|at| at.wrapping_sub(1) as u8);
    let looked_at = len.next_multiple_of(8).min(MAX);
    loop {
        let best = least(&offers[..looked_at]);
        if best == NO_OFFER {
            break;
        }
        let at = best as usize % SHORT_PRETOKEN_MAX % MAX;
        let right = next[at] as usize % MAX;
        let after = next[right] as usize;
        ids[at] = ranks.joined(best as u32 >> POSITION_BITS);
        next[at] = after as u8;
        offers[right] = NO_OFFER;
        offers[at] = NO_OFFER;
        if after < len {
            let after = after % MAX;
            previous[after] = at as u8;
            offers[at] = offer(ranks.rank(ids[at], ids[after]), at);
        }
        if at > 0 {
            let before = previous[at] as usize % MAX;
            offers[before] = offer(ranks.rank(ids[before], ids[at]), before);
        }
    }
    let mut at = 0;
    while at < len {
        out.push(ids[at % MAX]);
        at = next[at % MAX] as usize;
    }
}

#[inline(always)]
fn offer(rank: u32, at: usize) -> i32 {
    if rank == NO_MERGE { NO_OFFER } else { (rank << POSITION_BITS | at as u32) as i32 }
}

/// Written so that the compiler takes eight at a time.
#[inline(always)]
fn least(offers: &[i32]) -> i32 {
    let mut lanes = [NO_OFFER; 8];
    for eight in offers.chunks_exact(8) {
        for (lane, &offer) in lanes.iter_mut().zip(eight) {
            *lane = if offer < *lane { offer } else { *lane };
        }
    }
    lanes.into_iter().min().expect("eight lanes")
}
