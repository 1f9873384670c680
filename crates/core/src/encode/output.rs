//! Where ids go: into 16 or 32 bits each, or only into a sum.

/// A token id as it is stored.
pub trait Id: Copy + Default + Send + 'static {
    fn new(id: u32) -> Self;
    /// Append the ids that lie in `bytes` as files keep them.
    fn extend_from_bytes(ids: &mut Vec<Self>, bytes: &[u8]);
    /// The same memory, as bytes. Every machine tokenmill runs on keeps the low byte first, as files do.
    fn as_bytes(ids: &[Self]) -> &[u8] {
        const { assert!(cfg!(target_endian = "little")) };
        // SAFETY: `u16` and `u32`, the only implementors, have no padding, and a byte has no alignment.
        unsafe { std::slice::from_raw_parts(ids.as_ptr().cast(), size_of_val(ids)) }
    }
}

impl Id for u16 {
    #[inline(always)]
    fn new(id: u32) -> u16 {
        debug_assert!(id <= u32::from(u16::MAX));
        id as u16
    }

    fn extend_from_bytes(ids: &mut Vec<u16>, bytes: &[u8]) {
        std::iter::Extend::extend(ids, bytes.chunks_exact(2).map(|id| u16::from_le_bytes([id[0], id[1]])));
    }
}

impl Id for u32 {
    #[inline(always)]
    fn new(id: u32) -> u32 {
        id
    }

    fn extend_from_bytes(ids: &mut Vec<u32>, bytes: &[u8]) {
        std::iter::Extend::extend(
            ids,
            bytes.chunks_exact(4).map(|id| u32::from_le_bytes([id[0], id[1], id[2], id[3]])),
        );
    }
}

pub trait Output {
    /// The first `count` of `ids`.
    fn push_four(&mut self, ids: [u32; 4], count: usize);
    fn extend(&mut self, ids: &[u32]);
}

impl<I: Id> Output for Vec<I> {
    #[inline(always)]
    fn push_four(&mut self, ids: [u32; 4], count: usize) {
        let len = self.len();
        if self.capacity() - len < 4 {
            self.reserve(4);
        }
        // All four are written and `count` of them kept: most pretokens are one token, some are two, and a store of
        // sixteen bytes costs less than finding out.
        // SAFETY: there is room for four more, and `count` is at most four, each just written.
        unsafe {
            self.as_mut_ptr().add(len).cast::<[I; 4]>().write(ids.map(I::new));
            self.set_len(len + count.min(4));
        }
    }

    #[inline]
    fn extend(&mut self, ids: &[u32]) {
        std::iter::Extend::extend(self, ids.iter().map(|&id| I::new(id)));
    }
}

/// Counts ids and keeps none.
#[derive(Default)]
pub struct TokenCount(pub usize);

impl Output for TokenCount {
    #[inline(always)]
    fn push_four(&mut self, _ids: [u32; 4], count: usize) {
        self.0 += count;
    }

    fn extend(&mut self, ids: &[u32]) {
        self.0 += ids.len();
    }
}
