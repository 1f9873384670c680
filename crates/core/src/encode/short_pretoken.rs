//! Token ids of one short pretoken: look at every pair, join the one of lowest rank, the leftmost of equals, repeat.

use super::borders::Borders;
use super::merge_ranks::{MergeRanks, NO_MERGE, NO_TOKEN};

/// Longest pretoken, in bytes, that is encoded by looking at every pair after every merge: a few vector instructions,
/// where a heap would take branches that nobody can predict.
pub const SHORT_PRETOKEN_MAX: usize = POSITIONS - 1;

const POSITION_BITS: u32 = 7;
const POSITIONS: usize = 1 << POSITION_BITS;
/// This or more: nothing to merge.
const NO_OFFER: u64 = (NO_MERGE as u64) << POSITION_BITS;

/// Append the ids of `pretoken`, which is not empty and at most [`SHORT_PRETOKEN_MAX`] bytes long, to `out`. With
/// `borders`, merging starts from the tokens that [`Borders::start`] finds.
#[inline]
pub fn encode(
    ranks: &MergeRanks,
    byte_ids: &[u32; 256],
    borders: Option<&Borders>,
    pretoken: &[u8],
    out: &mut Vec<u32>,
) {
    match pretoken.len() {
        0..16 => Pairs::<16>::new(ranks, byte_ids, borders, pretoken).merge(ranks, out),
        16..48 => Pairs::<48>::new(ranks, byte_ids, borders, pretoken).merge(ranks, out),
        _ => Pairs::<POSITIONS>::new(ranks, byte_ids, borders, pretoken).merge(ranks, out),
    }
}

/// Fewer than `MAX` tokens, which stay where they are and are linked to their neighbours; `offers[i]` is the merge of
/// the token at `i` with the next one, its rank above its position, so that the least of them is the one to do.
struct Pairs<const MAX: usize> {
    len: usize,
    /// Behind the last token, and at the last position, before the first, [`NO_TOKEN`]: so that every token has two
    /// neighbours and no branch asks whether it has.
    ids: [u32; MAX],
    offers: [u64; MAX],
}

impl<const MAX: usize> Pairs<MAX> {
    #[inline(always)]
    fn new(ranks: &MergeRanks, byte_ids: &[u32; 256], borders: Option<&Borders>, bytes: &[u8]) -> Self {
        let mut pairs = Pairs { len: bytes.len(), ids: [NO_TOKEN; MAX], offers: [NO_OFFER; MAX] };
        let Pairs { len, ids, offers } = &mut pairs;
        if let Some(borders) = borders {
            *len = borders.start(byte_ids, bytes, ids);
            for at in 0..*len - 1 {
                offers[at] = offer(ranks.rank(ids[at], ids[at + 1]), at);
            }
        } else {
            for (id, &byte) in ids.iter_mut().zip(bytes) {
                *id = byte_ids[byte as usize];
            }
            for (at, two) in bytes.windows(2).enumerate().take(MAX) {
                offers[at] = offer(ranks.rank_of_bytes(two[0], two[1]), at);
            }
        }
        pairs
    }

    #[inline(always)]
    fn merge(mut self, ranks: &MergeRanks, out: &mut Vec<u32>) {
        let Pairs { len, ids, offers } = &mut self;
        let mut next: [u8; MAX] = std::array::from_fn(|at| at as u8 + 1);
        let mut previous: [u8; MAX] = std::array::from_fn(|at| (at + MAX - 1) as u8 % MAX as u8);
        let looked_at = len.next_multiple_of(8).min(MAX);
        loop {
            let best = least(&offers[..looked_at]);
            if best >= NO_OFFER {
                break;
            }
            let at = best as usize % POSITIONS % MAX;
            let right = next[at] as usize % MAX;
            let after = next[right] as usize % MAX;
            let before = previous[at] as usize % MAX;
            let joined = ranks.joined((best >> POSITION_BITS) as u32);
            let with_after = offer(ranks.rank(joined, ids[after]), at);
            let with_before = offer(ranks.rank(ids[before], joined), before);
            ids[at] = joined;
            next[at] = after as u8;
            previous[after] = at as u8;
            offers[right] = NO_OFFER;
            offers[at] = with_after;
            offers[before] = with_before;
        }
        let mut at = 0;
        while at < *len {
            out.push(ids[at % MAX]);
            at = next[at % MAX] as usize;
        }
    }
}

#[inline(always)]
fn offer(rank: u32, at: usize) -> u64 {
    u64::from(rank) << POSITION_BITS | at as u64
}

/// The least of a multiple of eight. One by one in 64 bits on purpose: a vector would have to wait until the offers just
/// written have reached the cache.
#[inline(always)]
fn least(offers: &[u64]) -> u64 {
    let mut lanes = [NO_OFFER; 4];
    for four in offers.as_chunks::<4>().0 {
        lanes = std::array::from_fn(|lane| lanes[lane].min(four[lane]));
    }
    lanes[0].min(lanes[1]).min(lanes[2].min(lanes[3]))
}
