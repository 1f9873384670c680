//! The text of a tokenizer.json, read once, from left to right, without a tree: `model.vocab` and `model.merges`, which
//! are long, as lists of strings, and everything else as the JSON it is.
//!
//! What is wrong with the two long parts is remembered and said when a vocab is made of them: the rest may say first
//! that the whole file is of another kind.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::huggingface::{TokenizerModel, append_bytes, not_byte_level};
use super::origin::shortened;
use crate::error::{Error, Result};

/// Keys end to end, in the order of the file, each with its id.
#[derive(Default)]
pub struct Keys {
    text: String,
    /// (end in `text`, id)
    entries: Vec<(usize, u32)>,
    pub problem: Option<String>,
}

/// The parts of all merges as bytes, end to end.
#[derive(Default)]
pub struct MergeParts {
    pub text: Vec<u8>,
    /// (end of the left part, end of the right part)
    pub ends: Vec<(usize, usize)>,
    pub problem: Option<String>,
}

/// The JSON text of everything but the two long parts, which are null in it, and those two.
pub fn read_tokenizer_json(data: &[u8], file: &str) -> Result<(String, TokenizerModel)> {
    let text = simdutf8::compat::from_utf8(data)
        .map_err(|e| Error::format(format!("`{file}` is not UTF-8: bad byte at {}", e.valid_up_to())))?;
    if text.starts_with('\u{feff}') {
        return Err(Error::format(format!("`{file}` starts with a byte order mark, which is not JSON")));
    }
    let mut reading = Reading {
        rest: String::new(),
        problem: None,
        model: TokenizerModel { file: file.to_owned(), keys: Keys::default(), merges: MergeParts::default() },
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let read = Object { reading: &mut reading, path: "" }.deserialize(&mut json).and_then(|()| json.end());
    match (read, reading.problem) {
        (_, Some(problem)) => Err(Error::format(format!("`{file}`{problem}"))),
        (Err(error), None) => Err(not_json(file, &error)),
        (Ok(()), None) => Ok((reading.rest, reading.model)),
    }
}

fn not_json(file: &str, error: &serde_json::Error) -> Error {
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
    Error::format(format!("`{file}` is not JSON: {message} at line {line}, column {column}"))
}

struct Reading {
    rest: String,
    /// What is wrong with the shape of the document; serde's own errors only know lines and columns.
    problem: Option<String>,
    model: TokenizerModel,
}

/// The document, or its `model`: keys and values go to `rest`, but for the long parts.
struct Object<'r> {
    reading: &'r mut Reading,
    /// Empty, or `model`.
    path: &'static str,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Object<'_> {
    fn fail<E: de::Error>(&mut self, problem: String) -> E {
        let place = if self.path.is_empty() { String::new() } else { format!(" at `{}`", self.path) };
        self.reading.problem = Some(format!("{place}: {problem}"));
        E::custom("stopped")
    }

    fn entry<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> std::result::Result<(), A::Error> {
        let quoted = serde_json::to_string(key).expect("a string is JSON");
        if !self.reading.rest.ends_with('{') {
            self.reading.rest.push(',');
        }
        self.reading.rest += &quoted;
        self.reading.rest.push(':');
        match (self.path, key) {
            ("", "model") => {
                return map.next_value_seed(Object { reading: self.reading, path: "model" });
            }
            ("model", "vocab") => map.next_value_seed(&mut self.reading.model.keys)?,
            ("model", "merges") => map.next_value_seed(&mut self.reading.model.merges)?,
            _ => {
                let value: &RawValue = map.next_value()?;
                self.reading.rest += value.get();
                return Ok(());
            }
        }
        self.reading.rest += "null";
        Ok(())
    }
}

/// Everything but what is wanted, told by its kind.
macro_rules! refuse_others {
    ($lifetime:lifetime, $value:ty) => {
        fn visit_unit<E: de::Error>(self) -> std::result::Result<$value, E> {
            self.other("`null`".into())
        }
        fn visit_bool<E: de::Error>(self, value: bool) -> std::result::Result<$value, E> {
            self.other(format!("`{value}`"))
        }
        fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<$value, E> {
            self.other(format!("`{value}`"))
        }
        fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<$value, E> {
            self.other(format!("`{value}`"))
        }
    };
}

macro_rules! refuse_strings {
    ($value:ty) => {
        fn visit_str<E: de::Error>(self, value: &str) -> std::result::Result<$value, E> {
            self.other(format!("`\"{}\"`", shortened(value)))
        }
    };
}

macro_rules! refuse_numbers {
    ($value:ty) => {
        fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<$value, E> {
            self.other(format!("`{value}`"))
        }
    };
}

macro_rules! refuse_lists {
    ($lifetime:lifetime, $value:ty) => {
        fn visit_seq<A: SeqAccess<$lifetime>>(self, mut seq: A) -> std::result::Result<$value, A::Error> {
            let mut empty = true;
            while seq.next_element::<IgnoredAny>()?.is_some() {
                empty = false;
            }
            self.other(if empty { "`[]`" } else { "a list" }.into())
        }
    };
}

macro_rules! refuse_objects {
    ($lifetime:lifetime, $value:ty) => {
        fn visit_map<A: MapAccess<$lifetime>>(self, mut map: A) -> std::result::Result<$value, A::Error> {
            let mut empty = true;
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                empty = false;
            }
            self.other(if empty { "`{}`" } else { "an object" }.into())
        }
    };
}

impl Object<'_> {
    fn other<E: de::Error>(mut self, found: String) -> std::result::Result<(), E> {
        Err(self.fail(format!("expected an object, found {found}")))
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut keys: HashSet<String> = HashSet::new();
        self.reading.rest.push('{');
        while let Some(key) = map.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(self.fail(format!("key `{}` stands twice in one object", shortened(&key))));
            }
            self.entry(&key, &mut map)?;
            keys.insert(key);
        }
        self.reading.rest.push('}');
        Ok(())
    }

    refuse_others!('de, ());
    refuse_strings!(());
    refuse_numbers!(());
    refuse_lists!('de, ());
}

impl<'de> DeserializeSeed<'de> for &mut Keys {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Keys {
    fn other<E>(&mut self, found: String) -> std::result::Result<(), E> {
        self.problem.get_or_insert(format!("at `model.vocab`: expected an object, found {found}"));
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        let mut start = 0;
        self.entries.iter().map(move |&(end, id)| {
            let key = &self.text[start..end];
            start = end;
            (key, id)
        })
    }
}

impl<'de> Visitor<'de> for &mut Keys {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(key) = map.next_key::<Key<'de>>()? {
            match map.next_value::<IdValue>()?.0 {
                Ok(id) => {
                    self.text += &key.0;
                    self.entries.push((self.text.len(), id));
                }
                Err(found) => {
                    let key = shortened(&key.0);
                    self.problem.get_or_insert(format!(
                        "at `model.vocab`: the id of `{key}` is {found}, not a whole number from 0 to 2^31"
                    ));
                }
            }
        }
        Ok(())
    }

    refuse_others!('de, ());
    refuse_strings!(());
    refuse_numbers!(());
    refuse_lists!('de, ());
}

/// A string, borrowed from the text where it has no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> de::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, value: &'de str) -> std::result::Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(value)))
            }
            fn visit_str<E>(self, value: &str) -> std::result::Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// An id, or what stands in its place.
struct IdValue(std::result::Result<u32, String>);

impl<'de> de::Deserialize<'de> for IdValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct IdVisitor;
        impl IdVisitor {
            fn other<E>(self, found: String) -> std::result::Result<IdValue, E> {
                Ok(IdValue(Err(found)))
            }
        }
        impl<'de> Visitor<'de> for IdVisitor {
            type Value = IdValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }
            fn visit_u64<E>(self, value: u64) -> std::result::Result<IdValue, E> {
                let id = u32::try_from(value).ok().filter(|&id| id < 1 << 31);
                Ok(IdValue(id.ok_or_else(|| format!("`{value}`"))))
            }
            refuse_others!('de, IdValue);
            refuse_strings!(IdValue);
            refuse_lists!('de, IdValue);
            refuse_objects!('de, IdValue);
        }
        deserializer.deserialize_any(IdVisitor)
    }
}

impl<'de> DeserializeSeed<'de> for &mut MergeParts {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl MergeParts {
    fn other<E>(&mut self, found: String) -> std::result::Result<(), E> {
        self.problem.get_or_insert(format!("at `model.merges`: expected a list, found {found}"));
        Ok(())
    }

    fn push(&mut self, left: &str, right: &str) {
        let letters = |out: &mut Vec<u8>, part: &str| {
            append_bytes(part, out).map(|()| out.len()).map_err(|letter| (shortened(part), letter))
        };
        let ends =
            letters(&mut self.text, left).and_then(|middle| Ok((middle, letters(&mut self.text, right)?)));
        match ends {
            Ok(ends) => self.ends.push(ends),
            Err((part, letter)) => {
                let index = self.ends.len();
                let problem = not_byte_level(&part, letter);
                self.problem.get_or_insert(format!("at `model.merges[{index}]`: {problem}"));
            }
        }
    }
}

impl<'de> Visitor<'de> for &mut MergeParts {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        while seq.next_element_seed(OneMerge { all: self })?.is_some() {}
        Ok(())
    }

    refuse_others!('de, ());
    refuse_strings!(());
    refuse_numbers!(());
    refuse_objects!('de, ());
}

/// `["a", "b"]`, or `"a b"` as old files have it: no letter is a space, so a space is the border.
struct OneMerge<'m> {
    all: &'m mut MergeParts,
}

impl OneMerge<'_> {
    fn other<E>(self, found: String) -> std::result::Result<(), E> {
        let index = self.all.ends.len();
        let problem = format!("at `model.merges[{index}]`: expected two tokens, found {found}");
        self.all.problem.get_or_insert(problem);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for OneMerge<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        // After the first problem the rest only has to be JSON.
        if self.all.problem.is_some() {
            return deserializer.deserialize_any(IgnoredAny).map(|_| ());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OneMerge<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("two tokens")
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<(), E> {
        match value.split_once(' ') {
            Some((left, right)) if !right.contains(' ') => {
                self.all.push(left, right);
                Ok(())
            }
            _ => self.other(format!("`\"{}\"`", shortened(value))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        let (left, right) = (seq.next_element::<Part<'de>>()?, seq.next_element::<Part<'de>>()?);
        let mut more = 0;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            more += 1;
        }
        match (left, right, more) {
            (Some(Part(Ok(left))), Some(Part(Ok(right))), 0) => {
                self.all.push(&left, &right);
                Ok(())
            }
            (Some(Part(Err(found))), ..) | (_, Some(Part(Err(found))), _) => self.other(found),
            (left, right, more) => {
                let len = usize::from(left.is_some()) + usize::from(right.is_some()) + more;
                self.other(format!("a list of {len}"))
            }
        }
    }

    refuse_others!('de, ());
    refuse_numbers!(());
    refuse_objects!('de, ());
}

/// A string, or what stands in its place.
struct Part<'de>(std::result::Result<Cow<'de, str>, String>);

impl<'de> de::Deserialize<'de> for Part<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct PartVisitor;
        impl PartVisitor {
            fn other<'de, E>(self, found: String) -> std::result::Result<Part<'de>, E> {
                Ok(Part(Err(found)))
            }
        }
        impl<'de> Visitor<'de> for PartVisitor {
            type Value = Part<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a token")
            }
            fn visit_borrowed_str<E>(self, value: &'de str) -> std::result::Result<Part<'de>, E> {
                Ok(Part(Ok(Cow::Borrowed(value))))
            }
            fn visit_str<E>(self, value: &str) -> std::result::Result<Part<'de>, E> {
                Ok(Part(Ok(Cow::Owned(value.to_owned()))))
            }
            refuse_others!('de, Part<'de>);
            refuse_numbers!(Part<'de>);
            refuse_lists!('de, Part<'de>);
            refuse_objects!('de, Part<'de>);
        }
        deserializer.deserialize_any(PartVisitor)
    }
}
