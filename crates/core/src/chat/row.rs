//! One row of JSON in, the turns of a conversation out.
//!
//! A row has one of a few shapes, known by its keys. Whatever is wrong with it is either an error (it is not such a row)
//! or a named reason to leave it out (it is one, and of no use). Nothing is copied but strings with escapes.

use std::borrow::Cow;

use super::json::{Cursor, Kind, NotJson, Quoted, complaint, unescape};
use super::template::{MERGED_SYSTEM, Template};
use super::{Mode, Reason, RowOptions, Shape};
use crate::error::Error;
use crate::source::{InvalidUtf8, REPLACE_HINT};

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

fn error<T>(message: String) -> Result<T> {
    Err(Refusal::Error(Error::source(message)))
}

fn skip<T>(reason: Reason, detail: String) -> Result<T> {
    Err(Refusal::Skip(reason, detail))
}

type Result<T> = std::result::Result<T, Refusal>;

/// Bytes of the row, or of the buffer that holds what had to be unescaped or joined.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    start: usize,
    end: usize,
    is_joined: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub role: usize,
    pub content: Text,
    /// Of the contents in the row; what a template puts between them does not count.
    pub bytes: usize,
    pub is_trained: bool,
}

/// A row taken apart. The memory is used again for the next one.
#[derive(Default)]
pub struct Row {
    joined: Vec<u8>,
    /// The conversation; of a preference row what both answers follow.
    pub turns: Vec<Turn>,
    pub chosen: Vec<Turn>,
    pub rejected: Vec<Turn>,
    pub replaced_sequences: u64,
}

/// The keys that mean something, in the order of [`KEYS`].
#[derive(Clone, Copy)]
enum Key {
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

const KEYS: [&str; 10] = [
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
        let mut fields: Fields = [None; KEYS.len()];
        cursor.object(|cursor, key| -> std::result::Result<(), NotJson> {
            let kind = cursor.kind()?;
            if let Some(known) = known_key(row, key) {
                fields[known] = Some((kind, cursor.at));
            }
            cursor.skip(1)
        })?;
        cursor.finish()?;
        let reading = Reading { row, template, invalid_utf8: options.invalid_utf8, fields };
        match options.mode {
            Mode::Sft => self.read_sft(&reading, options.shape)?,
            Mode::Preference => self.read_preference(&reading)?,
        }
        if template.merge_system.is_some() {
            self.merge_system(&reading)?;
        }
        Ok(())
    }

    fn read_sft(&mut self, reading: &Reading, shape: Option<Shape>) -> Result<()> {
        let shape = match shape {
            Some(shape) => shape,
            None => reading.shape()?,
        };
        let mut turns = std::mem::take(&mut self.turns);
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
        let mut bytes = instruction.end - instruction.start;
        let input = match reading.field(Key::Input) {
            Some(_) => Some(self.field_text(reading, Key::Input)?),
            None => None,
        };
        let input = input.filter(|input| input.start < input.end);
        if let Some(input) = input.filter(|_| template.input == template.instruction) {
            bytes += input.end - input.start;
            instruction = self.join(reading.row, instruction, "\n\n", input);
        }
        let turn = |role, content: Text, bytes| Turn { role, content, bytes, is_trained: false };
        turns.push(turn(template.instruction, instruction, bytes));
        if let Some(input) = input.filter(|_| template.input != template.instruction) {
            turns.push(turn(template.input, input, input.end - input.start));
        }
        self.text_or_messages(reading, Key::Output, turns)
    }

    fn read_preference(&mut self, reading: &Reading) -> Result<()> {
        for key in [Key::Chosen, Key::Rejected] {
            if reading.field(key).is_none() {
                return reading.misses(key, "a preference row has `chosen`, `rejected` and `prompt`");
            }
        }
        let (mut turns, mut chosen, mut rejected) = (
            std::mem::take(&mut self.turns),
            std::mem::take(&mut self.chosen),
            std::mem::take(&mut self.rejected),
        );
        self.text_or_messages(reading, Key::Chosen, &mut chosen)?;
        self.text_or_messages(reading, Key::Rejected, &mut rejected)?;
        self.system(reading, &mut turns)?;
        let starts_with_answer =
            |answer: &[Turn]| answer.first().is_none_or(|turn| turn.role == reading.template.assistant);
        if starts_with_answer(&chosen) && starts_with_answer(&rejected) {
            if reading.field(Key::Prompt).is_none() {
                let hint = "answers alone need a `prompt`; whole conversations carry it in themselves";
                return reading.misses(Key::Prompt, hint);
            }
            self.text_or_messages(reading, Key::Prompt, &mut turns)?;
        } else {
            self.shared_prompt(reading, &mut turns, &mut chosen, &mut rejected)?;
        }
        turns.iter_mut().for_each(|turn| turn.is_trained = false);
        (self.turns, self.chosen, self.rejected) = (turns, chosen, rejected);
        if self.same_turns(reading.row, &self.chosen, &self.rejected) {
            return skip(Reason::ChosenEqualsRejected, "`chosen` and `rejected` are the same".to_owned());
        }
        self.check_completion(reading.row, &self.chosen)?;
        self.check_completion(reading.row, &self.rejected)
    }

    /// Whole conversations: what they share is the prompt, and `prompt`, if there is one, is part of it.
    fn shared_prompt(
        &mut self,
        reading: &Reading,
        turns: &mut Vec<Turn>,
        chosen: &mut Vec<Turn>,
        rejected: &mut Vec<Turn>,
    ) -> Result<()> {
        let row = reading.row;
        let pairs = chosen.iter().zip(rejected.iter());
        let shared = pairs.take_while(|(one, other)| self.same_turn(row, one, other)).count();
        if shared == chosen.len() && shared == rejected.len() {
            return skip(Reason::ChosenEqualsRejected, "`chosen` and `rejected` are the same".to_owned());
        }
        let prompt = &chosen[..shared];
        let is_there = match reading.field(Key::Prompt) {
            Some((Kind::Text, _)) => {
                let stated = self.field_text(reading, Key::Prompt)?;
                let stated = self.text(row, stated);
                prompt.iter().any(|turn| self.text(row, turn.content) == stated)
            }
            Some(_) => {
                let mut stated = Vec::new();
                self.text_or_messages(reading, Key::Prompt, &mut stated)?;
                stated.len() <= shared && self.same_turns(row, &stated, &prompt[..stated.len()])
            }
            None => true,
        };
        if !is_there {
            let detail = "`prompt` is not in what `chosen` and `rejected` begin with".to_owned();
            return skip(Reason::PromptDiffers, detail);
        }
        turns.extend(chosen.drain(..shared));
        rejected.drain(..shared);
        Ok(())
    }

    fn same_turn(&self, row: &[u8], one: &Turn, other: &Turn) -> bool {
        one.role == other.role && self.text(row, one.content) == self.text(row, other.content)
    }

    fn same_turns(&self, row: &[u8], one: &[Turn], other: &[Turn]) -> bool {
        one.len() == other.len() && one.iter().zip(other).all(|(a, b)| self.same_turn(row, a, b))
    }

    /// Somebody must say something that a model can learn to say.
    fn check_completion(&self, row: &[u8], turns: &[Turn]) -> Result<()> {
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
    fn system(&mut self, reading: &Reading, turns: &mut Vec<Turn>) -> Result<()> {
        if let Some((Kind::Text, _)) = reading.field(Key::System) {
            let content = self.field_text(reading, Key::System)?;
            if content.start < content.end {
                let Some(role) = reading.template.find(b"system") else {
                    return skip(Reason::UnknownRole, "the template has no role `system`".to_owned());
                };
                let bytes = content.end - content.start;
                turns.push(Turn { role, content, bytes, is_trained: false });
            }
        }
        Ok(())
    }

    /// A string is what the user, or for an answer the assistant, says; a list is messages. Nothing but answers is
    /// trained on.
    fn text_or_messages(&mut self, reading: &Reading, key: Key, turns: &mut Vec<Turn>) -> Result<()> {
        let is_answer = !matches!(key, Key::Prompt);
        if let Some((Kind::List, _)) = reading.field(key) {
            return self.messages(reading, key, is_answer, turns);
        }
        let content = self.field_text(reading, key)?;
        let template = reading.template;
        let role = if is_answer { template.assistant } else { template.user };
        let is_trained = is_answer && template.roles[role].is_trained;
        turns.push(Turn { role, content, bytes: content.end - content.start, is_trained });
        Ok(())
    }

    fn field_text(&mut self, reading: &Reading, key: Key) -> Result<Text> {
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

    fn messages(
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
        let mut index = 0;
        Cursor::new(reading.row, at).list(|cursor| {
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
                    has_tool_calls =
                        kind != Kind::Null && written.iter().any(|b| !b"[] \t\r\n".contains(b));
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
        Ok(Turn { role, content, bytes: content.end - content.start, is_trained })
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

    fn content(&mut self, reading: &Reading, quoted: Quoted) -> Result<Text> {
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

    fn join(&mut self, row: &[u8], first: Text, between: &str, second: Text) -> Text {
        let start = self.joined.len();
        self.append(row, first);
        self.joined.extend_from_slice(between.as_bytes());
        self.append(row, second);
        Text { start, end: self.joined.len(), is_joined: true }
    }

    fn append(&mut self, row: &[u8], text: Text) {
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
            self.turns[1] = Turn { content, bytes: system.bytes + user.bytes, ..user };
            self.turns.remove(0);
        }
        Ok(())
    }
}

/// What is needed to take one row apart.
struct Reading<'a> {
    row: &'a [u8],
    template: &'a Template,
    invalid_utf8: InvalidUtf8,
    fields: Fields,
}

impl Reading<'_> {
    /// `null` is as good as none.
    fn field(&self, key: Key) -> Option<(Kind, usize)> {
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

    fn misses<T>(&self, key: Key, hint: &str) -> Result<T> {
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
fn said(row: &[u8], quoted: Quoted) -> Cow<'_, [u8]> {
    let written = &row[quoted.start..quoted.end];
    if !quoted.has_escapes {
        return Cow::Borrowed(written);
    }
    let mut said = Vec::new();
    unescape(written, &mut said);
    Cow::Owned(said)
}
