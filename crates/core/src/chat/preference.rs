//! Rows of two answers to the same prompt.

use memchr::memmem;

use super::Reason;
use super::json::Kind;
use super::row::{Key, Reading, Result, Row, Text, Turn, skip};

/// Who speaks in a conversation that is one text, as hh-rlhf has it.
const USER: &[u8] = b"\n\nHuman:";
const ASSISTANT: &[u8] = b"\n\nAssistant:";

impl Row {
    pub(super) fn read_preference(&mut self, reading: &Reading) -> Result<()> {
        for key in [Key::Chosen, Key::Rejected] {
            if reading.field(key).is_none() {
                return reading.misses(key, "a preference row has `chosen`, `rejected` and, unless these are whole conversations, `prompt`");
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
        if self.is_transcript(reading, &chosen) && self.is_transcript(reading, &rejected) {
            chosen = self.speakers(reading, chosen[0]);
            rejected = self.speakers(reading, rejected[0]);
        }
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

    /// Whether `answer` is one text that begins with a speaker, where nobody says what it answers.
    fn is_transcript(&self, reading: &Reading, answer: &[Turn]) -> bool {
        let [turn] = answer else { return false };
        reading.field(Key::Prompt).is_none() && self.text(reading.row, turn.content).starts_with(USER)
    }

    /// The turns of a text in which each begins with its speaker. One space behind the name belongs to it.
    fn speakers(&self, reading: &Reading, whole: Turn) -> Vec<Turn> {
        let text = self.text(reading.row, whole.content);
        let of_user = memmem::find_iter(text, USER).map(|at| (at, USER));
        let mut starts: Vec<_> =
            memmem::find_iter(text, ASSISTANT).map(|at| (at, ASSISTANT)).chain(of_user).collect();
        starts.sort_unstable();
        let ends = starts.iter().skip(1).map(|&(at, _)| at).chain([text.len()]);
        let turn = |(&(at, speaker), end): (&(usize, &[u8]), usize)| {
            let said = at + speaker.len();
            let start = whole.content.start + said + usize::from(text[said..end].starts_with(b" "));
            let content = Text { start, end: whole.content.start + end, ..whole.content };
            match speaker == USER {
                true => Turn { role: reading.template.user, content, is_trained: false },
                false => Turn { content, ..whole },
            }
        };
        starts.iter().zip(ends).map(turn).collect()
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
        if shared == 0 {
            let detail = "`chosen` and `rejected` are conversations that begin differently".to_owned();
            return skip(Reason::PromptDiffers, detail);
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
}
