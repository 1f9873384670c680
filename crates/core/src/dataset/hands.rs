//! What one thread encodes documents with: text by the rules of a recipe, or rows by a chat template.

use super::foreign_rows::ForeignHands;
use super::{Encoded, Kind, Recipe, Tally, TextRecipe};
use crate::chat::{Document, Outcome, RowWorker};
use crate::count::Watch;
use crate::encode::{Bpe, Id, Worker};
use crate::error::{Error, Result};
use crate::source::{BlockStats, OnError, SKIPPED_SHOWN};

pub enum Hands<'a> {
    Text(TextHands<'a>),
    Rows(Box<RowHands<'a>>),
    Foreign(ForeignHands<'a>),
}

impl<'a> Hands<'a> {
    pub fn new(recipe: &'a Recipe<'a>, bpe: &'a Bpe) -> Self {
        match &recipe.kind {
            Kind::Text(recipe) => Hands::Text(TextHands {
                bpe,
                recipe,
                worker: bpe.worker(),
                lookalikes: vec![0; bpe.vocab().special_tokens().len()],
            }),
            Kind::Rows(encoder, on_error) => Hands::Rows(Box::new(RowHands {
                worker: encoder.worker(),
                on_error: *on_error,
                tally: Tally::default(),
            })),
            Kind::Foreign(rows, on_error) => Hands::Foreign(ForeignHands {
                rows: *rows,
                on_error: *on_error,
                vocab_size: bpe.vocab().size(),
                tally: Tally::default(),
            }),
        }
    }

    pub fn into_tally(self) -> Tally {
        match self {
            Hands::Text(hands) => Tally { lookalikes: hands.lookalikes, ..Tally::default() },
            Hands::Rows(hands) => Tally { lookalikes: hands.worker.lookalikes, ..hands.tally },
            Hands::Foreign(hands) => hands.tally,
        }
    }
}

pub struct TextHands<'a> {
    bpe: &'a Bpe,
    recipe: &'a TextRecipe,
    worker: Worker<'a>,
    lookalikes: Vec<u64>,
}

impl TextHands<'_> {
    /// Append a document, or a part of one.
    pub fn encode<I: Id>(
        &mut self,
        text: &[u8],
        starts: bool,
        ends: bool,
        part: &mut Encoded<I>,
        watch: &Watch,
    ) -> Result<()> {
        let recipe = self.recipe;
        if let Some(bos) = recipe.bos.filter(|_| starts) {
            part.ids.push(I::new(bos));
        }
        part.ids.reserve(text.len() / 4 + 16);
        self.worker.encode(text, &recipe.rules, &mut part.ids, watch)?;
        self.bpe.count_lookalikes(text, &recipe.rules, &mut self.lookalikes);
        part.open_bytes += text.len() as u64;
        if ends {
            if let Some(eos) = recipe.eos {
                part.ids.push(I::new(eos));
            }
            part.ends.push((part.ids.len(), std::mem::take(&mut part.open_bytes)));
        }
        Ok(())
    }
}

pub struct RowHands<'a> {
    worker: RowWorker<'a>,
    on_error: OnError,
    tally: Tally,
}

impl RowHands<'_> {
    /// Append what `row` becomes. `about` makes a message about the row out of a reason; `place` is its block and its
    /// number there.
    pub fn encode<I: Id>(
        &mut self,
        row: &[u8],
        about: impl Fn(&str) -> String,
        place: (u64, u64),
        part: &mut Encoded<I>,
        stats: &mut BlockStats,
        watch: &Watch,
    ) -> Result<()> {
        let outcome = self.worker.encode_row(row, &mut part.ids, &mut part.mask, watch);
        stats.replaced_sequences += self.worker.take_replaced_sequences();
        match outcome {
            Ok(Outcome::Encoded(first, second)) => {
                let end = part.ids.len() - second.map_or(0, |second| second.tokens);
                self.keep(first, end, part);
                if let Some(second) = second {
                    self.keep(second, part.ids.len(), part);
                }
                Ok(())
            }
            Ok(Outcome::Skipped(reason, more)) => {
                self.tally.leave_out(reason);
                show(stats, place, || about(&format!("is left out ({}): {more}", reason.name())));
                Ok(())
            }
            Err(Error::Source { message, .. }) if self.on_error == OnError::Skip => {
                stats.skipped_records += 1;
                show(stats, place, || about(&message));
                Ok(())
            }
            Err(Error::Source { message, hint }) => Err(Error::Source { message: about(&message), hint }),
            Err(error) => Err(error),
        }
    }

    fn keep<I>(&mut self, document: Document, end: usize, part: &mut Encoded<I>) {
        part.ends.push((end, document.bytes));
        self.tally.truncated += u64::from(document.is_truncated);
    }
}

/// Keep a message about a record that was left out, if there are not enough already.
fn show(stats: &mut BlockStats, (block, record): (u64, u64), message: impl Fn() -> String) {
    if stats.skipped.len() < SKIPPED_SHOWN {
        stats.skipped.push((block, record, message()));
    }
}
