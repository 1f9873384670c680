//! `tokenmill._core`: the Python face of the core. One file for each class; [`detached`] is how long calls run.
#![warn(unused_crate_dependencies)]

mod array;
mod bpe;
mod buffers;
mod chat;
mod counts;
mod cpu;
mod dataset;
mod decoding;
mod detached;
mod encode_stream;
mod errors;
mod int_lists;
mod lenient_decoder;
mod numbers;
mod offset_pairs;
mod source;
mod splitter;
mod texts;
mod train;
mod vocab;
mod word_numbers;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _core {
    use super::*;

    #[pymodule_export]
    use super::array::Array;
    #[pymodule_export]
    use super::bpe::Bpe;
    #[pymodule_export]
    use super::chat::{ChatEncoder, EncodedRows};
    #[pymodule_export]
    use super::counts::{Counter, Counts};
    #[pymodule_export]
    use super::dataset::{encode_documents, join_documents, shuffle_documents};
    #[pymodule_export]
    use super::encode_stream::EncodeStream;
    #[pymodule_export]
    use super::lenient_decoder::LenientDecoder;
    #[pymodule_export]
    use super::source::{Documents, Reader, Source};
    #[pymodule_export]
    use super::splitter::{Splitter, named_patterns};
    #[pymodule_export]
    use super::train::{Merges, train_merges, train_merges_from};
    #[pymodule_export]
    use super::vocab::{TokenizerModel, Vocab, read_tokenizer_json};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("UNICODE_VERSION", tokenmill_core::unicode::UNICODE_VERSION)?;
        module.add("CPU_LEVEL", cpu::level())
    }
}
