//! Text in, token ids out.
//!
//! Special tokens that the caller wants as ids are cut out, the [`Splitter`] cuts the rest into pretokens, and each
//! pretoken becomes ids: from the [`cache`] if it was seen before, else by merging ([`short_pretoken`],
//! [`long_pretoken`]). [`batch`] does it for many texts, or many pieces of one, on several threads; [`stream`] for a
//! text that arrives in parts. None of them changes an id.

mod batch;
mod borders;
mod cache;
mod long_pretoken;
mod merge_queue;
mod merge_ranks;
mod normalize;
mod output;
mod short_pretoken;
mod special_tokens;
mod stream;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock};

use crate::count::Watch;
use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::hash::SHORT_MAX;
use crate::pretokenize::{Sink, Splitter};
use crate::vocab::Vocab;
use borders::Borders;
use cache::{Cache, ELSEWHERE, MEDIUM_MAX, Probe};
use long_pretoken::LongPretoken;
use merge_queue::MergeQueue;
use merge_ranks::MergeRanks;
use short_pretoken::SHORT_PRETOKEN_MAX;
use special_tokens::SpecialTokens;

pub use batch::Batch;
pub use output::{Id, Output, TokenCount};
pub use special_tokens::{Named, Rules};
pub use stream::EncodeStream;

/// How many pretokens wait so that the cache line each one needs is there when it is asked for.
const BATCH: usize = 64;

/// What each thread may hold for pretokens it has seen, unless the caller says otherwise.
pub const DEFAULT_CACHE_BYTES: usize = 32 << 20;

/// A vocab that encodes and decodes. Nothing of it that can be seen ever changes.
pub struct Bpe {
    vocab: Arc<Vocab>,
    splitter: Splitter,
    ranks: MergeRanks,
    special: SpecialTokens,
    decoder: Decoder,
    /// Made when the first long pretoken beyond ASCII comes.
    borders: OnceLock<Borders>,
    nfc: bool,
    cache_bytes: usize,
    /// What threads at work remember, one for each; taken out while one works.
    #[allow(clippy::vec_box)] // one is several kilobytes and changes hands at every call
    idle: Mutex<Vec<Box<Scratch>>>,
}

/// Memory of one thread at work.
struct Scratch {
    cache: Cache,
    waiting: [(usize, usize, Probe); BATCH],
    num_waiting: usize,
    ids: Vec<u32>,
    long: LongPretoken,
    cancelled: bool,
}

/// One thread's hold on its memory of pretokens; given back when it goes.
pub struct Worker<'a> {
    bpe: &'a Bpe,
    scratch: Option<Box<Scratch>>,
}

impl Worker<'_> {
    /// Append the ids of `text` to `out`.
    pub fn encode(&mut self, text: &[u8], rules: &Rules, out: &mut impl Output, watch: &Watch) -> Result<()> {
        let scratch = self.scratch.as_mut().expect("there until it is dropped");
        self.bpe.encode_range(scratch, text, 0, text.len(), rules, out, watch)
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            self.bpe.keep_scratch(scratch);
        }
    }
}

impl Bpe {
    pub fn new(vocab: Arc<Vocab>, splitter: &Splitter, nfc: bool, cache_bytes: usize) -> Result<Self> {
        let texts: Vec<String> = vocab.special_tokens().iter().map(|(text, _)| text.clone()).collect();
        let splitter = Splitter::new(splitter.name().unwrap_or(splitter.regex()), &texts)?;
        Ok(Bpe {
            ranks: MergeRanks::new(&vocab)?,
            special: SpecialTokens::new(&vocab)?,
            decoder: Decoder::new(&vocab),
            splitter,
            borders: OnceLock::new(),
            nfc,
            cache_bytes,
            idle: Mutex::new(Vec::new()),
            vocab,
        })
    }

    pub fn vocab(&self) -> &Arc<Vocab> {
        &self.vocab
    }

    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Whether an id needs more than 16 bits.
    pub fn is_wide(&self) -> bool {
        self.vocab.size() > 1 << 16
    }

    /// Which special tokens become ids and which are errors; [`Rules::ordinary`] makes them all text.
    pub fn rules(&self, allowed: Named<'_>, disallowed: Named<'_>) -> Result<Rules> {
        self.special.rules(allowed, disallowed)
    }

    /// Special tokens that occur in `text`, in order of appearance, without repeats.
    pub fn find_special(&self, text: &[u8]) -> Vec<&str> {
        self.special.occurring(text)
    }

    /// Add up, in the order of the vocab's special tokens, how often each occurs in `text` without becoming an id.
    pub fn count_lookalikes(&self, text: &[u8], rules: &Rules, counts: &mut [u64]) {
        self.special.count_lookalikes(text, rules, counts);
    }

    pub fn splitter(&self) -> &Splitter {
        &self.splitter
    }

    /// Whether text is normalized before it is split.
    pub fn normalizes(&self) -> bool {
        self.nfc
    }

    /// The bytes that ids are made from, special tokens aside.
    pub fn normalize<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if self.nfc { normalize::nfc(text) } else { Cow::Borrowed(text) }
    }

    /// The last place after `from` where `text` may be cut in two without changing an id, whatever follows it.
    fn last_cut(&self, text: &[u8], from: usize) -> Option<usize> {
        self.splitter.last_cut_where(text, from, |at| !self.nfc || normalize::is_stable_at(text, at))
    }

    /// Append the ids of `text` to `out`, on this thread.
    pub fn encode(&self, text: &[u8], rules: &Rules, out: &mut impl Output, watch: &Watch) -> Result<()> {
        let mut scratch = self.take_scratch();
        let result = self.encode_range(&mut scratch, text, 0, text.len(), rules, out, watch);
        self.keep_scratch(scratch);
        result
    }

    /// Someone who encodes many texts on one thread.
    pub fn worker(&self) -> Worker<'_> {
        Worker { bpe: self, scratch: Some(self.take_scratch()) }
    }

    /// The first ids of `text`, at most `max_tokens`, and how many bytes (after normalization) they spell. Reads no
    /// further than it needs, unless the pattern is a general regex.
    pub fn encode_start(&self, text: &[u8], max_tokens: usize, rules: &Rules) -> Result<(Vec<u32>, usize)> {
        let mut ids: Vec<u32> = Vec::new();
        let mut at = 0;
        let mut window = max_tokens.saturating_mul(4).max(256);
        let mut scratch = self.take_scratch();
        while at < text.len() && ids.len() < max_tokens {
            let end = at.saturating_add(window).min(text.len());
            let cut = if end == text.len() { Some(end) } else { self.last_cut(&text[..end], at) };
            match cut {
                Some(cut) => {
                    self.encode_range(&mut scratch, text, at, cut, rules, &mut ids, &Watch::default())?;
                    at = cut;
                }
                None => window = window.saturating_mul(2),
            }
        }
        self.keep_scratch(scratch);
        ids.truncate(max_tokens);
        let spelled = ids.iter().map(|&id| self.vocab.token(id).len()).sum();
        Ok((ids, spelled))
    }

    /// Append ids where each possible merge is left out with probability `dropout` at the moment it arises. The
    /// same seed gives the same ids; which merges are left out depends on the pretoken and its place in the text.
    pub fn encode_with_dropout(
        &self,
        text: &[u8],
        rules: &Rules,
        dropout: f64,
        seed: u64,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        if !(0.0..=1.0).contains(&dropout) {
            return Err(Error::config(format!("dropout is {dropout}, not between 0 and 1")));
        }
        let mut sink = DropoutSink { bpe: self, dropout, seed, out, queue: MergeQueue::default() };
        let mut start = 0;
        for found in self.special.find(rules, text, 0, text.len()) {
            let found = found?;
            let part = self.normalize(&text[start..found.start]);
            self.splitter.split_range(&part, 0, part.len(), &mut sink)?;
            sink.out.push(found.id);
            sink.seed = sink.seed.wrapping_add(found.end as u64);
            start = found.end;
        }
        let part = self.normalize(&text[start..]);
        self.splitter.split_range(&part, 0, part.len(), &mut sink)
    }

    #[allow(clippy::too_many_arguments)] // one call in three places, each value of another kind
    fn encode_range(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        from: usize,
        to: usize,
        rules: &Rules,
        out: &mut impl Output,
        watch: &Watch,
    ) -> Result<()> {
        let mut start = from;
        for found in self.special.find(rules, text, from, to) {
            let found = found?;
            self.encode_segment(scratch, text, start, found.start, out, watch)?;
            out.extend(&[found.id]);
            start = found.end;
        }
        self.encode_segment(scratch, text, start, to, out, watch)
    }

    /// The ids of `text[start..end]`, which holds no special token that counts.
    fn encode_segment(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        start: usize,
        end: usize,
        out: &mut impl Output,
        watch: &Watch,
    ) -> Result<()> {
        if self.nfc
            && let Cow::Owned(normalized) = normalize::nfc(&text[start..end])
        {
            return self.encode_pretokens(scratch, &normalized, 0, normalized.len(), out, watch);
        }
        self.encode_pretokens(scratch, text, start, end, out, watch)
    }

    fn encode_pretokens(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        start: usize,
        end: usize,
        out: &mut impl Output,
        watch: &Watch,
    ) -> Result<()> {
        scratch.num_waiting = 0;
        let mut sink = EncodeSink { bpe: self, scratch, out, watch };
        self.splitter.split_range(text, start, end, &mut sink)?;
        sink.flush(text);
        if scratch.cancelled { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Append the ids of one pretoken, without the cache. `false` if it was told to stop.
    #[inline]
    fn merge_pretoken(
        &self,
        long: &mut LongPretoken,
        pretoken: &[u8],
        out: &mut Vec<u32>,
        watch: &Watch,
    ) -> bool {
        if self.vocab.ignore_merges()
            && let Some(id) = self.vocab.token_id(pretoken)
        {
            out.push(id);
            return true;
        }
        self.merge_bytes(long, pretoken, out, watch)
    }

    /// Whether `pretoken` is one token although merges may say otherwise.
    fn is_whole_token(&self, pretoken: &[u8]) -> bool {
        self.vocab.ignore_merges() && self.vocab.token_id(pretoken).is_some()
    }

    /// The same where merges alone decide.
    #[inline]
    fn merge_bytes(&self, long: &mut LongPretoken, bytes: &[u8], out: &mut Vec<u32>, watch: &Watch) -> bool {
        if bytes.len() <= SHORT_PRETOKEN_MAX {
            let borders = if bytes.is_ascii() { None } else { Some(self.borders()) };
            short_pretoken::encode(&self.ranks, self.vocab.byte_ids(), borders, bytes, out);
            return true;
        }
        long.encode(&self.vocab, &self.ranks, bytes, out, || watch.cancelled())
    }

    fn borders(&self) -> &Borders {
        self.borders.get_or_init(|| Borders::new(&self.vocab, &self.ranks))
    }

    fn take_scratch(&self) -> Box<Scratch> {
        // A fork while another thread held the lock leaves it locked for ever: then a new one does.
        let kept = self.idle.try_lock().ok().and_then(|mut idle| idle.pop());
        kept.unwrap_or_else(|| {
            Box::new(Scratch {
                cache: Cache::new(self.cache_bytes, self.vocab.size()),
                waiting: [(0, 0, Probe::default()); BATCH],
                num_waiting: 0,
                ids: Vec::new(),
                long: LongPretoken::default(),
                cancelled: false,
            })
        })
    }

    fn keep_scratch(&self, mut scratch: Box<Scratch>) {
        static CORES: OnceLock<usize> = OnceLock::new();
        let most = *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
        scratch.cancelled = false;
        // A pretoken of a gigabyte leaves buffers of its size behind.
        if scratch.ids.capacity() > 1 << 16 {
            scratch.ids = Vec::new();
            scratch.long = LongPretoken::default();
        }
        if let Ok(mut idle) = self.idle.try_lock()
            && idle.len() < most
        {
            idle.push(scratch);
        }
    }

    /// Bytes held by (vocab, merges, caches of threads not at work, decoder).
    pub fn memory(&self) -> [(&'static str, usize); 4] {
        let cache = self.idle.try_lock().map_or(0, |idle| idle.iter().map(|s| s.cache.memory()).sum());
        [
            ("vocab", self.vocab.memory()),
            ("merges", self.ranks.memory() + self.borders.get().map_or(0, Borders::memory)),
            ("cache", cache),
            ("decoder", self.decoder.memory()),
        ]
    }
}

struct EncodeSink<'a, O> {
    bpe: &'a Bpe,
    scratch: &'a mut Scratch,
    out: &'a mut O,
    watch: &'a Watch,
}

impl<O: Output> EncodeSink<'_, O> {
    #[inline(never)]
    fn flush(&mut self, text: &[u8]) {
        for index in 0..self.scratch.num_waiting {
            let (start, end, probe) = self.scratch.waiting[index];
            let found = if end - start > SHORT_MAX {
                ([0; 4], ELSEWHERE)
            } else {
                self.scratch.cache.short(probe).unwrap_or_default()
            };
            match found {
                (ids, count @ 1..ELSEWHERE) => self.out.push_four(ids, count),
                _ if probe.is_piece() => self.encode_piece(text, start, end, probe),
                (_, ELSEWHERE) if self.scratch.cache.find(text, start, end, self.out) => {}
                _ => self.encode_unseen(&text[start..end]),
            }
        }
        self.scratch.num_waiting = 0;
        if self.scratch.cache.is_crowded() {
            self.scratch.cache.grow();
        }
    }

    #[inline(never)]
    fn encode_unseen(&mut self, pretoken: &[u8]) {
        self.scratch.ids.clear();
        let is_cut = pretoken.len() > SHORT_MAX && !pretoken.is_ascii() && self.encode_pieces(pretoken);
        let Scratch { ids, long, cache, cancelled, .. } = &mut *self.scratch;
        if !is_cut && !self.bpe.merge_pretoken(long, pretoken, ids, self.watch) {
            *cancelled = true;
        }
        // A sentence hardly comes twice; its pieces do, and they are in the cache already.
        if !is_cut || pretoken.len() <= MEDIUM_MAX {
            cache.insert(pretoken, ids);
        }
        self.out.extend(ids);
    }
}

impl<O: Output> EncodeSink<'_, O> {
    /// Cut `pretoken` where nothing merges and leave the ids of all pieces in the scratch; `false` and no ids if there
    /// is no such place, or if it is a token as a whole that no cutting may miss.
    fn encode_pieces(&mut self, pretoken: &[u8]) -> bool {
        let bpe = self.bpe;
        if bpe.is_whole_token(pretoken) {
            return false;
        }
        let mut ids = std::mem::take(&mut self.scratch.ids);
        bpe.borders().pieces(pretoken, |start, end| {
            if end - start < pretoken.len() {
                let probe = self.scratch.cache.probe_piece(pretoken, start, end - start);
                self.scratch.piece(bpe, pretoken, start, end, probe, &mut ids, self.watch);
            }
        });
        self.scratch.ids = ids;
        !self.scratch.ids.is_empty()
    }

    /// The same for the pretoken `text[start..end]`, whose pieces wait like pretokens.
    fn await_pieces(&mut self, text: &[u8], start: usize, end: usize) -> bool {
        let (bpe, pretoken) = (self.bpe, &text[start..end]);
        if pretoken.is_ascii() || bpe.is_whole_token(pretoken) {
            return false;
        }
        let mut is_cut = false;
        bpe.borders().pieces(pretoken, |first, last| {
            if last - first < pretoken.len() {
                is_cut = true;
                let probe = self.scratch.cache.probe_piece(text, start + first, last - first);
                self.wait(text, start + first, start + last, probe);
            }
        });
        is_cut
    }

    #[inline(never)]
    fn encode_piece(&mut self, text: &[u8], start: usize, end: usize, probe: Probe) {
        let mut ids = std::mem::take(&mut self.scratch.ids);
        ids.clear();
        self.scratch.piece(self.bpe, text, start, end, probe, &mut ids, self.watch);
        self.out.extend(&ids);
        self.scratch.ids = ids;
    }

    #[inline(always)]
    fn wait(&mut self, text: &[u8], start: usize, end: usize, probe: Probe) {
        let scratch = &mut *self.scratch;
        scratch.waiting[scratch.num_waiting] = (start, end, probe);
        scratch.num_waiting += 1;
        if scratch.num_waiting == BATCH {
            self.flush(text);
        }
    }
}

impl Scratch {
    /// Append the ids of the piece `text[start..end]` of a pretoken.
    #[inline]
    #[allow(clippy::too_many_arguments)] // what a sink has, without its output
    fn piece(
        &mut self,
        bpe: &Bpe,
        text: &[u8],
        start: usize,
        end: usize,
        probe: Probe,
        ids: &mut Vec<u32>,
        watch: &Watch,
    ) {
        let first = ids.len();
        let is_short = end - start <= SHORT_MAX;
        if is_short && let Some((known, count)) = self.cache.short(probe) {
            ids.extend_from_slice(&known[..count]);
            return;
        }
        if !is_short && self.cache.find_piece(text, start, end, ids) {
            return;
        }
        self.cancelled |= !bpe.merge_bytes(&mut self.long, &text[start..end], ids, watch);
        if is_short {
            self.cache.insert_short(probe, &ids[first..]);
        } else {
            self.cache.insert_piece(text, start, end, &ids[first..]);
        }
    }
}

impl<O: Output> Sink for EncodeSink<'_, O> {
    #[inline(always)]
    fn pretoken(&mut self, text: &[u8], start: usize, end: usize) {
        let len = end - start;
        let cache = &self.scratch.cache;
        let probe = if len <= SHORT_MAX {
            cache.probe(text, start, len)
        } else if len <= MEDIUM_MAX {
            cache.expect(text, start, len);
            Probe::default()
        } else if self.await_pieces(text, start, end) {
            return;
        } else {
            Probe::default()
        };
        self.wait(text, start, end, probe);
    }

    fn cancelled(&self) -> bool {
        self.scratch.cancelled || self.watch.cancelled()
    }
}

struct DropoutSink<'a> {
    bpe: &'a Bpe,
    dropout: f64,
    seed: u64,
    out: &'a mut Vec<u32>,
    queue: MergeQueue,
}

impl Sink for DropoutSink<'_> {
    fn pretoken(&mut self, text: &[u8], start: usize, end: usize) {
        // splitmix64, started anew for each pretoken so that nothing but its place decides.
        let mut state = self.seed ^ (start as u64).wrapping_mul(0xD1B5_4A32_D192_ED03);
        let mut keep = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut bits = state;
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let uniform = ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
            uniform >= self.dropout
        };
        let pretoken = &text[start..end];
        if self.dropout == 0.0 {
            // The whole-pretoken rule of `ignore_merges` holds only where nothing is left out.
            let long = &mut LongPretoken::default();
            self.bpe.merge_pretoken(long, pretoken, self.out, &Watch::default());
            return;
        }
        self.queue.encode_some(&self.bpe.ranks, self.bpe.vocab.byte_ids(), pretoken, self.out, &mut keep);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::reference;
    use crate::train::Ties;
    use crate::vocab::Tokens;

    /// Whole texts as one pretoken each, in scripts of one to four bytes a character, with tokens that were learned
    /// from pieces cut anywhere: tokens that end inside characters, caches of any size, cuts where nothing merges.
    #[test]
    fn encoding_agrees_with_the_reference() {
        let mut state = 7u64;
        let mut random = move |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let splitter = Splitter::new(r"[\s\S]+", &[]).unwrap();
        let mut alphabet: Vec<&[u8]> = "a b - é ы ж 世 界 你 好 😀 ǆ".split(' ').map(str::as_bytes).collect();
        alphabet.extend([&b" "[..], b"\x82", b"\xBF", b"\xE4\xB8"]);
        for round in 0..120 {
            let used = 2 + random(alphabet.len() - 1);
            let mut text = |max: usize| -> Vec<u8> {
                let len = 1 + random(max);
                (0..len).flat_map(|_| alphabet[random(used)]).copied().collect()
            };
            let words: Vec<Vec<u8>> = (0..12).map(|_| text(12)).collect();
            let texts: Vec<Vec<u8>> = (0..30).map(|index| text(if index < 20 { 12 } else { 90 })).collect();
            let cut = |word: &Vec<u8>, random: &mut dyn FnMut(usize) -> usize| match round % 3 {
                0 => word.clone(),
                _ => word[random(word.len())..].to_vec(),
            };
            let words: Vec<Vec<u8>> = words.iter().map(|word| cut(word, &mut random)).collect();
            let counts: Vec<(&[u8], u64)> = words.iter().map(|word| (word.as_slice(), 1)).collect();
            let mut merges = reference::train(&counts, 256 + 60, Ties::LowestIds);
            let mut tokens = Tokens::default();
            (0..=255u8).for_each(|byte| tokens.push(&[byte]).unwrap());
            for &(left, right, joined) in &merges {
                assert_eq!(joined as usize, tokens.len());
                let token = [tokens.get(left), tokens.get(right)].concat();
                tokens.push(&token).unwrap();
            }
            if round % 4 == 3 {
                let (a, b) = (random(merges.len()), random(merges.len()));
                merges.swap(a, b);
            }
            let vocab = Arc::new(Vocab::new(tokens, merges.clone(), &HashMap::new(), false).unwrap());
            for cache_bytes in [0, 1 << 12, 1 << 17, 1 << 22] {
                let bpe = Bpe::new(vocab.clone(), &splitter, false, cache_bytes).unwrap();
                for text in texts.iter().chain(&texts) {
                    let mut ids: Vec<u32> = Vec::new();
                    bpe.encode(text, &Rules::ordinary(), &mut ids, &Watch::default()).unwrap();
                    let expected = reference::encode(text, vocab.byte_ids(), &merges);
                    assert_eq!(
                        ids,
                        expected,
                        "round {round}: {:?} {merges:?}",
                        String::from_utf8_lossy(text)
                    );
                }
            }
        }
    }
}
