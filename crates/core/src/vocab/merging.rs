//! How a token comes about: the pair of lowest rank first, the leftmost of equals, until one token is left.
//!
//! Two rules for what may be joined share the loop: *by pair*, as merges say, and *by bytes*, as tiktoken does, where
//! any two neighbours join that together spell a token, ranked by its id.
//!
//! Under both rules a token is made in one way or not at all. Let a stretch of text become token `T`. Nothing was
//! joined across its two borders before, so whatever was joined inside was, each time, the best pair of the stretch,
//! too: the same that joining the bytes of `T` alone would choose. So the last step is always the one that `T` takes
//! alone, and if `T` alone ends in several tokens, no text ever makes it.
//!
//! Hence a vocab by bytes is a vocab by pair: each token's last step is its one merge, ranked by its id. In any
//! state both rules choose the same pair, because the pair by bytes is that one merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::token_ids::TokenIds;
use super::{Merge, Vocab};
use crate::train::{Pair, PairMap};

/// Longest token, in bytes, for which looking at every pair after every merge beats keeping a heap.
const SCAN_MAX: usize = 64;

/// What two neighbours become: its rank in the high half, its id in the low one.
type Join = u64;
const NONE: Join = u64::MAX;

fn join(rank: u32, joined: u32) -> Join {
    u64::from(rank) << 32 | u64::from(joined)
}

/// A rule for joining `text[start..middle]`, token `left`, with `text[middle..end]`, token `right`.
trait Rule {
    fn join(&self, text: &[u8], span: (usize, usize), left: u32, right: u32) -> Join;
}

/// Merges that can apply, and tokens that nothing makes.
pub struct UsedMerges {
    pub ranks: Vec<u32>,
    pub unreachable: Vec<u32>,
}

struct ByPair(PairMap<Join>);

impl Rule for ByPair {
    #[inline]
    fn join(&self, _text: &[u8], _span: (usize, usize), left: u32, right: u32) -> Join {
        self.0.get(&Pair::new(left, right)).copied().unwrap_or(NONE)
    }
}

pub fn used_merges(vocab: &Vocab) -> UsedMerges {
    let merges = vocab.merges.iter().enumerate();
    let rule =
        ByPair(merges.map(|(rank, &(l, r, joined))| (Pair::new(l, r), join(rank as u32, joined))).collect());
    let mut used = UsedMerges { ranks: Vec::with_capacity(vocab.merges.len()), unreachable: Vec::new() };
    let mut loops = Loops::default();
    for id in 0..vocab.size() as u32 {
        let token = vocab.token(id);
        if token.len() < 2 || vocab.is_special(id) {
            continue;
        }
        match loops.last_step(&rule, token, 0, token.len(), &vocab.byte_ids) {
            Some((_, _, join)) => used.ranks.push((join >> 32) as u32),
            None => used.unreachable.push(id),
        }
    }
    used.ranks.sort_unstable();
    used
}

struct ByBytes<'a> {
    text: &'a [u8],
    ends: &'a [u32],
    ids: &'a TokenIds,
    /// Id of each two bytes, `u32::MAX` if no token spells them: where most look-ups happen.
    two_bytes: Vec<u32>,
    /// Whether any token is as long: keeps hopeless look-ups of long stretches from costing their length.
    has_length: Vec<bool>,
}

impl Rule for ByBytes<'_> {
    #[inline]
    fn join(&self, text: &[u8], (start, end): (usize, usize), _left: u32, _right: u32) -> Join {
        let id = match end - start {
            2 => self.two_bytes[usize::from(text[start]) << 8 | usize::from(text[start + 1])],
            len if self.has_length.get(len).is_some_and(|&has| has) => {
                self.ids.get_within(self.text, self.ends, text, start, len).unwrap_or(u32::MAX)
            }
            _ => u32::MAX,
        };
        join(id, id)
    }
}

/// The one merge of each token that joining by bytes makes, by id, and whether there are tokens it does not make.
pub fn merges_by_bytes(vocab: &Vocab) -> (Vec<Merge>, Vec<u32>) {
    let size = vocab.size() as u32;
    let mut two_bytes = vec![u32::MAX; 1 << 16];
    let mut has_length = vec![false; (0..size).map(|id| vocab.token(id).len()).max().unwrap_or(0) + 1];
    let ordinary = || (0..size).filter(|&id| !vocab.token(id).is_empty() && !vocab.is_special(id));
    for id in ordinary() {
        let token = vocab.token(id);
        has_length[token.len()] = true;
        if let [first, second] = *token {
            two_bytes[usize::from(first) << 8 | usize::from(second)] = id;
        }
    }
    let rule = ByBytes { text: &vocab.text, ends: &vocab.ends, ids: &vocab.ids, two_bytes, has_length };
    let mut loops = Loops::default();
    let (mut merges, mut unreachable) = (Vec::with_capacity(vocab.size()), Vec::new());
    for id in ordinary() {
        let token = vocab.token(id);
        if token.len() < 2 {
            continue;
        }
        // Within all tokens, so that looking up a part may read the bytes behind it.
        let start = vocab.ends[id as usize] as usize - token.len();
        match loops.last_step(&rule, &vocab.text, start, token.len(), &vocab.byte_ids) {
            Some((left, right, _)) => merges.push((left, right, id)),
            None => unreachable.push(id),
        }
    }
    (merges, unreachable)
}

/// Scratch of the loop for long tokens.
#[derive(Default)]
struct Loops {
    ids: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    heap: BinaryHeap<Reverse<(Join, u32, u32, u32)>>,
}

impl Loops {
    /// The two tokens that become the token `text[start..start + len]`, of at least two bytes, and what they become;
    /// `None` if joining ends before that.
    fn last_step(
        &mut self,
        rule: &impl Rule,
        text: &[u8],
        start: usize,
        len: usize,
        byte_ids: &[u32; 256],
    ) -> Option<(u32, u32, Join)> {
        if len <= SCAN_MAX {
            scan(rule, text, start, len, byte_ids)
        } else {
            self.queue(rule, &text[start..start + len], byte_ids)
        }
    }

    /// A heap of possible joins over a doubly linked list of tokens: n log n for any token.
    fn queue(&mut self, rule: &impl Rule, token: &[u8], byte_ids: &[u32; 256]) -> Option<(u32, u32, Join)> {
        const END: u32 = u32::MAX;
        let len = token.len();
        self.ids.clear();
        self.ids.extend(token.iter().map(|&byte| byte_ids[byte as usize]));
        self.next.clear();
        self.next.extend(1..=len as u32);
        self.previous.clear();
        self.previous.extend((0..len as u32).map(|at| at.wrapping_sub(1)));
        self.heap.clear();
        // (what they become, left position, left id, right id): the ids tell whether an element still holds. Equal
        // ranks mean equal pairs or, by bytes, equal tokens, so the position decides among them.
        let offer = |heap: &mut BinaryHeap<_>, ids: &[u32], left: u32, right: u32, end: u32| {
            let (l, r) = (ids[left as usize], ids[right as usize]);
            let join = rule.join(token, (left as usize, end as usize), l, r);
            if join != NONE {
                heap.push(Reverse((join, left, l, r)));
            }
        };
        for left in 0..len as u32 - 1 {
            offer(&mut self.heap, &self.ids, left, left + 1, left + 2);
        }
        let mut parts = len;
        while parts > 2 {
            let Reverse((join, left, l, r)) = self.heap.pop()?;
            let right = self.next[left as usize];
            let holds = self.ids[left as usize] == l && right < len as u32 && self.ids[right as usize] == r;
            if !holds {
                continue;
            }
            let after = self.next[right as usize];
            self.ids[left as usize] = join as u32;
            self.ids[right as usize] = END;
            self.next[left as usize] = after;
            parts -= 1;
            if after < len as u32 {
                self.previous[after as usize] = left;
                offer(&mut self.heap, &self.ids, left, after, self.next[after as usize]);
            }
            let before = self.previous[left as usize];
            if before != END {
                offer(&mut self.heap, &self.ids, before, left, after);
            }
        }
        let (left, right) = (self.ids[0], self.ids[self.next[0] as usize]);
        let join = rule.join(token, (0, len), left, right);
        (join != NONE).then_some((left, right, join))
    }
}

fn scan(
    rule: &impl Rule,
    text: &[u8],
    start: usize,
    len: usize,
    byte_ids: &[u32; 256],
) -> Option<(u32, u32, Join)> {
    let mut ids = [0u32; SCAN_MAX];
    let mut starts = [0u8; SCAN_MAX + 1]; // starts[i]: where part i begins; the one after the last is the end
    let mut joins = [NONE; SCAN_MAX]; // joins[i]: what parts i and i + 1 become
    let mut len = len;
    for (at, &byte) in text[start..start + len].iter().enumerate() {
        ids[at] = byte_ids[byte as usize];
        starts[at] = at as u8;
    }
    starts[len] = len as u8;
    let join = |ids: &[u32; SCAN_MAX], starts: &[u8; SCAN_MAX + 1], at: usize| {
        let (from, to) = (start + usize::from(starts[at]), start + usize::from(starts[at + 2]));
        rule.join(text, (from, to), ids[at], ids[at + 1])
    };
    for (at, both) in joins.iter_mut().enumerate().take(len - 1) {
        *both = join(&ids, &starts, at);
    }
    while len > 2 {
        let (mut at, mut best) = (0, NONE);
        for (index, &join) in joins[..len - 1].iter().enumerate() {
            if join < best {
                (at, best) = (index, join);
            }
        }
        if best == NONE {
            return None;
        }
        ids[at] = best as u32;
        ids.copy_within(at + 2..len, at + 1);
        starts.copy_within(at + 2..=len, at + 1);
        joins.copy_within((at + 2).min(len)..len, at + 1);
        len -= 1;
        if at + 1 < len {
            joins[at] = join(&ids, &starts, at);
        }
        if at > 0 {
            joins[at - 1] = join(&ids, &starts, at - 1);
        }
    }
    (joins[0] != NONE).then_some((ids[0], ids[1], joins[0]))
}
