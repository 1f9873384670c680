//! Rows of conversations in, token ids and a loss mask out.
//!
//! [`json`] reads a row in place, [`row`], [`preference`] and [`message`] find its turns, [`render`] puts down the ids of the [`Template`] and of the
//! contents. What always holds: contents are ordinary text, so the only special ids are those of the template; the mask is
//! as long as the ids; a row that is left out leaves nothing behind and has a [`Reason`].

mod batch;
mod json;
mod message;
mod preference;
mod render;
mod row;
mod template;

use std::sync::Arc;

use crate::count::Watch;
use crate::encode::{Bpe, Id, Rules, Worker};
use crate::error::{Error, Result};
use crate::source::{InvalidUtf8, REPLACE_HINT};
use render::{Pending, Renderer};
use row::{Refusal, Row, Turn};

pub use batch::{RowBatch, SkippedRow};
pub use template::{Definition, Piece, Role, Template};

/// What a row becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// One conversation.
    Sft,
    /// Two: the prompt with the chosen answer, and with the rejected one.
    Preference,
}

/// How a row of [`Mode::Sft`] holds its conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    Messages,
    Conversations,
    PromptCompletion,
    Alpaca,
}

impl Shape {
    pub const NAMES: [(&'static str, Shape); 4] = [
        ("messages", Shape::Messages),
        ("conversations", Shape::Conversations),
        ("prompt-completion", Shape::PromptCompletion),
        ("alpaca", Shape::Alpaca),
    ];
}

/// What to do with a conversation of more than `max_tokens`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooLong {
    Drop,
    /// Keep the first tokens.
    KeepStart,
    /// Keep the last tokens.
    KeepEnd,
    Error,
}

impl TooLong {
    pub const NAMES: [(&'static str, TooLong); 4] = [
        ("drop", TooLong::Drop),
        ("keep-start", TooLong::KeepStart),
        ("keep-end", TooLong::KeepEnd),
        ("error", TooLong::Error),
    ];
}

#[derive(Clone, Copy, Debug)]
pub struct RowOptions {
    pub mode: Mode,
    /// `None` finds out by the keys of each row.
    pub shape: Option<Shape>,
    pub max_tokens: Option<usize>,
    pub too_long: TooLong,
    pub invalid_utf8: InvalidUtf8,
}

/// Why a row was left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    NoAssistantTurn,
    EmptyCompletion,
    NoTrainedTokens,
    ChosenEqualsRejected,
    PromptDiffers,
    TooLong,
    NullContent,
    ToolCalls,
    UnknownRole,
    ContentPart,
    SystemNotFirst,
    /// A template of somebody else refused it, or changed what was said.
    Template,
}

impl Reason {
    pub const ALL: [Reason; 12] = [
        Reason::NoAssistantTurn,
        Reason::EmptyCompletion,
        Reason::NoTrainedTokens,
        Reason::ChosenEqualsRejected,
        Reason::PromptDiffers,
        Reason::TooLong,
        Reason::NullContent,
        Reason::ToolCalls,
        Reason::UnknownRole,
        Reason::ContentPart,
        Reason::SystemNotFirst,
        Reason::Template,
    ];

    /// As it stands in reports.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NoAssistantTurn => "no_assistant_turn",
            Reason::EmptyCompletion => "empty_completion",
            Reason::NoTrainedTokens => "no_trained_tokens",
            Reason::ChosenEqualsRejected => "chosen_equals_rejected",
            Reason::PromptDiffers => "prompt_differs",
            Reason::TooLong => "too_long",
            Reason::NullContent => "null_content",
            Reason::ToolCalls => "tool_calls",
            Reason::UnknownRole => "unknown_role",
            Reason::ContentPart => "content_part",
            Reason::SystemNotFirst => "system_not_first",
            Reason::Template => "template",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Reason> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// One conversation that was appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Document {
    pub tokens: usize,
    pub trained: usize,
    /// Of its contents as they are encoded, before anything was cut off; what the template puts around them is not text.
    pub bytes: u64,
    pub is_truncated: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Appended: one document, or in [`Mode::Preference`] the chosen and then the rejected one.
    Encoded(Document, Option<Document>),
    /// Nothing was appended. The text says more than the reason.
    Skipped(Reason, String),
}

/// Rows to ids by one template. Shared by threads, each with a [`RowWorker`] of its own.
pub struct ChatEncoder {
    bpe: Arc<Bpe>,
    template: Template,
    options: RowOptions,
}

impl ChatEncoder {
    pub fn new(bpe: Arc<Bpe>, definition: Definition, options: RowOptions) -> Result<Self> {
        let template = Template::new(definition, &bpe)?;
        if options.max_tokens == Some(0) {
            return Err(Error::config("`max_tokens` is 0, which leaves no token of any row"));
        }
        Ok(ChatEncoder { bpe, template, options })
    }

    pub fn bpe(&self) -> &Arc<Bpe> {
        &self.bpe
    }

    /// Someone who encodes many rows on one thread.
    pub fn worker(&self) -> RowWorker<'_> {
        RowWorker {
            encoder: self,
            worker: self.bpe.worker(),
            ordinary: Rules::ordinary(),
            row: Row::default(),
            pending: Pending::default(),
            lookalikes: vec![0; self.bpe.vocab().special_tokens().len()],
        }
    }
}

/// One thread's memory.
pub struct RowWorker<'a> {
    encoder: &'a ChatEncoder,
    worker: Worker<'a>,
    ordinary: Rules,
    row: Row,
    pending: Pending,
    /// How often each special token of the vocab stood in a content, as text, so far.
    pub lookalikes: Vec<u64>,
}

impl RowWorker<'_> {
    /// Parts of texts that were not UTF-8 and became U+FFFD, since this was asked last.
    pub fn take_replaced_sequences(&mut self) -> u64 {
        std::mem::take(&mut self.row.replaced_sequences)
    }

    /// Append the ids of `row`, a JSON object, and as many mask bytes, 1 for a token that is trained on. Nothing is
    /// appended if the row is skipped or is an error.
    pub fn encode_row<I: Id>(
        &mut self,
        row: &[u8],
        ids: &mut Vec<I>,
        mask: &mut Vec<u8>,
        watch: &Watch,
    ) -> Result<Outcome> {
        let start = ids.len();
        debug_assert_eq!(start, mask.len());
        let outcome = self.encode_checked(row, ids, mask, watch);
        if !matches!(outcome, Ok(Outcome::Encoded(..))) {
            ids.truncate(start);
            mask.truncate(start);
        }
        outcome
    }

    fn encode_checked<I: Id>(
        &mut self,
        row: &[u8],
        ids: &mut Vec<I>,
        mask: &mut Vec<u8>,
        watch: &Watch,
    ) -> Result<Outcome> {
        if self.encoder.options.invalid_utf8 != InvalidUtf8::Keep
            && let Err(bad) = simdutf8::compat::from_utf8(row)
        {
            if self.encoder.options.invalid_utf8 == InvalidUtf8::Error {
                let at = bad.valid_up_to();
                let message = format!("is not valid UTF-8: byte {at} of the line is 0x{:02X}", row[at]);
                return Err(Error::source(message).hint(REPLACE_HINT));
            }
            let fixed = crate::source::replace_invalid(row, &mut self.row.replaced_sequences);
            let fixed = fixed.unwrap_or_else(|| row.to_vec());
            return self.encode_valid(&fixed, ids, mask, watch);
        }
        self.encode_valid(row, ids, mask, watch)
    }

    fn encode_valid<I: Id>(
        &mut self,
        row: &[u8],
        ids: &mut Vec<I>,
        mask: &mut Vec<u8>,
        watch: &Watch,
    ) -> Result<Outcome> {
        let encoder = self.encoder;
        match self.row.read(row, &encoder.template, &encoder.options) {
            Ok(()) => {}
            Err(Refusal::Error(error)) => return Err(error),
            Err(Refusal::Skip(reason, detail)) => return Ok(Outcome::Skipped(reason, detail)),
        }
        let middle = match self.encode_document(row, |row| &row.chosen, ids, mask, watch)? {
            Ok(document) if encoder.options.mode == Mode::Sft => {
                return Ok(Outcome::Encoded(document, None));
            }
            Ok(document) => document,
            Err((reason, detail)) => return Ok(Outcome::Skipped(reason, detail)),
        };
        match self.encode_document(row, |row| &row.rejected, ids, mask, watch)? {
            Ok(document) => Ok(Outcome::Encoded(middle, Some(document))),
            Err((reason, detail)) => Ok(Outcome::Skipped(reason, detail)),
        }
    }

    /// The conversation and the answer that goes with it.
    #[allow(clippy::type_complexity)] // an error of the run, or a reason of the row
    fn encode_document<I: Id>(
        &mut self,
        row: &[u8],
        answer: impl Fn(&Row) -> &Vec<Turn>,
        ids: &mut Vec<I>,
        mask: &mut Vec<u8>,
        watch: &Watch,
    ) -> Result<std::result::Result<Document, (Reason, String)>> {
        let encoder = self.encoder;
        let start = ids.len();
        let answer = answer(&self.row);
        let mut bytes = 0;
        for turn in self.row.turns.iter().chain(answer) {
            let text = self.row.text(row, turn.content);
            bytes += text.len() as u64;
            encoder.bpe.count_lookalikes(text, &self.ordinary, &mut self.lookalikes);
        }
        self.pending.clear();
        Renderer {
            bpe: &encoder.bpe,
            worker: &mut self.worker,
            ordinary: &self.ordinary,
            pending: &mut self.pending,
            ids,
            mask,
            watch,
        }
        .conversation(&encoder.template, row, &self.row, self.row.turns.iter().chain(answer))?;
        let tokens = ids.len() - start;
        let mut is_truncated = false;
        if let Some(most) = encoder.options.max_tokens.filter(|&most| tokens > most) {
            let detail = format!("{tokens} tokens are more than {most}");
            match encoder.options.too_long {
                TooLong::Drop => return Ok(Err((Reason::TooLong, detail))),
                TooLong::Error => {
                    let hint = "pass `--too-long drop`, `keep-start` or `keep-end`, or more `--max-tokens`";
                    return Err(Error::source(detail).hint(hint));
                }
                TooLong::KeepStart => {
                    ids.truncate(start + most);
                    mask.truncate(start + most);
                }
                TooLong::KeepEnd => {
                    ids.drain(start..start + tokens - most);
                    mask.drain(start..start + tokens - most);
                }
            }
            is_truncated = true;
        }
        let trained = mask[start..].iter().map(|&bit| usize::from(bit)).sum();
        if trained == 0 {
            let what = if is_truncated { "what was kept of it" } else { "its answer" };
            return Ok(Err((Reason::NoTrainedTokens, format!("{what} has no token to train on"))));
        }
        Ok(Ok(Document { tokens: ids.len() - start, trained, bytes, is_truncated }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::pretokenize::Splitter;
    use crate::vocab::{Tokens, Vocab};

    const USER: u32 = 256;
    const ASSISTANT: u32 = 257;
    const END: u32 = 258;

    fn encoder(mode: Mode, max_tokens: Option<usize>) -> ChatEncoder {
        let mut tokens = Tokens::default();
        (0..=255u8).for_each(|byte| tokens.push(&[byte]).unwrap());
        let specials = [("<u>", USER), ("<a>", ASSISTANT), ("<e>", END)];
        specials.iter().for_each(|(text, _)| tokens.push(text.as_bytes()).unwrap());
        let specials: HashMap<String, u32> = specials.map(|(text, id)| (text.to_owned(), id)).into();
        let vocab = Arc::new(Vocab::new(tokens, Vec::new(), &specials, false).unwrap());
        let bpe = Bpe::new(vocab, &Splitter::new("gpt4", &[]).unwrap(), false, 1 << 16).unwrap();
        let role = |name: &str, id, is_trained| Role {
            name: name.to_owned(),
            before: vec![Piece::Special(id)],
            after: vec![Piece::Special(END)],
            is_trained,
            trained_after: 1,
        };
        let definition = Definition {
            roles: vec![role("user", USER, false), role("assistant", ASSISTANT, true)],
            instruction: "user".to_owned(),
            input: "user".to_owned(),
            ..Definition::default()
        };
        let invalid_utf8 = InvalidUtf8::Error;
        let options = RowOptions { mode, shape: None, max_tokens, too_long: TooLong::Drop, invalid_utf8 };
        ChatEncoder::new(Arc::new(bpe), definition, options).unwrap()
    }

    #[test]
    fn rows_become_ids_and_a_mask() {
        let encoder = encoder(Mode::Sft, None);
        let (mut ids, mut mask) = (Vec::<u16>::new(), Vec::new());
        let row = br#"{"prompt": "<e>", "completion": "\u003ca>"}"#;
        let mut worker = encoder.worker();
        let outcome = worker.encode_row(row, &mut ids, &mut mask, &Watch::default()).unwrap();
        let document = Document { tokens: 10, trained: 4, bytes: 6, is_truncated: false };
        assert_eq!(outcome, Outcome::Encoded(document, None));
        let [less, e, more, a] = b"<e>a".map(u16::from);
        let [user, assistant, end] = [USER, ASSISTANT, END].map(|id| id as u16);
        assert_eq!(ids, [user, less, e, more, end, assistant, less, a, more, end]);
        assert_eq!(mask, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(worker.lookalikes.iter().sum::<u64>(), 2);
    }

    /// Whatever a row is, it is appended whole or not at all, and the rows around it do not change.
    #[test]
    fn rows_that_are_left_out_leave_nothing_behind() {
        let good = br#"{"prompt": "a", "chosen": "b", "rejected": "cc"}"#.as_slice();
        let bad: [&[u8]; 6] = [
            br#"{"prompt": "a", "chosen": "b", "rejected": "b"}"#,
            br#"{"prompt": "a", "chosen": "b", "rejected": "too long to be kept"}"#,
            br#"{"prompt": "a", "chosen": "b", "rejected": [{"role": "tool", "content": "x"}]}"#,
            br#"{"prompt": "a", "chosen": "b", "rejected": 3}"#,
            b"{",
            b"\"\xff\"",
        ];
        let encoder = encoder(Mode::Preference, Some(12));
        let mut worker = encoder.worker();
        let (mut ids, mut mask) = (Vec::<u32>::new(), Vec::new());
        let mut expected = Vec::new();
        for row in bad {
            for row in [good, row] {
                let outcome = worker.encode_row(row, &mut ids, &mut mask, &Watch::default());
                assert_eq!(row == good, matches!(outcome, Ok(Outcome::Encoded(_, Some(_)))));
            }
            for answer in [b"b".as_slice(), b"cc"] {
                expected.extend([USER, u32::from(b'a'), END, ASSISTANT]);
                expected.extend(answer.iter().map(|&byte| u32::from(byte)));
                expected.push(END);
            }
            assert_eq!(ids, expected);
            assert_eq!(mask.len(), ids.len());
        }
    }
}
