//! Where a vocab comes from, in the words of its messages: values of a caller, or places of a file.

use crate::error::Error;

pub enum Origin {
    /// Values: `merge 3`, and a VocabError.
    Caller,
    /// A tokenizer.json: `tokenizer.json` at `model.merges[3]`, and a FormatError as for every file.
    TokenizerJson { file: String },
    /// Ranks as tiktoken keeps them.
    Ranks { file: String },
}

const NO_HOLES: &str = "ids must run from 0 without holes";

impl Origin {
    pub fn error(&self, message: String) -> Error {
        match self {
            Origin::Caller => Error::vocab(message),
            Origin::TokenizerJson { .. } | Origin::Ranks { .. } => Error::format(message),
        }
    }

    pub fn tokens(&self) -> String {
        match self {
            Origin::Caller => "the vocab".into(),
            Origin::TokenizerJson { file } => format!("`{file}` at `model.vocab`"),
            Origin::Ranks { file } => format!("`{file}`"),
        }
    }

    /// Put before a message about special tokens.
    pub fn special_tokens(&self) -> String {
        match self {
            Origin::Caller => String::new(),
            Origin::TokenizerJson { file } => format!("`{file}` at `added_tokens`: "),
            Origin::Ranks { file } => format!("`{file}`: "),
        }
    }

    pub fn merge(&self, rank: usize) -> String {
        match self {
            Origin::Caller | Origin::Ranks { .. } => format!("merge {rank}"),
            Origin::TokenizerJson { file } => format!("`{file}` at `model.merges[{rank}]`"),
        }
    }

    pub fn joins(&self, rank: usize, left: &[u8], right: &[u8]) -> String {
        format!("{} joins {} and {}", self.merge(rank), show(left), show(right))
    }

    pub fn spelled_twice(&self, first: u32, second: u32, token: &[u8]) -> Error {
        let (tokens, token) = (self.tokens(), show(token));
        self.error(match self {
            // Letters are one to one, so only one key can spell them.
            Origin::TokenizerJson { .. } => {
                format!("{tokens}: the key of {token} stands twice in one object")
            }
            _ => format!("{tokens} ids {first} and {second} both spell {token}"),
        })
    }

    pub fn hole(&self, tokens: usize, last: u32, missing: u32) -> Error {
        let place = self.tokens();
        match self {
            Origin::Ranks { .. } => {
                let message = format!("{place} has ranks up to {last}, but no rank {missing}");
                self.error(message).hint(
                    "ranks run from 0 without holes; if it is the id of a special token, pass that in `special_tokens`",
                )
            }
            _ => {
                let message = format!("{place} has {tokens} tokens up to id {last}, but no id {missing}");
                self.error(message).hint(NO_HOLES)
            }
        }
    }

    pub fn id_given_twice(&self, id: u32, one: &[u8], other: &[u8], other_is_special: bool) -> Error {
        if other_is_special {
            let (place, other, one) = (self.special_tokens(), show(other), show(one));
            return self.error(format!("{place}special token {other} has id {id}, which spells {one}"));
        }
        if one == other {
            return self.error(format!(
                "{}: the key of {} stands twice in one object",
                self.tokens(),
                show(one)
            ));
        }
        self.error(format!("{}: id {id} is given to {} and to {}", self.tokens(), show(one), show(other)))
    }
}

/// `token` as it stands in a message: as text where it is UTF-8 that can be seen, else as Python writes bytes.
pub fn show(token: &[u8]) -> String {
    let visible = |c: char| c == ' ' || !(c.is_control() || c.is_whitespace());
    match std::str::from_utf8(token) {
        Ok(text) if !text.is_empty() && text.chars().all(visible) => format!("`{}`", shortened(text)),
        _ => format!("`b'{}'`", shortened(&token.escape_ascii().to_string())),
    }
}

/// The beginning of what is too long for a message.
pub fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
