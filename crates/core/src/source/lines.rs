//! A growing window over an input, shared by the sources that look for separators in it.

use super::Input;
use crate::error::Result;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// `bytes` is what was read and not yet handed out; `offset` is where it starts in the input.
pub struct Window {
    input: Box<dyn Input>,
    pub bytes: Vec<u8>,
    pub offset: u64,
    pub ended: bool,
}

impl Window {
    pub fn new(input: Box<dyn Input>, offset: u64) -> Self {
        Window { input, bytes: Vec::new(), offset, ended: false }
    }

    /// Read until `len` bytes are there or the input ends. A byte order mark at the very start is dropped.
    pub fn fill(&mut self, len: usize) -> Result<()> {
        let at_start = self.offset == 0 && self.bytes.is_empty();
        let mut filled = self.bytes.len();
        if filled < len && !self.ended {
            self.bytes.resize(len, 0);
            while filled < len {
                let n = self.input.read(&mut self.bytes[filled..])?;
                if n == 0 {
                    self.ended = true;
                    break;
                }
                filled += n;
            }
            self.bytes.truncate(filled);
        }
        if at_start && self.bytes.starts_with(BOM) {
            self.take(BOM.len());
        }
        Ok(())
    }

    /// Take the first `len` bytes out. What remains is copied, so the caller takes nearly all of the window.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let rest = self.bytes[len..].to_vec();
        let mut taken = std::mem::replace(&mut self.bytes, rest);
        taken.truncate(len);
        self.offset += len as u64;
        taken
    }
}
