//! The two long parts of a tokenizer.json become a vocab: letters turned into bytes, merges into ids.

use std::collections::{HashMap, HashSet};

use super::origin::{Origin, shortened, show};
use super::tokenizer_json::{Keys, MergeParts};
use super::{Merge, Vocab, assemble};
use crate::error::{Error, Result};

pub use super::tokenizer_json::read_tokenizer_json;

/// `model.vocab` and `model.merges`, as the file has them.
pub struct TokenizerModel {
    pub(super) file: String,
    pub(super) keys: Keys,
    pub(super) merges: MergeParts,
}

impl TokenizerModel {
    /// Letters turned into bytes, `added_tokens`, in the order of the file, taken as they are spelled.
    pub fn vocab(&self, added_tokens: &[(String, u32)], ignore_merges: bool) -> Result<Vocab> {
        let file = &self.file;
        if let Some(problem) = self.keys.problem.as_ref().or(self.merges.problem.as_ref()) {
            return Err(Error::format(format!("`{file}` {problem}")));
        }
        let origin = Origin::TokenizerJson { file: file.clone() };
        let special_tokens: &HashMap<String, u32> = &added_tokens.iter().cloned().collect();
        self.check_ids(added_tokens, special_tokens)?;
        let (mut text, mut spans) = (Vec::new(), Vec::new());
        for (key, id) in self.keys.iter() {
            if let Some(&given) = special_tokens.get(key) {
                if given != id {
                    let (place, key) = (origin.tokens(), shortened(key));
                    return Err(Error::format(format!(
                        "{place}: `{key}` has id {id} here and {given} in `added_tokens`"
                    )));
                }
                continue;
            }
            let start = text.len();
            if key.is_empty() {
                return Err(Error::format(format!("{}: id {id} is the empty string", origin.tokens())));
            }
            append_bytes(key, &mut text).map_err(|letter| {
                let problem = not_byte_level(&shortened(key), letter);
                Error::format(format!("{}: token {problem}", origin.tokens()))
            })?;
            spans.push((id, start, text.len()));
        }
        let ordinary = spans.iter().map(|&(id, start, end)| (id, &text[start..end])).collect();
        let tokens = assemble(ordinary, special_tokens, &origin)?;
        let vocab = Vocab::of_tokens(tokens, special_tokens, &origin)?;
        let merges = self.merges_by_ids(&vocab, &origin)?;
        vocab.with_merges(merges, ignore_merges, &origin)
    }

    /// Hugging Face does not read the id of an added token: one that the vocab lacks gets the next number.
    fn check_ids(&self, added_tokens: &[(String, u32)], special_tokens: &HashMap<String, u32>) -> Result<()> {
        let keys = self.keys.iter().map(|(key, _)| key);
        let known: HashSet<&str> = keys.filter(|key| special_tokens.contains_key(*key)).collect();
        let mut next = self.keys.len();
        for (index, (token, id)) in added_tokens.iter().enumerate() {
            if known.contains(token.as_str()) {
                continue;
            }
            if *id as usize != next {
                let (file, token) = (&self.file, shortened(token));
                return Err(Error::format(format!(
                    "`{file}` at `added_tokens[{index}]`: `{token}` has id {id}, but it is not in `model.vocab`, \
                     so Hugging Face gives it id {next}"
                ))
                .hint("put it into `model.vocab` with the id that is meant"));
            }
            next += 1;
        }
        Ok(())
    }

    fn merges_by_ids(&self, vocab: &Vocab, origin: &Origin) -> Result<Vec<Merge>> {
        let text = &self.merges.text;
        let token_id = |start: usize, end: usize| {
            vocab.ids.get_within(&vocab.text, &vocab.ends, text, start, end - start)
        };
        let mut merges = Vec::with_capacity(self.merges.ends.len());
        let mut start = 0;
        for (rank, &(middle, end)) in self.merges.ends.iter().enumerate() {
            match (token_id(start, middle), token_id(middle, end), token_id(start, end)) {
                (Some(left), Some(right), Some(joined)) => merges.push((left, right, joined)),
                (left, right, _) => {
                    let unknown = match (left, right) {
                        (None, _) => &text[start..middle],
                        (_, None) => &text[middle..end],
                        _ => &text[start..end],
                    };
                    let joins = origin.joins(rank, &text[start..middle], &text[middle..end]);
                    let why =
                        match vocab.special_tokens.iter().any(|(special, _)| special.as_bytes() == unknown) {
                            true => "a special token",
                            false => "not in the vocab",
                        };
                    return Err(Error::format(format!("{joins}, but {} is {why}", show(unknown))));
                }
            }
            start = end;
        }
        Ok(merges)
    }
}

pub(super) fn not_byte_level(part: &str, letter: char) -> String {
    format!("`{part}` is not byte-level: `{letter}` (U+{:04X}) stands for no byte", u32::from(letter))
}

/// GPT-2's letters: a byte that is a visible Latin-1 character stands for itself, the other 68, in order, are the
/// letters from U+0100 on. `Err` is the first character that is none of them.
pub(super) fn append_bytes(letters: &str, out: &mut Vec<u8>) -> std::result::Result<(), char> {
    for letter in letters.chars() {
        let byte = match u32::from(letter) {
            code @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => code as u8,
            code @ 0x100..=0x120 => (code - 0x100) as u8,
            code @ 0x121..=0x142 => (code - 0x121 + 0x7F) as u8,
            0x143 => 0xAD,
            _ => return Err(letter),
        };
        out.push(byte);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(byte: u8) -> char {
        let visible = |b: u8| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        match visible(byte) {
            true => byte as char,
            false => {
                let before = (0..byte).filter(|&b| !visible(b)).count() as u32;
                char::from_u32(0x100 + before).unwrap()
            }
        }
    }

    fn document(extra: &str, merges: &str) -> String {
        let vocab: Vec<String> = (0..=255u8)
            .map(|byte| format!("{}:{byte}", serde_json::to_string(&letter(byte).to_string()).unwrap()))
            .collect();
        let vocab = vocab.join(",");
        format!(
            r#"{{"version": "1.0", "model": {{"type":"BPE", "vocab": {{{vocab}{extra}}}, "merges": {merges}}}, "x": [1, {{}}]}}"#
        )
    }

    fn vocab(extra: &str, merges: &str, special: &[(&str, u32)]) -> Result<Vocab> {
        let (_, model) = read_tokenizer_json(document(extra, merges).as_bytes(), "f")?;
        model.vocab(&special.iter().map(|(text, id)| (text.to_string(), *id)).collect::<Vec<_>>(), false)
    }

    #[test]
    fn letters_are_one_to_one() {
        for byte in 0..=255 {
            let mut out = Vec::new();
            append_bytes(&letter(byte).to_string(), &mut out).unwrap();
            assert_eq!(out, [byte]);
        }
        for other in [' ', '\u{7f}', '\u{ad}', '\u{144}', '日', '😀'] {
            assert_eq!(append_bytes(&other.to_string(), &mut Vec::new()), Err(other));
        }
    }

    #[test]
    fn two_parts() {
        let (rest, _) = read_tokenizer_json(document("", "[]").as_bytes(), "f").unwrap();
        assert_eq!(
            rest,
            r#"{"version":"1.0","model":{"type":"BPE","vocab":null,"merges":null},"x":[1, {}]}"#
        );
    }

    #[test]
    fn merges_of_both_kinds() {
        let extra = r#","Ġt":256,"<s>":258,"Ġth":257,"日":260"#;
        let read = vocab(extra, r#"[["Ġ","t"], "Ġt h"]"#, &[("<s>", 258), ("日", 260), ("x", 260)]);
        assert!(read.is_err(), "x is not in the vocab, and its number would be 260");
        let read = vocab(extra, r#"[["Ġ","t"], "Ġt h"]"#, &[("<s>", 258), ("日", 260)]).unwrap();
        assert_eq!(read.merges(), [(32, 116, 256), (256, 104, 257)]);
        assert_eq!(
            (read.token(258), read.token(259), read.token(260)),
            (&b"<s>"[..], &b""[..], "日".as_bytes())
        );
    }

    #[test]
    fn places() {
        for (extra, merges, special, message) in [
            ("", r#"["a b c"]"#, &[][..], "`f` at `model.merges[0]`: expected two tokens, found `\"a b c\"`"),
            ("", r#"[["a"]]"#, &[], "`f` at `model.merges[0]`: expected two tokens, found a list of 1"),
            ("", r#"[["a", 3]]"#, &[], "`f` at `model.merges[0]`: expected two tokens, found `3`"),
            ("", "[null]", &[], "`f` at `model.merges[0]`: expected two tokens, found `null`"),
            ("", r#"[["a", "日"]]"#, &[], "`f` at `model.merges[0]`: `日` is not byte-level: `日` (U+65E5)"),
            ("", "{}", &[], "`f` at `model.merges`: expected a list, found `{}`"),
            ("", r#"[["a", "b"]]"#, &[], "`f` at `model.merges[0]` joins `a` and `b`, but `ab` is not in"),
            (
                r#","ab":256"#,
                r#"[["a","b"],["a","b"]]"#,
                &[],
                "`f` at `model.merges[1]` joins `a` and `b`, as `f` at",
            ),
            (r#","a":300"#, "[]", &[], "`f` at `model.vocab` has 257 tokens up to id 300, but no id 256"),
            (r#","a":256"#, "[]", &[], "`f` at `model.vocab`: the key of `a` stands twice"),
            (r#","a":97"#, "[]", &[], "`f` at `model.vocab`: the key of `a` stands twice"),
            (r#","ab":97"#, "[]", &[], "`f` at `model.vocab`: id 97 is given to"),
            (r#","ab":1e3"#, "[]", &[], "`f` at `model.vocab`: the id of `ab` is `1000`, not a whole number"),
            (r#","ab":-1"#, "[]", &[], "`f` at `model.vocab`: the id of `ab` is `-1`, not a whole number"),
            (r#","":256"#, "[]", &[], "`f` at `model.vocab`: id 256 is the empty string"),
            (
                r#","<s>":256"#,
                "[]",
                &[("<s>", 257)],
                "`f` at `model.vocab`: `<s>` has id 256 here and 257 in",
            ),
            (
                "",
                "[]",
                &[("<s>", 7)],
                "`f` at `added_tokens[0]`: `<s>` has id 7, but it is not in `model.vocab`, so",
            ),
            (
                "",
                "[]",
                &[("<s>", 257)],
                "`f` at `added_tokens[0]`: `<s>` has id 257, but it is not in `model.vocab`",
            ),
            ("", "[], \"vocab\": {}", &[], "`f` at `model`: key `vocab` stands twice"),
            ("", "[], \"type\": 1", &[], "`f` at `model`: key `type` stands twice"),
            ("", "[", &[], "`f` is not JSON: "),
        ] {
            let error = vocab(extra, merges, special).err().expect(message).to_string();
            assert!(error.starts_with(message), "{error} / {message}");
        }
        for (text, message) in [
            ("", "`f` is not JSON: EOF while parsing a value at line 1, column 0"),
            ("[]", "`f`: expected an object, found `[]`"),
            ("null", "`f`: expected an object, found `null`"),
            ("{\"model\": 3}", "`f` at `model`: expected an object, found `3`"),
            ("{\"model\": {}} x", "`f` is not JSON: trailing characters at line 1, column 15"),
            ("{\"a\": 1, \"a\": 2}", "`f`: key `a` stands twice in one object"),
            ("{\"model\": {\"vocab\": {\"\\ud800\": 1}}}", "`f` is not JSON: "),
        ] {
            let error = read_tokenizer_json(text.as_bytes(), "f").err().expect(message).to_string();
            assert!(error.starts_with(message), "{error} / {message}");
        }
        assert!(read_tokenizer_json(b"\xff{}", "f").is_err());
        let deep = "[".repeat(100_000);
        assert!(read_tokenizer_json(deep.as_bytes(), "f").is_err());
        assert!(read_tokenizer_json(format!("{{\"model\":{{\"vocab\":{deep}").as_bytes(), "f").is_err());
        assert!(read_tokenizer_json(format!("{{\"model\":{{\"merges\":{deep}").as_bytes(), "f").is_err());
    }
}
