//! The merge loop against a full recount, on small random corpora full of ties, runs and shared ids, with the
//! threshold for forgetting pairs set so that rebuilds happen never, sometimes and all the time.

use tokenmill_core::count::{PretokenCounts, Watch};
use tokenmill_core::reference;
use tokenmill_core::train::{Options, Ties, train_merges, train_merges_from};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn corpus(&mut self) -> Vec<(Vec<u8>, u64)> {
        let alphabet = 1 + self.below(4);
        let longest = [4, 9, 30, 300][self.below(4) as usize];
        let words = 1 + self.below(12);
        let mut corpus: Vec<(Vec<u8>, u64)> = (0..words)
            .map(|_| {
                let len = 1 + self.below(longest);
                let word =
                    (0..len).map(|_| [b'a', b' ', 0xFF, 0xAD][self.below(alphabet) as usize]).collect();
                (word, 1 + self.below(5))
            })
            .collect();
        corpus.sort();
        corpus.dedup_by(|a, b| a.0 == b.0);
        corpus
    }
}

#[test]
fn every_tie_rule_and_every_threshold() {
    let mut random = Random(7);
    let mut early = 0;
    for round in 0..1500 {
        let corpus = random.corpus();
        let pairs: Vec<(&[u8], u64)> = corpus.iter().map(|(w, c)| (w.as_slice(), *c)).collect();
        let counts = PretokenCounts::from_pairs(pairs.iter().copied()).unwrap();
        let num_tokens = 256 + random.below(40) as usize;
        for ties in [Ties::LowestIds, Ties::HuggingFace, Ties::GreatestBytes] {
            let expected = reference::train(&pairs, num_tokens, ties);
            for forget in [0.0, 0.2, 3.0, 100.0] {
                let options = Options { forget, ..Options::new(num_tokens, ties) };
                let merges = train_merges(&counts, &options, &Watch::default()).unwrap();
                assert_eq!(merges.triples, expected, "round {round}, {ties:?}, forget {forget}: {corpus:?}");
                // From single bytes no two merges spell the same bytes; docs/decisions has the proof.
                assert_eq!(merges.first_shared, None);
                early += u32::from(merges.tokens.len() < num_tokens);
            }
        }
    }
    assert!(early > 500, "the corpora no longer end early: {early}");
}

/// Words cut into tokens at random, so that the same bytes come together in different ways.
#[test]
fn merges_that_spell_the_same_bytes_share_an_id() {
    let mut random = Random(5);
    let mut tokens: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte]).collect();
    tokens.extend(["ab", "ba", "aa", "bb", "aba", "abab"].map(|t| t.as_bytes().to_vec()));
    let mut shared = 0;
    for round in 0..1500 {
        let words: Vec<(Vec<u32>, u64)> = (0..1 + random.below(10))
            .map(|_| {
                let ids = (0..1 + random.below(14)).map(|_| match random.below(3) {
                    0 => 256 + random.below(6) as u32,
                    _ => u32::from(b'a') + random.below(2) as u32,
                });
                (ids.collect(), 1 + random.below(4))
            })
            .collect();
        let num_tokens = tokens.len() + random.below(30) as usize;
        for ties in [Ties::LowestIds, Ties::HuggingFace, Ties::GreatestBytes] {
            let expected = reference::train_from(tokens.clone(), words.clone(), num_tokens, ties);
            for forget in [0.0, 0.2, 3.0, 100.0] {
                let options = Options { forget, ..Options::new(num_tokens, ties) };
                let merges = train_merges_from(tokens.clone(), &words, &options, &Watch::default()).unwrap();
                assert_eq!(merges.triples, expected, "round {round}, {ties:?}, forget {forget}: {words:?}");
                shared += merges.triples.len() - (merges.tokens.len() - tokens.len());
            }
        }
    }
    assert!(shared > 5_000, "shared ids are no longer exercised: {shared}");
}

#[test]
fn training_tokens_are_those_of_the_text() {
    let mut random = Random(11);
    for _ in 0..300 {
        let corpus = random.corpus();
        let pairs: Vec<(&[u8], u64)> = corpus.iter().map(|(w, c)| (w.as_slice(), *c)).collect();
        let counts = PretokenCounts::from_pairs(pairs.iter().copied()).unwrap();
        let merges = train_merges(&counts, &Options::new(280, Ties::LowestIds), &Watch::default()).unwrap();
        let byte_ids: [u32; 256] = std::array::from_fn(|i| i as u32);
        let tokens: u128 = pairs
            .iter()
            .map(|(word, count)| {
                reference::encode(word, &byte_ids, &merges.triples).len() as u128 * u128::from(*count)
            })
            .sum();
        assert_eq!(merges.training_tokens, tokens, "{corpus:?}");
    }
}

#[test]
fn counts_beyond_two_to_the_32_stay_exact() {
    let big = 1u64 << 33;
    let pairs: [(&[u8], u64); 3] = [(b"ab", big), (b"bc", big + 1), (b"abc", 1)];
    let counts = PretokenCounts::from_pairs(pairs).unwrap();
    let merges = train_merges(&counts, &Options::new(258, Ties::LowestIds), &Watch::default()).unwrap();
    assert_eq!(merges.triples[0], (b'b'.into(), b'c'.into(), 256));
    assert_eq!(merges.counts, [big + 2, big]);
}
