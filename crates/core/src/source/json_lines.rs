//! One JSON object a line, the document in one of its fields; or the object itself, for those who need all of it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::block::{BadRecord, Layout, Piece, Place, REPLACE_HINT, Raw, Text};
use super::lines::Window;
use super::{FileInput, Input, Source, Want};
use crate::error::Result;

pub struct JsonLines {
    name: Arc<str>,
    /// `None`: a document is the whole line.
    field: Option<Arc<str>>,
    window: Window,
    end: u64,
    /// Number of the line at the start of the window, counted from where this source started.
    line: u64,
    /// Where to count the lines before `start`, should a message need a line number.
    path: Option<(Arc<str>, u64)>,
    done: bool,
}

impl JsonLines {
    pub fn new(input: Box<dyn Input>, name: &str, field: Option<&str>) -> Self {
        let window = Window::new(input, 0);
        let (name, field) = (name.into(), field.map(Into::into));
        JsonLines { name, field, window, end: u64::MAX, line: 1, path: None, done: false }
    }

    /// The lines of a local file whose first byte lies in `start..end`.
    pub fn range(path: &str, name: &str, field: Option<&str>, start: u64, end: u64) -> Result<Self> {
        let from = start.saturating_sub(1);
        let input = Box::new(FileInput::open(path, from)?);
        let mut source = JsonLines { end, ..JsonLines::new(input, name, field) };
        source.window.offset = from;
        if start > 0 {
            source.skip_line()?;
            source.path = Some((path.into(), source.window.offset));
        }
        source.done |= source.window.offset >= end;
        Ok(source)
    }

    fn skip_line(&mut self) -> Result<()> {
        loop {
            self.window.fill(1 << 20)?;
            if let Some(at) = memchr::memchr(b'\n', &self.window.bytes) {
                self.window.take(at + 1);
                return Ok(());
            }
            if self.window.ended {
                self.done = true;
                return Ok(());
            }
            self.window.take(self.window.bytes.len());
        }
    }

    /// Behind the last whole line to hand out now, or `None` if the window holds none.
    fn cut(&mut self, searched: usize) -> Option<usize> {
        let window = &self.window;
        // Lines that start before `end` belong to this source: the one that `end` falls into, too.
        let last_start = self.end.saturating_sub(window.offset).min(window.bytes.len() as u64) as usize;
        if window.offset + window.bytes.len() as u64 >= self.end {
            let from = last_start.saturating_sub(1).max(searched);
            let cut = memchr::memchr(b'\n', &window.bytes[from..]).map(|at| from + at + 1);
            self.done |= cut.is_some() || window.ended;
            return cut.or(window.ended.then_some(window.bytes.len()));
        }
        if window.ended {
            self.done = true;
            return Some(window.bytes.len());
        }
        memchr::memrchr(b'\n', &window.bytes[searched..]).map(|at| searched + at + 1)
    }
}

impl Source for JsonLines {
    fn next(&mut self, want: &Want) -> Result<Option<Raw>> {
        if self.done {
            return Ok(None);
        }
        let (mut target, mut searched) = (want.block_bytes, 0);
        let cut = loop {
            self.window.fill(target)?;
            match self.cut(searched) {
                Some(cut) => break cut,
                None => {
                    searched = self.window.bytes.len();
                    target = searched * 2;
                }
            }
        };
        let place = Place { name: self.name.clone(), first: self.line, path: self.path.clone() };
        let lines = self.window.take(cut);
        self.line += memchr::memchr_iter(b'\n', &lines).count() as u64;
        let layout = match &self.field {
            Some(field) => Layout::JsonLines { field: field.clone() },
            None => Layout::Pieces { pieces: whole_lines(&lines), records: true },
        };
        Ok(Some(Raw { text: Text::Owned(lines), layout, place, bad: Vec::new() }))
    }
}

/// Every line as it is; a blank one is empty, so that the place of a piece is the number of its line.
fn whole_lines(lines: &[u8]) -> Vec<Piece> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', lines).chain((!lines.ends_with(b"\n")).then_some(lines.len()));
    ends.map(|end| {
        let is_blank = lines[start..end].trim_ascii().is_empty();
        let piece = Piece::whole(start, if is_blank { start } else { end });
        start = end + 1;
        piece
    })
    .collect()
}

/// The documents of a block of lines, end to end. `records[i]` is the line of piece `i`, counted from 0.
pub struct Extracted {
    pub text: Vec<u8>,
    pub pieces: Vec<Piece>,
    pub records: Vec<u64>,
    pub bad: Vec<BadRecord>,
}

/// A lone surrogate stays as the three bytes that would encode it; whoever checks UTF-8 finds it.
pub fn extract(lines: &[u8], field: &str) -> Extracted {
    let text = Vec::with_capacity(lines.len());
    let mut found = Extracted { text, pieces: Vec::new(), records: Vec::new(), bad: Vec::new() };
    for (index, line) in lines.split(|&b| b == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let start = found.text.len();
        match field_of(line, field) {
            Ok(document) if document.is_empty() => {}
            Ok(document) => {
                found.text.extend_from_slice(&document);
                found.pieces.push(Piece::whole(start, found.text.len()));
                found.records.push(index as u64);
            }
            Err(reason) => found.bad.push(bad_line(index as u64, line, reason)),
        }
    }
    found
}

fn bad_line(record: u64, line: &[u8], reason: String) -> BadRecord {
    match std::str::from_utf8(line) {
        Ok(_) => BadRecord { record, reason, hint: None },
        Err(e) => {
            let (at, byte) = (e.valid_up_to(), line[e.valid_up_to()]);
            let reason = format!("is not valid UTF-8: byte {at} of the line is 0x{byte:02X}");
            BadRecord { record, reason, hint: Some(REPLACE_HINT) }
        }
    }
}

fn field_of<'a>(line: &'a [u8], field: &str) -> std::result::Result<Cow<'a, [u8]>, String> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let found = Field { name: field }.deserialize(&mut json).map_err(|e| json_error(&e))?;
    json.end().map_err(|e| json_error(&e))?;
    match found {
        Some(Value::Text(text)) => Ok(text),
        Some(Value::Other(kind)) => Err(format!("field `{field}` holds {kind}, not a string")),
        None => Err(format!("has no field `{field}`")),
    }
}

/// serde's message without its own line number: each line is a JSON text of its own.
fn json_error(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let reason = message.split(" at line ").next().unwrap_or(&message);
    format!("not valid JSON at column {}: {reason}", error.column())
}

struct Field<'n> {
    name: &'n str,
}

enum Value<'a> {
    Text(Cow<'a, [u8]>),
    Other(&'static str),
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Option<Value<'de>>;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> std::result::Result<Self::Value, D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<Value<'de>>;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_ours) = map.next_key_seed(KeyIs(self.name))? {
            if is_ours {
                found = Some(map.next_value_seed(AnyValue)?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct KeyIs<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for KeyIs<'_> {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> std::result::Result<bool, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyIs<'_> {
    type Value = bool;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E>(self, key: &str) -> std::result::Result<bool, E> {
        Ok(key == self.0)
    }
}

/// A string as bytes, which lets lone surrogates pass, or the kind of any other value.
struct AnyValue;

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value<'de>;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> std::result::Result<Value<'de>, D::Error> {
        let raw: &'de serde_json::value::RawValue = serde::Deserialize::deserialize(d)?;
        let json = raw.get();
        match json.as_bytes()[0] {
            b'"' => {
                let mut inner = serde_json::Deserializer::from_str(json);
                let text = serde::Deserializer::deserialize_bytes(&mut inner, TextBytes);
                text.map(Value::Text).map_err(serde::de::Error::custom)
            }
            b'n' => Ok(Value::Other("null")),
            b't' | b'f' => Ok(Value::Other("a boolean")),
            b'[' => Ok(Value::Other("a list")),
            b'{' => Ok(Value::Other("an object")),
            _ => Ok(Value::Other("a number")),
        }
    }
}

struct TextBytes;

impl<'de> Visitor<'de> for TextBytes {
    type Value = Cow<'de, [u8]>;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> std::result::Result<Self::Value, E> {
        Ok(Cow::Borrowed(bytes))
    }
    fn visit_bytes<E>(self, bytes: &[u8]) -> std::result::Result<Self::Value, E> {
        Ok(Cow::Owned(bytes.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_unescaped_and_refused_with_a_reason() {
        let text = |line: &str| field_of(line.as_bytes(), "text").map(|t| t.into_owned());
        assert_eq!(text(r#"{"id": 1, "text": "a\nb", "x": {"text": "no"}}"#), Ok(b"a\nb".to_vec()));
        assert_eq!(text(r#"{"text": "\u00e9"}"#), Ok("é".as_bytes().to_vec()));
        assert_eq!(text(r#"{"text": "\ud800"}"#), Ok(b"\xED\xA0\x80".to_vec()));
        assert_eq!(text(r#"{"text": null}"#).unwrap_err(), "field `text` holds null, not a string");
        assert_eq!(text(r#"{"content": "x"}"#).unwrap_err(), "has no field `text`");
        assert!(text(r#"{"text": "x"#).unwrap_err().starts_with("not valid JSON at column"));
        assert!(text(r#"{"text": "x"} y"#).unwrap_err().starts_with("not valid JSON at column"));
    }
}
