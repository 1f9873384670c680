//! A template as ids: what stands around the content of each turn, and which of it is trained on.
//!
//! The definition people write is Python's (`chat/profiles.py`); it arrives here cut into special tokens and literal
//! text. No text of a row is ever searched for special tokens: the only special ids of a rendered row are those that
//! stand here.

use crate::encode::Bpe;
use crate::error::{Error, Result};

/// A part of what stands around contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Special(u32),
    /// Encoded together with whatever text it touches.
    Text(String),
}

#[derive(Clone, Debug)]
pub struct Role {
    pub name: String,
    pub before: Vec<Piece>,
    pub after: Vec<Piece>,
    pub is_trained: bool,
    /// How many pieces of `after` are trained on where the content is.
    pub trained_after: usize,
}

/// The definition, as a caller gives it.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    pub bos: Vec<Piece>,
    pub roles: Vec<Role>,
    /// What joins a system message to the user message it is put in front of; `None` where it is a turn.
    pub merge_system: Option<String>,
    /// The roles that `instruction` and `input` of an Alpaca row play. If it is the same one, they are one message.
    pub instruction: String,
    pub input: String,
}

/// A definition that was checked against a vocab.
pub struct Template {
    pub bos: Vec<Piece>,
    pub roles: Vec<Role>,
    pub merge_system: Option<String>,
    pub user: usize,
    pub assistant: usize,
    pub instruction: usize,
    pub input: usize,
}

/// The place of a system message that is not a turn of its own.
pub const MERGED_SYSTEM: usize = usize::MAX;

/// Other names that chats give to roles, used where a template does not know them itself.
const ALIASES: [(&[u8], &[u8]); 2] = [(b"human", b"user"), (b"gpt", b"assistant")];

impl Template {
    pub fn new(definition: Definition, bpe: &Bpe) -> Result<Self> {
        let Definition { bos, roles, merge_system, instruction, input } = definition;
        let mut template =
            Template { bos, roles, merge_system, user: 0, assistant: 0, instruction: 0, input: 0 };
        let unknown = |name: &str| Error::config(format!("the template has no role `{name}`"));
        let place = |name: &str| template.find(name.as_bytes()).ok_or_else(|| unknown(name));
        let places = [place("user")?, place("assistant")?, place(&instruction)?, place(&input)?];
        [template.user, template.assistant, template.instruction, template.input] = places;
        template.check(bpe)?;
        Ok(template)
    }

    fn check(&self, bpe: &Bpe) -> Result<()> {
        let around = self.roles.iter().flat_map(|role| role.before.iter().chain(&role.after));
        for piece in self.bos.iter().chain(around) {
            if let Piece::Special(id) = piece
                && !bpe.vocab().special_tokens().iter().any(|(_, special)| special == id)
            {
                return Err(Error::config(format!("id {id} of the template is no special token")));
            }
        }
        for role in &self.roles {
            if role.trained_after > role.after.len() {
                return Err(Error::config(format!("role `{}` trains on more than it has", role.name)));
            }
        }
        Ok(())
    }

    /// The place of the role that a message names.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let known = |name: &[u8]| self.roles.iter().position(|role| role.name.as_bytes() == name);
        known(name).or_else(|| {
            if name == b"system" && self.merge_system.is_some() {
                return Some(MERGED_SYSTEM);
            }
            ALIASES.iter().find(|(alias, _)| *alias == name).and_then(|(_, role)| known(role))
        })
    }
}
