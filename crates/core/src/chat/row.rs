//! One row of JSON in, the turns of a conversation out.
//!
//! A row has one of a few shapes, known by its keys. Whatever is wrong with it is either an error (it is not such a row)
//! or a named reason to leave it out (it is one, and of no use). Nothing is copied but strings with escapes.

use std::borrow::Cow;

use super::json::{Cursor, Kind, NotJson, Quoted, complaint, unescape};
use super::template::{MERGED_SYSTEM, Template};
use super::{Mode, Reason, RowOptions, Shape};
use crate::error::Error;
use crate::source::InvalidUtf8;

/// Why a row is not encoded.
pub enum Refusal {
    Error(Error),
    Skip(Reason, String),
}

impl From<NotJson> for Refusal {
    /// The words are found by whoever has the row.
    fn from(_: NotJson) -> Self {
        Refusal::Error(Error::source(""))
    }
}

pub(super) fn error<T>(message: String) -> Result<T> {
    Err(Refusal::Error(Error::source(message)))
}

pub(super) fn skip<T>(reason: Reason, detail: String) -> Result<T> {
    Err(Refusal::Skip(reason, detail))
}

pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// Bytes of the row, or of the buffer that holds what had to be unescaped or joined.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    pub start: usize,
    pub end: usize,
    pub is_joined: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub role: usize,
    pub content: Text,
    pub is_trained: bool,
}

/// A row taken apart. The memory is used again for the next one.
#[derive(Default)]
pub struct Row {
    pub(super) joined: Vec<u8>,
    /// The conversation; of a preference row what both answers follow.
    pub turns: Vec<Turn>,
    pub chosen: Vec<Turn>,
    pub rejected: Vec<Turn>,
    pub replaced_sequences: u64,
}

/// The keys that mean something, in the order of [`KEYS`].
#[derive(Clone, Copy)]
pub(super) enum Key {
    Messages,
    Conversations,
    Prompt,
    Completion,
    Instruction,
    Input,
    Output,
    System,
    Chosen,
    Rejected,
}

pub(super) const KEYS: [&str; 10] = [
    "messages",
    "conversations",
    "prompt",
    "completion",
    "instruction",
    "input",
    "output",
    "system",
    "chosen",
    "rejected",
];

/// Where the value of each key starts and what it is.
type Fields = [Option<(Kind, usize)>; KEYS.len()];

impl Row {
    pub fn text<'a>(&'a self, row: &'a [u8], text: Text) -> &'a [u8] {
        &(if text.is_joined { &self.joined } else { row })[text.start..text.end]
    }

    /// Take `row` apart.
    pub fn read(&mut self, row: &[u8], template: &Template, options: &RowOptions) -> Result<()> {
        self.joined.clear();
        self.turns.clear();
        self.chosen.clear();
        self.rejected.clear();
        let read = self.read_fields(row, template, options);
        if let Err(Refusal::Error(Error::Source { message, .. })) = &read
            && message.is_empty()
        {
            return error(complaint(row));
        }
        read
    }

    fn read_fields(&mut self, row: &[u8], template: &Template, options: &RowOptions) -> Result<()> {
        let mut cursor = Cursor::new(row, 0);
        if cursor.kind()? != Kind::Object {
            let kind = cursor.kind()?;
            cursor.skip(0)?;
            cursor.finish()?;
            return error(format!("is {}, not an object", kind.name()));
        }
        let mut reading =
            Reading { row, template, invalid_utf8: options.invalid_utf8, fields: [None; KEYS.len()] };
        // Most rows are messages and little else. They are read on the way, since finding their end takes as long; should
        // the row turn out to be of another shape, nobody asks for them.
        let at_once = options.mode == Mode::Sft && matches!(options.shape, None | Some(Shape::Messages));
        let mut messages = None;
        cursor.object(|cursor, key| -> std::result::Result<(), NotJson> {
            let kind = cursor.kind()?;
            let Some(known) = known_key(row, key) else { return cursor.skip(1) };
            reading.fields[known] = Some((kind, cursor.at));
            if known != Key::Messages as usize {
                return cursor.skip(1);
            }
            let (mut turns, mut ahead) = (std::mem::take(&mut self.turns), *cursor);
            turns.clear();
            messages = Some(match kind {
                Kind::List if at_once => {
                    self.list_of_messages(&reading, &mut ahead, Key::Messages, true, &mut turns)
                }
                _ => Ok(()),
            });
            self.turns = turns;
            match messages {
                Some(Ok(())) if ahead.at > cursor.at => *cursor = ahead,
                _ => cursor.skip(1)?,
            }
            Ok(())
        })?;
        cursor.finish()?;
        match options.mode {
            Mode::Sft => self.read_sft(&reading, options.shape, messages)?,
            Mode::Preference => self.read_preference(&reading)?,
        }
        if template.merge_system.is_some() {
            self.merge_system(&reading)?;
        }
        Ok(())
    }

    fn read_sft(
        &mut self,
        reading: &Reading,
        shape: Option<Shape>,
        messages: Option<Result<()>>,
    ) -> Result<()> {
        let shape = match shape {
            Some(shape) => shape,
            None => reading.shape()?,
        };
        if shape == Shape::Messages
            && reading.field(Key::Messages).is_some_and(|(kind, _)| kind == Kind::List)
        {
            messages.unwrap_or(Ok(()))?;
            return self.check_completion(reading.row, &self.turns);
        }
        let mut turns = std::mem::take(&mut self.turns);
        turns.clear();
        match shape {
            Shape::Messages => self.messages(reading, Key::Messages, true, &mut turns)?,
            Shape::Conversations => {
                self.system(reading, &mut turns)?;
                self.messages(reading, Key::Conversations, true, &mut turns)?;
            }
            Shape::PromptCompletion => {
                self.system(reading, &mut turns)?;
                self.text_or_messages(reading, Key::Prompt, &mut turns)?;
                self.text_or_messages(reading, Key::Completion, &mut turns)?;
            }
            Shape::Alpaca => {
                self.system(reading, &mut turns)?;
                self.alpaca(reading, &mut turns)?;
            }
        }
        self.turns = turns;
        self.check_completion(reading.row, &self.turns)
    }

    /// `instruction`, `input` where it says something, `output`.
    fn alpaca(&mut self, reading: &Reading, turns: &mut Vec<Turn>) -> Result<()> {
        let template = reading.template;
        let mut instruction = self.field_text(reading, Key::Instruction)?;
        let input = match reading.field(Key::Input) {
            Some(_) => Some(self.field_text(reading, Key::Input)?),
            None => None,
        };
        let input = input.filter(|input| input.start < input.end);
        if let Some(input) = input.filter(|_| template.input == template.instruction) {
            instruction = self.join(reading.row, instruction, "\n\n", input);
        }
        turns.push(Turn { role: template.instruction, content: instruction, is_trained: false });
        if let Some(content) = input.filter(|_| template.input != template.instruction) {
            turns.push(Turn { role: template.input, content, is_trained: false });
        }
        self.text_or_messages(reading, Key::Output, turns)
    }

    /// Somebody must say something that a model can learn to say.
    pub(super) fn check_completion(&self, row: &[u8], turns: &[Turn]) -> Result<()> {
        let mut trained = turns.iter().filter(|turn| turn.is_trained).peekable();
        if trained.peek().is_none() {
            return skip(Reason::NoAssistantTurn, format!("none of its {} turns is trained on", turns.len()));
        }
        if trained.all(|turn| self.text(row, turn.content).is_empty()) {
            return skip(Reason::EmptyCompletion, "what the assistant says is empty".to_owned());
        }
        Ok(())
    }

    /// The field `system`, which some shapes have beside the conversation.
    pub(super) fn system(&mut self, reading: &Reading, turns: &mut Vec<Turn>) -> Result<()> {
        if let Some((Kind::Text, _)) = reading.field(Key::System) {
            let content = self.field_text(reading, Key::System)?;
            if content.start < content.end {
                let Some(role) = reading.template.find(b"system") else {
                    return skip(Reason::UnknownRole, "the template has no role `system`".to_owned());
                };
                turns.push(Turn { role, content, is_trained: false });
            }
        }
        Ok(())
    }

    /// A string is what the user, or for an answer the assistant, says; a list is messages. Nothing but answers is
    /// trained on.
    pub(super) fn text_or_messages(
        &mut self,
        reading: &Reading,
        key: Key,
        turns: &mut Vec<Turn>,
    ) -> Result<()> {
        let is_answer = !matches!(key, Key::Prompt);
        if let Some((Kind::List, _)) = reading.field(key) {
            return self.messages(reading, key, is_answer, turns);
        }
        let content = self.field_text(reading, key)?;
        let template = reading.template;
        let role = if is_answer { template.assistant } else { template.user };
        let is_trained = is_answer && template.roles[role].is_trained;
        turns.push(Turn { role, content, is_trained });
        Ok(())
    }

    pub(super) fn field_text(&mut self, reading: &Reading, key: Key) -> Result<Text> {
        let name = KEYS[key as usize];
        match reading.field(key) {
            Some((Kind::Text, at)) => {
                let quoted = Cursor::new(reading.row, at).string()?;
                self.content(reading, quoted)
            }
            Some((kind, _)) => error(format!("field `{name}` holds {}, not a string", kind.name())),
            None => skip(Reason::NullContent, format!("`{name}` is missing or null")),
        }
    }

    fn join(&mut self, row: &[u8], first: Text, between: &str, second: Text) -> Text {
        let start = self.joined.len();
        self.append(row, first);
        self.joined.extend_from_slice(between.as_bytes());
        self.append(row, second);
        Text { start, end: self.joined.len(), is_joined: true }
    }

    pub(super) fn append(&mut self, row: &[u8], text: Text) {
        if text.is_joined {
            self.joined.extend_from_within(text.start..text.end);
        } else {
            self.joined.extend_from_slice(&row[text.start..text.end]);
        }
    }

    /// Put the system message in front of the user message that follows it.
    fn merge_system(&mut self, reading: &Reading) -> Result<()> {
        let Some(between) = reading.template.merge_system.as_deref() else { return Ok(()) };
        let is_system = |turn: &Turn| turn.role == MERGED_SYSTEM;
        let later = self.turns.iter().skip(1).chain(&self.chosen).chain(&self.rejected).any(is_system);
        let first = self.turns.first().copied().filter(is_system);
        if later || first.is_some() && self.turns.get(1).is_none_or(|t| t.role != reading.template.user) {
            let detail = "a system message belongs in front of the first user message".to_owned();
            return skip(Reason::SystemNotFirst, detail);
        }
        if let Some(system) = first {
            let user = self.turns[1];
            let content = self.join(reading.row, system.content, between, user.content);
            self.turns[1] = Turn { content, ..user };
            self.turns.remove(0);
        }
        Ok(())
    }
}

/// What is needed to take one row apart.
pub(super) struct Reading<'a> {
    pub row: &'a [u8],
    pub template: &'a Template,
    pub invalid_utf8: InvalidUtf8,
    fields: Fields,
}

impl Reading<'_> {
    /// `null` is as good as none.
    pub fn field(&self, key: Key) -> Option<(Kind, usize)> {
        self.fields[key as usize].filter(|(kind, _)| *kind != Kind::Null)
    }

    fn shape(&self) -> Result<Shape> {
        let has = |key: Key| self.field(key).is_some();
        if has(Key::Messages) {
            Ok(Shape::Messages)
        } else if has(Key::Conversations) {
            Ok(Shape::Conversations)
        } else if has(Key::Prompt) && self.is_key(Key::Completion) {
            Ok(Shape::PromptCompletion)
        } else if has(Key::Instruction) && self.is_key(Key::Output) {
            Ok(Shape::Alpaca)
        } else {
            self.no_shape(
                "an example has `messages`, `conversations`, `prompt` and `completion`, \
                 or `instruction` and `output`",
            )
        }
    }

    /// Whether the row has the key, be it with null.
    fn is_key(&self, wanted: Key) -> bool {
        self.fields[wanted as usize].is_some()
    }

    pub fn misses<T>(&self, key: Key, hint: &str) -> Result<T> {
        let found = self.found();
        let error = Error::source(format!("has no field `{}`, only {found}", KEYS[key as usize]));
        Err(Refusal::Error(error.hint(hint)))
    }

    fn no_shape<T>(&self, hint: &str) -> Result<T> {
        let error = Error::source(format!("is no conversation: it has {}", self.found()));
        Err(Refusal::Error(error.hint(hint)))
    }

    fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        let read = Cursor::new(self.row, 0).object(|cursor, key| -> std::result::Result<(), NotJson> {
            keys.push(String::from_utf8_lossy(&said(self.row, key)).into_owned());
            cursor.skip(1)
        });
        debug_assert!(read.is_ok());
        keys
    }

    fn found(&self) -> String {
        let keys = self.keys();
        let shown: Vec<_> = keys.iter().take(12).map(|key| format!("`{key}`")).collect();
        match (keys.len(), keys.len() > 12) {
            (0, _) => "no keys".to_owned(),
            (1, _) => format!("the key {}", shown[0]),
            (_, more) => format!("the keys {}{}", shown.join(", "), if more { ", …" } else { "" }),
        }
    }
}

fn known_key(row: &[u8], key: Quoted) -> Option<usize> {
    let name = said(row, key);
    KEYS.iter().position(|known| known.as_bytes() == &*name)
}

/// A short string as it is meant.
pub(super) fn said(row: &[u8], quoted: Quoted) -> Cow<'_, [u8]> {
    let written = &row[quoted.start..quoted.end];
    if !quoted.has_escapes {
        return Cow::Borrowed(written);
    }
    let mut said = Vec::new();
    unescape(written, &mut said);
    Cow::Owned(said)
}
