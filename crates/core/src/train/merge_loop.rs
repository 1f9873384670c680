//! Take the most frequent pair, replace it everywhere, adjust the counts of the pairs around it, repeat.
//!
//! The work of one merge is proportional to the places it changes. Sums for each neighbouring id are gathered in
//! dense arrays first, so the pair table sees one update for each distinct neighbour.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::pair_counts::{Entry, PairCounts, PairMap, Positions, too_frequent};
use super::sequences::{Cell, EDGE, Event, Sequences};
use super::{Merges, Options, Pair, Stopped};
use crate::count::{PretokenCounts, Watch};
use crate::error::{Error, Result};

/// How many of the first pairs are kept for the report.
const TOP_PAIRS: usize = 20;

/// Learn merges from `counts`.
pub fn train_merges(counts: &PretokenCounts, options: &Options, watch: &Watch) -> Result<Merges> {
    options.check()?;
    refuse_specials(counts, &options.special_tokens)?;
    if options.num_tokens <= u16::LIMIT {
        train_bytes::<u16>(counts, options, watch)
    } else {
        train_bytes::<u32>(counts, options, watch)
    }
}

fn train_bytes<C: Cell>(counts: &PretokenCounts, options: &Options, watch: &Watch) -> Result<Merges> {
    let tokens = (0..=255u8).map(|byte| vec![byte]).collect();
    let mut trainer = Trainer::new(Sequences::<C>::new(counts)?, tokens, counts.total_bytes(), options);
    trainer.count_byte_pairs()?;
    trainer.finish(watch)
}

/// Learn more merges on pretokens that are tokens already. Where those tokens were not made by merges in order,
/// two merges can spell the same bytes; from single bytes they cannot (docs/decisions).
pub fn train_merges_from(
    tokens: Vec<Vec<u8>>,
    pretokens: &[(Vec<u32>, u64)],
    options: &Options,
    watch: &Watch,
) -> Result<Merges> {
    options.check()?;
    let lengths: Vec<u32> = tokens.iter().map(|bytes| bytes.len() as u32).collect();
    if let Some(id) = lengths.iter().position(|&len| len == 0) {
        return Err(Error::vocab(format!("token {id} is empty")));
    }
    let ids = pretokens.iter().flat_map(|(ids, _)| ids);
    if let Some(id) = ids.copied().find(|&id| id as usize >= tokens.len()) {
        return Err(Error::vocab(format!(
            "token id {id} is not below {}, the number of tokens",
            tokens.len()
        )));
    }
    let num_ids = pretokens.iter().map(|(ids, count)| ids.len() as u128 * u128::from(*count)).sum();
    let sequences = Sequences::<u32>::from_tokens(pretokens, &lengths)?;
    let mut trainer = Trainer::new(sequences, tokens, num_ids, options);
    trainer.remember(1)?;
    trainer.num_pairs = trainer.pairs.len();
    trainer.finish(watch)
}

/// Text that was counted by us cannot hold a special token; counts from elsewhere may, and a merge that spells
/// one would give its bytes a second id.
fn refuse_specials(counts: &PretokenCounts, special_tokens: &[String]) -> Result<()> {
    if special_tokens.is_empty() {
        return Ok(());
    }
    let finder = aho_corasick::AhoCorasick::new(special_tokens)
        .map_err(|e| Error::config(format!("special tokens cannot be searched for: {e}")))?;
    // One search over all pretokens end to end; a hit is real only if it lies inside one of them.
    for found in finder.find_overlapping_iter(counts.data()) {
        let index = counts.ends().partition_point(|&end| end <= found.start() as u64);
        if found.end() as u64 <= counts.ends()[index] {
            let special = &special_tokens[found.pattern().as_usize()];
            let pretoken = String::from_utf8_lossy(counts.pretoken(index)).into_owned();
            return Err(Error::vocab(format!(
                "pretoken `{pretoken}` contains the special token `{special}`"
            ))
            .hint("count the text again with this special token, so that it is cut out first"));
        }
    }
    Ok(())
}

struct Trainer<'a, C> {
    options: &'a Options,
    sequences: Sequences<C>,
    pairs: PairCounts,
    lengths: Vec<u32>,
    tokens: Vec<Vec<u8>>,
    ids: HashMap<Vec<u8>, u32>,
    triples: Vec<(u32, u32, u32)>,
    merged: PairMap<()>,
    merge_counts: Vec<u64>,
    training_tokens: u128,
    num_pairs: usize,
    top_pairs: Vec<(u32, u32, u64)>,
    first_shared: Option<usize>,
    /// Scale of the threshold below which new pairs are forgotten; falls with every rebuild.
    forget: f64,
    around: Neighbours,
    /// Where the pairs of single bytes stood at first, all in one array.
    byte_positions: Vec<u32>,
}

impl<'a, C: Cell> Trainer<'a, C> {
    fn new(
        sequences: Sequences<C>,
        tokens: Vec<Vec<u8>>,
        training_tokens: u128,
        options: &'a Options,
    ) -> Self {
        Trainer {
            options,
            sequences,
            pairs: PairCounts::new(options.ties),
            lengths: tokens.iter().map(|bytes| bytes.len() as u32).collect(),
            ids: tokens.iter().enumerate().map(|(id, bytes)| (bytes.clone(), id as u32)).collect(),
            tokens,
            triples: Vec::new(),
            merged: PairMap::default(),
            merge_counts: Vec::new(),
            training_tokens,
            num_pairs: 0,
            top_pairs: Vec::new(),
            first_shared: None,
            forget: options.forget,
            around: Neighbours::default(),
            byte_positions: Vec::new(),
        }
    }

    fn finish(mut self, watch: &Watch) -> Result<Merges> {
        let stopped = self.run(watch)?;
        Ok(Merges {
            triples: self.triples,
            counts: self.merge_counts,
            tokens: self.tokens,
            stopped,
            training_tokens: self.training_tokens,
            num_pairs: self.num_pairs,
            top_pairs: self.top_pairs,
            first_shared: self.first_shared,
        })
    }

    /// Store the pairs of single bytes.
    fn count_byte_pairs(&mut self) -> Result<()> {
        let found = self.sequences.byte_pairs(self.options.threads)?;
        for (index, &count) in found.counts.iter().enumerate() {
            if count == 0 {
                continue;
            }
            self.num_pairs += 1;
            let (left, right) = ((index >> 8) as u32, (index & 255) as u32);
            self.top_pairs.push((left, right, count));
            if self.allowed(left, right) {
                let positions = Positions::Bytes(found.starts[index]..found.starts[index + 1]);
                self.pairs.insert(Pair::new(left, right), Entry { count, positions }, &self.tokens);
            }
        }
        self.byte_positions = found.positions;
        self.top_pairs.sort_by_key(|&(left, right, count)| (std::cmp::Reverse(count), left, right));
        self.top_pairs.truncate(TOP_PAIRS);
        Ok(())
    }

    fn allowed(&self, left: u32, right: u32) -> bool {
        let len = self.lengths[left as usize] as usize + self.lengths[right as usize] as usize;
        self.options.max_token_bytes.is_none_or(|max| len <= max)
    }

    fn run(&mut self, watch: &Watch) -> Result<Stopped> {
        let lowest = self.options.min_count.max(1);
        while self.tokens.len() < self.options.num_tokens {
            if watch.cancelled() {
                return Err(Error::Cancelled);
            }
            let best = self.pairs.best(&self.tokens);
            let estimated = best.is_some_and(|(_, pair)| self.pairs.get(pair).is_some_and(Entry::estimated));
            let forgotten_may_win = best.is_none_or(|(count, _)| count < self.pairs.forgotten_below);
            if estimated || (forgotten_may_win && self.pairs.forgotten_below > lowest) {
                self.remember(lowest)?;
                continue;
            }
            let Some((count, pair)) = best else {
                return Ok(if lowest > 1 { Stopped::MinCount } else { Stopped::NoPairs });
            };
            if count < lowest {
                return Ok(Stopped::MinCount);
            }
            self.merge(count, pair, watch)?;
            watch.done.store(self.triples.len() as u64, Ordering::Relaxed);
            watch.detail.store(count, Ordering::Relaxed);
        }
        Ok(Stopped::Full)
    }

    fn merge(&mut self, count: u64, pair: Pair, watch: &Watch) -> Result<()> {
        let entry = self.pairs.take(pair, &self.tokens);
        let (joined, shared) = self.id_of_joined(pair);
        self.around.start(self.lengths.len());
        let around = &mut self.around;
        let mut merged = 0u128;
        let positions = match &entry.positions {
            Positions::Bytes(range) => &self.byte_positions[range.start as usize..range.end as usize],
            Positions::Own(positions) => positions,
            Positions::Unknown => unreachable!("an estimate is counted before it is merged"),
        };
        self.sequences.merge(pair, joined, positions, &self.lengths, |event, count| {
            merged += u128::from(count);
            around.add(event, count);
        });
        drop(entry);
        if watch.cancelled() {
            return Err(Error::Cancelled);
        }
        self.training_tokens -= merged;
        // A shared id can bring a pair back that was merged before; it is merged again but keeps its one rank.
        if self.merged.insert(pair, ()).is_none() {
            self.triples.push((pair.left(), pair.right(), joined));
            self.merge_counts.push(count);
        }
        if shared {
            self.first_shared.get_or_insert(self.triples.len() - 1);
            self.update_shared(pair, joined)?;
        } else {
            self.update_new(count, pair, joined);
        }
        Ok(())
    }

    /// The id of the joined bytes, and whether another merge made it already.
    fn id_of_joined(&mut self, pair: Pair) -> (u32, bool) {
        let mut bytes = self.tokens[pair.left() as usize].clone();
        bytes.extend_from_slice(&self.tokens[pair.right() as usize]);
        if let Some(&id) = self.ids.get(&bytes) {
            return (id, true);
        }
        let id = self.tokens.len() as u32;
        self.lengths.push(bytes.len() as u32);
        self.ids.insert(bytes.clone(), id);
        self.tokens.push(bytes);
        (id, false)
    }

    /// Counts after a merge that made a new id `z` of `(a, b)`. With L[x] and R[y] the occurrences that had `x` to
    /// their left and `y` to their right: `(x, a)` loses L[x] and `(x, z)` has it, `(b, y)` loses R[y] and `(z, y)`
    /// has it. Where two occurrences touch, the right one found `z` to its left and the left one `a` to its
    /// right: those are `(z, z)`, and must be taken off `(z, a)`.
    fn update_new(&mut self, count: u64, pair: Pair, z: u32) {
        let (a, b) = (pair.left(), pair.right());
        let threshold = self.threshold(count);
        let touching = self.around.left.sums[z as usize];
        for index in 0..self.around.left.touched.len() {
            let x = self.around.left.touched[index];
            let sum = self.around.left.sums[x as usize];
            if x != z {
                self.pairs.lower(Pair::new(x, a), sum.count);
            }
            if sum.count >= threshold && self.allowed(x, z) {
                self.around.left.open(x);
            }
        }
        for index in 0..self.around.right.touched.len() {
            let y = self.around.right.touched[index];
            let sum = self.around.right.sums[y as usize];
            // If `a` is `b`, this may be the pair itself, which is no longer stored.
            self.pairs.lower(Pair::new(b, y), sum.count);
            if y == a {
                let sum = &mut self.around.right.sums[a as usize];
                sum.count -= touching.count;
                sum.occurrences -= touching.occurrences;
            }
            if self.around.right.sums[y as usize].count >= threshold && self.allowed(z, y) {
                self.around.right.open(y);
            }
        }
        self.around.fill(&self.sequences, &self.lengths, z);
        for (id, count, positions) in self.around.left.opened() {
            self.pairs.insert(Pair::new(id, z), Entry { count, positions }, &self.tokens);
        }
        for (id, count, positions) in self.around.right.opened() {
            self.pairs.insert(Pair::new(z, id), Entry { count, positions }, &self.tokens);
        }
    }

    /// New pairs that occur fewer times are forgotten. The last merges of a training of V occur roughly
    /// `count · (k / V)^1.35` times if the k-th occurs `count` times; a fifth of that loses little and keeps the
    /// table small. Guessing wrong costs a rebuild, never an answer.
    fn threshold(&mut self, count: u64) -> u64 {
        let wanted = (self.options.num_tokens - 256) as f64;
        let done = self.triples.len() as f64 / wanted.max(1.0);
        let threshold = (self.forget * count as f64 * done.powf(1.35)) as u64;
        let threshold = threshold.clamp(1, count.max(1));
        self.pairs.forgotten_below = self.pairs.forgotten_below.max(threshold);
        threshold
    }

    /// Counts after a merge into an id that existed before: neighbours may be that id, pairs may exist, and
    /// forgotten ones may come back. Rare, so it takes the plain way.
    fn update_shared(&mut self, pair: Pair, z: u32) -> Result<()> {
        let (a, b) = (pair.left(), pair.right());
        let mut change: PairMap<i128> = PairMap::default();
        for &x in &self.around.left.touched {
            let sum = i128::from(self.around.left.sums[x as usize].count);
            *change.entry(Pair::new(x, a)).or_default() -= sum;
            *change.entry(Pair::new(x, z)).or_default() += sum;
        }
        for &y in &self.around.right.touched {
            let sum = i128::from(self.around.right.sums[y as usize].count);
            *change.entry(Pair::new(b, y)).or_default() -= sum;
            *change.entry(Pair::new(z, y)).or_default() += sum;
        }
        change.remove(&pair);
        let mut positions: PairMap<Vec<u32>> = PairMap::default();
        for event in &self.around.events {
            let left = self.sequences.left_of(event.position);
            if left != EDGE {
                let start = event.position - self.lengths[left as usize];
                positions.entry(Pair::new(left, z)).or_default().push(start);
            }
            let right = self.sequences.starting_at(event.position + self.lengths[z as usize]);
            if right != EDGE {
                positions.entry(Pair::new(z, right)).or_default().push(event.position);
            }
        }
        let mut change: Vec<_> =
            change.into_iter().filter(|c| self.allowed(c.0.left(), c.0.right())).collect();
        change.sort_unstable();
        for (pair, by) in change {
            // A pair can lose what it had and gain as much elsewhere: the places matter even then.
            let places = positions.remove(&pair).unwrap_or_default();
            if by < 0 {
                self.pairs.lower(pair, (-by) as u64);
            }
            if by > 0 || !places.is_empty() {
                let stored = self.pairs.get(pair).is_some();
                if by > 0 || stored {
                    let by = u64::try_from(by.max(0)).map_err(|_| too_frequent())?;
                    self.pairs.raise(pair, by, places, &self.tokens)?;
                }
            }
        }
        Ok(())
    }

    /// Lower the threshold and bring back what now reaches it, by one pass over all sequences.
    fn remember(&mut self, lowest: u64) -> Result<()> {
        self.pairs.drop_estimates();
        self.forget /= 3.0;
        self.pairs.forgotten_below = (self.pairs.forgotten_below / 3).max(lowest);
        let mut sums: PairMap<(u64, u32)> = PairMap::default();
        let mut overflow = false;
        let (pairs, sequences) = (&self.pairs, &self.sequences);
        sequences.for_each_pair(&self.lengths, |pair, _, count| {
            if pairs.get(pair).is_none() {
                let sum = sums.entry(pair).or_default();
                overflow |= sum.0.checked_add(count).is_none();
                sum.0 = sum.0.wrapping_add(count);
                sum.1 += 1;
            }
        });
        if overflow {
            return Err(too_frequent());
        }
        sums.retain(|pair, sum| {
            sum.0 >= self.pairs.forgotten_below && self.allowed(pair.left(), pair.right())
        });
        let mut positions: PairMap<Vec<u32>> =
            sums.iter().map(|(&pair, sum)| (pair, Vec::with_capacity(sum.1 as usize))).collect();
        sequences.for_each_pair(&self.lengths, |pair, position, _| {
            if let Some(places) = positions.get_mut(&pair) {
                places.push(position);
            }
        });
        for (pair, places) in positions {
            let entry = Entry { count: sums[&pair].0, positions: Positions::Own(places) };
            self.pairs.insert(pair, entry, &self.tokens);
        }
        Ok(())
    }
}

/// Sums over the events of one merge, by the id on either side.
#[derive(Default)]
struct Neighbours {
    events: Vec<Event>,
    left: Side,
    right: Side,
}

/// `sums[id]` is empty except for the ids in `touched`; `lists` are those of the ids in `open`.
#[derive(Default)]
struct Side {
    touched: Vec<u32>,
    sums: Vec<Sum>,
    open: Vec<u32>,
    lists: Vec<Vec<u32>>,
}

/// What one id has beside the merged pair: how often in the text, at how many positions, and the list where the
/// positions of the new pair are gathered, if it is worth one. Together they fill a quarter of a cache line.
#[derive(Clone, Copy)]
struct Sum {
    count: u64,
    occurrences: u32,
    list: u32,
}

const NO_LIST: u32 = u32::MAX;
const NOTHING: Sum = Sum { count: 0, occurrences: 0, list: NO_LIST };

impl Neighbours {
    fn start(&mut self, num_tokens: usize) {
        self.events.clear();
        self.left.start(num_tokens);
        self.right.start(num_tokens);
    }

    #[inline]
    fn add(&mut self, event: Event, count: u64) {
        self.left.add(event.left, count);
        self.right.add(event.right, count);
        self.events.push(event);
    }

    /// Hand the position of every event to the lists that were opened for its neighbours.
    fn fill<C: Cell>(&mut self, sequences: &Sequences<C>, lengths: &[u32], z: u32) {
        if self.left.open.is_empty() && self.right.open.is_empty() {
            return;
        }
        for event in &self.events {
            if event.left != EDGE {
                self.left.place(event.left, event.position - lengths[event.left as usize]);
            }
            // What followed may have become `z` itself; the event there has `(z, z)` on its left.
            if event.right != EDGE
                && sequences.starting_at(event.position + lengths[z as usize]) == event.right
            {
                self.right.place(event.right, event.position);
            }
        }
    }
}

impl Side {
    fn start(&mut self, num_tokens: usize) {
        for &id in &self.touched {
            self.sums[id as usize] = NOTHING;
        }
        self.touched.clear();
        self.lists.clear();
        self.open.clear();
        self.sums.resize(num_tokens, NOTHING);
    }

    #[inline]
    fn add(&mut self, id: u32, count: u64) {
        if id == EDGE {
            return;
        }
        let sum = &mut self.sums[id as usize];
        if sum.occurrences == 0 {
            self.touched.push(id);
        }
        sum.occurrences += 1;
        sum.count += count;
    }

    /// Gather the positions of the new pair with this id.
    fn open(&mut self, id: u32) {
        let sum = &mut self.sums[id as usize];
        sum.list = self.lists.len() as u32;
        self.open.push(id);
        self.lists.push(Vec::with_capacity(sum.occurrences as usize));
    }

    #[inline]
    fn place(&mut self, id: u32, position: u32) {
        let list = self.sums[id as usize].list;
        if list != NO_LIST {
            self.lists[list as usize].push(position);
        }
    }

    /// Id, count and positions of each pair that was gathered.
    fn opened(&mut self) -> impl Iterator<Item = (u32, u64, Positions)> {
        let (sums, ids) = (&self.sums, self.open.drain(..));
        ids.zip(self.lists.drain(..)).map(|(id, list)| (id, sums[id as usize].count, Positions::Own(list)))
    }
}
