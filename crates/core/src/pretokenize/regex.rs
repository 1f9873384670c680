//! Any regex that is not a named pattern, with look-around, through `fancy-regex`.

use fancy_regex::{Regex, RegexBuilder};

use super::{Sink, dialect};
use crate::error::{Error, Result};
use crate::unicode::decode;

/// Stands for a byte that is not part of valid UTF-8: unassigned, so neither letter, nor number, nor space.
const INVALID_BYTE: char = '\u{10FFFF}';

/// Steps one match may take back before it is given up as exploding.
const BACKTRACK_LIMIT: usize = 50_000_000;

pub struct GeneralRegex {
    regex: Regex,
}

impl GeneralRegex {
    pub fn new(pattern: &str) -> Result<Self> {
        let spelling = dialect::for_engine(pattern)?;
        let regex = RegexBuilder::new(&spelling).backtrack_limit(BACKTRACK_LIMIT).build().map_err(|e| {
            Error::config(format!("pattern `{pattern}` is neither a named pattern nor a regex: {e}"))
        })?;
        match regex.is_match("") {
            Ok(false) => Ok(Self { regex }),
            Ok(true) => Err(Error::config(format!("pattern `{pattern}` matches the empty string"))
                .hint("every match must take at least one character: use `+` in place of `*`")),
            Err(e) => Err(Error::config(format!("pattern `{pattern}` cannot run: {e}"))),
        }
    }

    /// The pretokens of `text[start..end]`, seen by the regex as a text of its own.
    pub fn split(&self, text: &[u8], start: usize, end: usize, sink: &mut impl Sink) -> Result<()> {
        let part = &text[start..end];
        match simdutf8::basic::from_utf8(part) {
            Ok(valid) => self.split_str(valid, |at| start + at, &text[..end], sink),
            Err(_) => {
                let (stand_in, places) = with_stand_ins(part);
                let original = |at: usize| match places.binary_search_by_key(&at, |p| p.0) {
                    Ok(exact) => start + places[exact].1,
                    Err(0) => start + at,
                    Err(next) => start + places[next - 1].1 + (at - places[next - 1].0),
                };
                self.split_str(&stand_in, original, &text[..end], sink)
            }
        }
    }

    fn split_str(
        &self,
        text: &str,
        original: impl Fn(usize) -> usize,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> Result<()> {
        let mut at = 0;
        let mut given = 0;
        while at < text.len() {
            if given % 1024 == 1023 && sink.cancelled() {
                return Err(Error::Cancelled);
            }
            given += 1;
            let found = self.regex.find_from_pos(text, at).map_err(|e| {
                Error::source(format!("the split pattern gave up at byte {}: {e}", original(at)))
                    .hint("the regex needs too many steps on this text; simplify its repetitions")
            })?;
            let Some(found) = found else { break };
            if found.start() == found.end() {
                return Err(Error::config(format!(
                    "the split pattern matches the empty string at byte {}",
                    original(found.start())
                )));
            }
            if found.start() > at {
                sink.pretoken(bytes, original(at), original(found.start()));
                sink.unmatched();
            }
            sink.pretoken(bytes, original(found.start()), original(found.end()));
            at = found.end();
        }
        if at < text.len() {
            sink.pretoken(bytes, original(at), bytes.len());
            sink.unmatched();
        }
        Ok(())
    }
}

/// `text` with a stand-in for each invalid byte, and (position there, position in `text`) right after each one.
fn with_stand_ins(text: &[u8]) -> (String, Vec<(usize, usize)>) {
    let mut stand_in = String::with_capacity(text.len() + 16);
    let mut places = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match decode(&text[at..]) {
            Some((code_point, len)) => {
                stand_in.push(char::from_u32(code_point).expect("decode gives characters"));
                at += len;
            }
            None => {
                stand_in.push(INVALID_BYTE);
                at += 1;
                places.push((stand_in.len(), at));
            }
        }
    }
    (stand_in, places)
}
