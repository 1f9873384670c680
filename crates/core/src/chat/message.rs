//! Messages of a row: who says what.

use super::Reason;
use super::json::{Cursor, Kind, Quoted, unescape};
use super::row::{KEYS, Key, Reading, Refusal, Result, Row, Text, Turn, error, said, skip};
use crate::error::Error;
use crate::source::{InvalidUtf8, REPLACE_HINT};

impl Row {
    pub(super) fn messages(
        &mut self,
        reading: &Reading,
        key: Key,
        may_train: bool,
        turns: &mut Vec<Turn>,
    ) -> Result<()> {
        let name = KEYS[key as usize];
        let at = match reading.field(key) {
            Some((Kind::List, at)) => at,
            Some((kind, _)) => {
                return error(format!("field `{name}` holds {}, not a list of messages", kind.name()));
            }
            None => return reading.misses(key, "it must be a list of messages"),
        };
        self.list_of_messages(reading, &mut Cursor::new(reading.row, at), key, may_train, turns)
    }

    pub(super) fn list_of_messages(
        &mut self,
        reading: &Reading,
        cursor: &mut Cursor,
        key: Key,
        may_train: bool,
        turns: &mut Vec<Turn>,
    ) -> Result<()> {
        let name = KEYS[key as usize];
        let mut index = 0;
        cursor.list(|cursor| {
            let turn = self.message(reading, cursor, may_train).map_err(|refusal| match refusal {
                Refusal::Error(e) if e != Error::source("") => {
                    Refusal::Error(e.at(&format!("message {index} of `{name}`")))
                }
                Refusal::Skip(reason, detail) => {
                    Refusal::Skip(reason, format!("message {index} of `{name}`: {detail}"))
                }
                other => other,
            })?;
            index += 1;
            turns.push(turn);
            Ok(())
        })
    }

    fn message(&mut self, reading: &Reading, cursor: &mut Cursor, may_train: bool) -> Result<Turn> {
        let kind = cursor.kind()?;
        if kind != Kind::Object {
            return error(format!("is {}, not an object with `role` and `content`", kind.name()));
        }
        let (mut role, mut content) = (None, None);
        let (mut has_content, mut has_tool_calls) = (false, false);
        cursor.object(|cursor, key| -> Result<()> {
            let kind = cursor.kind()?;
            match &*said(reading.row, key) {
                b"role" | b"from" if kind == Kind::Text => role = Some(cursor.string()?),
                b"content" | b"value" => {
                    has_content = true;
                    content = match kind {
                        Kind::Text => {
                            let quoted = cursor.string()?;
                            Some(self.content(reading, quoted)?)
                        }
                        Kind::List => Some(self.parts(reading, cursor)?),
                        Kind::Null => {
                            cursor.skip(3)?;
                            None
                        }
                        _ => return error(format!("its content is {}, not a string", kind.name())),
                    };
                }
                b"tool_calls" => {
                    // Tables write an empty list or null where there are none.
                    let start = cursor.at;
                    cursor.skip(3)?;
                    let written = &reading.row[start..cursor.at];
                    has_tool_calls = kind != Kind::Null && written.iter().any(|b| !b"[] \t\r\n".contains(b));
                }
                _ => cursor.skip(3)?,
            }
            Ok(())
        })?;
        let Some(role) = role else { return error("has no `role`".to_owned()) };
        if has_tool_calls {
            return skip(Reason::ToolCalls, "it has `tool_calls`".to_owned());
        }
        let role = self.role(reading, role)?;
        let Some(content) = content else {
            let what = if has_content { "is null" } else { "is missing" };
            return skip(Reason::NullContent, format!("its content {what}"));
        };
        let is_trained = may_train && reading.template.roles.get(role).is_some_and(|role| role.is_trained);
        Ok(Turn { role, content, is_trained })
    }

    fn role(&mut self, reading: &Reading, name: Quoted) -> Result<usize> {
        let text = self.content(reading, name)?;
        let name = self.text(reading.row, text);
        match reading.template.find(name) {
            Some(role) => Ok(role),
            None => {
                let name = String::from_utf8_lossy(&name[..name.len().min(64)]);
                skip(Reason::UnknownRole, format!("the template has no role `{name}`"))
            }
        }
    }

    /// A list of `{"type": "text", "text": …}`, joined.
    fn parts(&mut self, reading: &Reading, cursor: &mut Cursor) -> Result<Text> {
        // Behind the joined parts, so that what unescaping leaves between them does not matter.
        let mut found: Vec<Text> = Vec::new();
        cursor.list(|cursor| -> Result<()> {
            let kind = cursor.kind()?;
            if kind == Kind::Text {
                let quoted = cursor.string()?;
                found.push(self.content(reading, quoted)?);
                return Ok(());
            }
            if kind != Kind::Object {
                return error(format!("a part of its content is {}", kind.name()));
            }
            let (mut text, mut of_kind) = (None, None);
            cursor.object(|cursor, key| -> Result<()> {
                let kind = cursor.kind()?;
                match &*said(reading.row, key) {
                    b"type" if kind == Kind::Text => of_kind = Some(cursor.string()?),
                    b"text" if kind == Kind::Text => text = Some(cursor.string()?),
                    _ => cursor.skip(5)?,
                }
                Ok(())
            })?;
            let of_kind = of_kind.map(|kind| said(reading.row, kind));
            match (of_kind.as_deref(), text) {
                (None | Some(b"text"), Some(text)) => {
                    found.push(self.content(reading, text)?);
                    Ok(())
                }
                (kind, _) => {
                    let kind = String::from_utf8_lossy(kind.unwrap_or(b"?"));
                    skip(Reason::ContentPart, format!("a part of its content is of type `{kind}`, not text"))
                }
            }
        })?;
        let start = self.joined.len();
        for part in found {
            self.append(reading.row, part);
        }
        Ok(Text { start, end: self.joined.len(), is_joined: true })
    }

    pub(super) fn content(&mut self, reading: &Reading, quoted: Quoted) -> Result<Text> {
        let Quoted { start, end, has_escapes } = quoted;
        if !has_escapes {
            return Ok(Text { start, end, is_joined: false });
        }
        let start = self.joined.len();
        let has_half = unescape(&reading.row[quoted.start..end], &mut self.joined);
        if has_half && reading.invalid_utf8 != InvalidUtf8::Keep {
            if reading.invalid_utf8 == InvalidUtf8::Error {
                let message = "holds half of a surrogate pair, which is not valid UTF-8";
                return Err(Refusal::Error(Error::source(message).hint(REPLACE_HINT)));
            }
            // Both take three bytes.
            let mut at = start;
            while at + 2 < self.joined.len() {
                if self.joined[at] == 0xED && self.joined[at + 1] >= 0xA0 {
                    self.joined[at..at + 3].copy_from_slice("\u{FFFD}".as_bytes());
                    self.replaced_sequences += 1;
                }
                at += 1;
            }
        }
        Ok(Text { start, end: self.joined.len(), is_joined: true })
    }
}
