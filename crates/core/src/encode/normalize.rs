//! Unicode normalization form C, for vocabs whose tokenizer.json asks for it.

use std::borrow::Cow;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::unicode::{Classes, decode};

/// `text` in form C; bytes that are not UTF-8 stay as they are.
pub fn nfc(text: &[u8]) -> Cow<'_, [u8]> {
    // Below U+0300, whose first byte is 0xCC, nothing combines: most text is decided here.
    if text.iter().all(|&byte| byte < 0xCC) {
        return Cow::Borrowed(text);
    }
    if let Ok(valid) = simdutf8::basic::from_utf8(text) {
        if is_nfc_quick(valid.chars()) == IsNormalized::Yes {
            return Cow::Borrowed(text);
        }
        return Cow::Owned(valid.nfc().collect::<String>().into_bytes());
    }
    let mut normalized = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        normalized.extend(chunk.valid().nfc().collect::<String>().into_bytes());
        normalized.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(normalized)
}

/// Whether normalizing the text before `at` and the text from there on gives what normalizing both at once does, and
/// leaves the characters on both sides as they are. Both sides have one.
pub fn is_stable_at(text: &[u8], at: usize) -> bool {
    let stays = |character: u32| {
        let character = char::from_u32(character)?;
        let is_whole = is_nfc_quick(std::iter::once(character)) == IsNormalized::Yes;
        (is_whole && canonical_combining_class(character) == 0).then_some(())
    };
    let (start, _, _) = Classes::get().before(text, at);
    let before = decode(&text[start..at]).and_then(|(character, _)| stays(character));
    let after = decode(&text[at..]).and_then(|(character, _)| stays(character));
    before.and(after).is_some()
}
