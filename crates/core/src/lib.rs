//! Byte-level BPE without Python: the pipeline on one page.
//!
//! ```text
//! source::Reader ─ blocks of documents ─► count::Counter ─ PretokenCounts ─► train::train_merges ─ Merges
//!        pretokenize::Splitter cuts documents into pretokens, here and in ▼
//!                                               encode::Bpe ─ text ⇄ token ids ─► dataset ─ token files
//! ```
//!
//! What always holds: results never depend on threads, block sizes or the order of work; arbitrary bytes are
//! accepted everywhere; bad input is an [`Error`], never a panic; no input costs more than n log n.

#![warn(unused_crate_dependencies)]

pub mod chat;
pub mod count;
pub mod dataset;
pub mod decode;
pub mod encode;
pub mod error;
mod hash;
mod memory;
pub mod pretokenize;
pub mod reference;
pub mod source;
pub mod train;
pub mod unicode;
pub mod vocab;

pub use error::{Error, Result};
