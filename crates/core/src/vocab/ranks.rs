//! Tokens by rank, as tiktoken keeps them, in a file or in memory. Their merges follow from them ([`super::merging`]).

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::merging::{UsedMerges, merges_by_bytes};
use super::origin::{Origin, shortened, show};
use super::{Tokens, Vocab, assemble};
use crate::error::{Error, Result};

impl Vocab {
    /// `tokens[rank]`, empty where a special token has the id. A token that no merges lead to is only found when it
    /// is a whole pretoken, which tiktoken looks up first: then `ignore_merges` holds.
    pub fn from_ranks<T: AsRef<[u8]>>(tokens: &[T], special_tokens: &HashMap<String, u32>) -> Result<Self> {
        if tokens.len() >= u32::MAX as usize / 2 {
            return Err(Error::vocab(format!("{} tokens are more than 2^31", tokens.len())));
        }
        let ordinary = tokens.iter().enumerate().map(|(rank, token)| (rank as u32, token.as_ref()));
        let ordinary = ordinary.filter(|(_, token)| !token.is_empty()).collect();
        by_bytes(assemble(ordinary, special_tokens, &Origin::Caller)?, special_tokens, &Origin::Caller)
    }

    /// The same from the bytes of a tiktoken file: in each line a token in base64, a space, its rank.
    pub fn read_ranks(data: &[u8], special_tokens: &HashMap<String, u32>, file: &str) -> Result<Self> {
        let origin = Origin::Ranks { file: file.to_owned() };
        let ranks = Ranks::parse(data, file)?;
        let tokens = assemble(ranks.in_order(file)?, special_tokens, &origin)?;
        by_bytes(tokens, special_tokens, &origin).map_err(|error| ranks.repeated_token(file).unwrap_or(error))
    }
}

fn by_bytes(tokens: Tokens, special_tokens: &HashMap<String, u32>, origin: &Origin) -> Result<Vocab> {
    let mut vocab = Vocab::of_tokens(tokens, special_tokens, origin)?;
    let (merges, unreachable) = merges_by_bytes(&vocab);
    vocab.ignore_merges = !unreachable.is_empty();
    vocab.used = OnceLock::from(UsedMerges { ranks: (0..merges.len() as u32).collect(), unreachable });
    // What `with_merges` checks holds by construction: each token has one merge, of tokens that spell it.
    vocab.merges = merges;
    Ok(vocab)
}

/// The lines of a file, their tokens end to end.
struct Ranks {
    text: Vec<u8>,
    /// (rank, end of the token in `text`, line)
    lines: Vec<(u32, usize, usize)>,
}

impl Ranks {
    fn parse(data: &[u8], file: &str) -> Result<Self> {
        let mut ranks = Ranks { text: Vec::with_capacity(data.len() / 2), lines: Vec::new() };
        for (index, line) in data.split(|&byte| byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let parsed = line.iter().position(|&byte| byte == b' ').and_then(|space| {
                let rank = parse_rank(&line[space + 1..])?;
                decode_base64(&line[..space], &mut ranks.text).then_some(rank)
            });
            let rank = parsed.ok_or_else(|| not_a_line(file, index + 1, line))?;
            ranks.lines.push((rank, ranks.text.len(), index + 1));
        }
        Ok(ranks)
    }

    /// (rank, token, line) of every line.
    fn iter(&self) -> impl Iterator<Item = (u32, &[u8], usize)> {
        let mut start = 0;
        self.lines.iter().map(move |&(rank, end, line)| {
            let token = &self.text[start..end];
            start = end;
            (rank, token, line)
        })
    }

    /// (rank, token) by rank, each rank once.
    fn in_order(&self, file: &str) -> Result<Vec<(u32, &[u8])>> {
        let mut by_rank: Vec<(u32, &[u8], usize)> = self.iter().collect();
        by_rank.sort_by_key(|(rank, _, line)| (*rank, *line));
        if let Some(two) = by_rank.windows(2).find(|two| two[0].0 == two[1].0) {
            let (rank, line, first) = (two[0].0, two[1].2, two[0].2);
            return Err(Error::format(format!(
                "`{file}` line {line} gives rank {rank}, as line {first} does already"
            )));
        }
        Ok(by_rank.into_iter().map(|(rank, token, _)| (rank, token)).collect())
    }

    /// What to say where two lines hold the same token, which the vocab's own check finds out.
    fn repeated_token(&self, file: &str) -> Option<Error> {
        let mut seen = HashSet::new();
        let (_, token, line) = self.iter().find(|(_, token, _)| !seen.insert(*token))?;
        Some(Error::format(format!("`{file}` line {line} gives {} a second rank", show(token))))
    }
}

fn not_a_line(file: &str, number: usize, line: &[u8]) -> Error {
    let found = shortened(&line[..line.len().min(400)].escape_ascii().to_string());
    Error::format(format!("`{file}` line {number} is not a base64 token and a rank: `{found}`"))
}

fn parse_rank(digits: &[u8]) -> Option<u32> {
    // `str::parse` alone would take a sign.
    let digits = digits.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(digits).ok())??;
    digits.parse().ok()
}

/// Append what `encoded` stands for to `out`. `false` if it is empty or not base64.
fn decode_base64(encoded: &[u8], out: &mut Vec<u8>) -> bool {
    if encoded.is_empty() || !encoded.len().is_multiple_of(4) {
        return false;
    }
    let padding = encoded.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let (digits, end) = (&encoded[..encoded.len() - padding], out.len() + encoded.len() / 4 * 3 - padding);
    for chunk in digits.chunks(4) {
        let mut bits = 0u32;
        for &digit in chunk {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return false,
            };
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * (4 - chunk.len());
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    out.truncate(end);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::Merge;

    fn bytes() -> Vec<Vec<u8>> {
        (0..=255u8).map(|byte| vec![byte]).collect()
    }

    fn with(tokens: &[&str]) -> Vec<Vec<u8>> {
        bytes().into_iter().chain(tokens.iter().map(|token| token.as_bytes().to_vec())).collect()
    }

    /// tiktoken's rule, as plainly as it can be said.
    fn encode_by_bytes(text: &[u8], ranks: &HashMap<&[u8], u32>) -> Vec<u32> {
        if let Some(&rank) = ranks.get(text) {
            return vec![rank];
        }
        let mut parts: Vec<&[u8]> = text.chunks(1).collect();
        loop {
            let mut best: Option<(u32, usize)> = None;
            let mut start = 0;
            for at in 0..parts.len().saturating_sub(1) {
                let both = &text[start..start + parts[at].len() + parts[at + 1].len()];
                if let Some(&rank) = ranks.get(both)
                    && best.is_none_or(|(lowest, _)| rank < lowest)
                {
                    best = Some((rank, at));
                }
                start += parts[at].len();
            }
            let Some((_, at)) = best else { break };
            let start: usize = parts[..at].iter().map(|part| part.len()).sum();
            parts[at] = &text[start..start + parts[at].len() + parts[at + 1].len()];
            parts.remove(at + 1);
        }
        parts.iter().map(|part| ranks[part]).collect()
    }

    fn encode_by_pair(text: &[u8], vocab: &Vocab) -> Vec<u32> {
        if vocab.ignore_merges()
            && let Some(id) = vocab.token_id(text)
        {
            return vec![id];
        }
        crate::reference::encode(text, vocab.byte_ids(), vocab.merges())
    }

    #[test]
    fn merges_found_give_the_ids_that_joining_by_bytes_gives() {
        let mut state = 7u64;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let (mut unreachable, mut unordered) = (0, 0);
        for _ in 0..300 {
            let mut word =
                |most: u64| -> Vec<u8> { (0..2 + random(most)).map(|_| b'a' + random(2) as u8).collect() };
            let mut tokens = bytes();
            for _ in 0..12 {
                let token = word(5);
                if !tokens.contains(&token) {
                    tokens.push(token);
                }
            }
            let vocab = Vocab::from_ranks(&tokens, &HashMap::new()).unwrap();
            unreachable += usize::from(vocab.ignore_merges());
            unordered += usize::from(vocab.unordered_merge().is_some());
            let ranks =
                tokens.iter().enumerate().map(|(rank, token)| (token.as_slice(), rank as u32)).collect();
            for _ in 0..20 {
                let text = word(20);
                assert_eq!(
                    encode_by_pair(&text, &vocab),
                    encode_by_bytes(&text, &ranks),
                    "{text:?} {tokens:?}"
                );
            }
        }
        assert!(unreachable > 30 && unordered > 30, "{unreachable} {unordered}");
    }

    #[test]
    fn one_merge_for_each_token() {
        let vocab = Vocab::from_ranks(&with(&["ab", "bc", "abc", "xyz"]), &HashMap::new()).unwrap();
        let expected: &[Merge] = &[(97, 98, 256), (98, 99, 257), (256, 99, 258)];
        assert_eq!(
            (vocab.merges(), vocab.unreachable(), vocab.ignore_merges()),
            (expected, &[259][..], true)
        );
    }

    #[test]
    fn long_tokens_take_the_same_steps() {
        let runs: Vec<String> = (1..18).map(|power| "a".repeat(1 << power)).collect();
        let tokens = with(&runs.iter().map(String::as_str).collect::<Vec<_>>());
        let vocab = Vocab::from_ranks(&tokens, &HashMap::new()).unwrap();
        let expected: Vec<Merge> = (256..273).map(|id| (id.max(257) - 1, id.max(257) - 1, id)).collect();
        assert_eq!(vocab.merges()[1..], expected[1..]);
        assert_eq!(vocab.merges()[0], (97, 97, 256));
        let again = Vocab::new(
            {
                let mut all = Tokens::default();
                tokens.iter().for_each(|token| all.push(token).unwrap());
                all
            },
            vocab.merges().to_vec(),
            &HashMap::new(),
            false,
        );
        assert!(again.unwrap().unreachable().is_empty());
    }

    #[test]
    fn files() {
        let mut lines: Vec<String> = Vec::new();
        for byte in 0..=255u8 {
            const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let (one, two) = (DIGITS[usize::from(byte >> 2)], DIGITS[usize::from(byte & 3) << 4]);
            lines.push(format!("{}{}== {byte}", one as char, two as char));
        }
        let read = |extra: &str, special: &[(&str, u32)]| {
            let special = special.iter().map(|(text, id)| (text.to_string(), *id)).collect();
            Vocab::read_ranks((lines.join("\n") + "\n" + extra).as_bytes(), &special, "f")
        };
        let vocab = read("dGhl 257\r\n\ndGg= 256", &[("<s>", 259)]).unwrap();
        assert_eq!(
            (vocab.token(256), vocab.token(257), vocab.token(258)),
            (&b"th"[..], &b"the"[..], &b""[..])
        );
        assert_eq!(vocab.merges(), [(116, 104, 256), (256, 101, 257)]);
        for (extra, special, message) in [
            ("YWI= 256\nYg 257", &[][..], "`f` line 258 is not a base64 token and a rank: `Yg 257`"),
            ("YWI= -1", &[], "`f` line 257 is not a base64 token and a rank: `YWI= -1`"),
            ("YWI= 4294967296", &[], "`f` line 257 is not"),
            ("YW=I 256", &[], "`f` line 257 is not"),
            ("==== 256", &[], "`f` line 257 is not"),
            (" 256", &[], "`f` line 257 is not"),
            ("YQ== 256", &[], "`f` line 257 gives `a` a second rank"),
            ("YWI= 7", &[], "`f` line 257 gives rank 7, as line 8 does already"),
            ("YWI= 257", &[], "`f` has ranks up to 257, but no rank 256"),
            ("YWI= 257", &[("<s>", 257)], "`f` has ranks up to 257, but no rank 256"),
            ("YWI= 256", &[("<s>", 256)], "`f`: special token `<s>` has id 256, which spells `ab`"),
            ("YWI= 256", &[("<s>", 4_000_000_000)], "`f`: special token `<s>` has id 4000000000, far above"),
        ] {
            let error = read(extra, special).err().expect(extra).to_string();
            assert!(error.starts_with(message), "{error} / {message}");
        }
        assert!(read("YWI= 257", &[("<s>", 256)]).is_ok());
    }
}
