//! Short byte strings as numbers, hashes of long ones, and where in a table they belong: shared by counting and
//! encoding, which look up the same pretokens.

/// Longest byte string that fits a key beside its length.
pub const SHORT_MAX: usize = 15;

/// Up to [`SHORT_MAX`] bytes from the low end up, zeros, and their number in the top byte. Never 0.
pub type Key = u128;

#[inline(always)]
pub fn short_key(text: &[u8], start: usize, len: usize) -> Key {
    let bytes = if let Some(sixteen) = text.get(start..start + 16) {
        let all = u128::from_le_bytes(sixteen.try_into().expect("sixteen bytes"));
        all & FIRST[len]
    } else {
        let mut buffer = [0; 16];
        buffer[..len].copy_from_slice(&text[start..start + len]);
        u128::from_le_bytes(buffer)
    };
    bytes | (len as u128) << 120
}

/// The lowest bytes, by their number.
const FIRST: [Key; 16] = {
    let mut first = [0; 16];
    let mut len = 1;
    while len < 16 {
        first[len] = Key::MAX >> (128 - 8 * len);
        len += 1;
    }
    first
};

#[inline(always)]
pub fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

pub const SEED: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03];

#[inline(always)]
pub fn hash_key(key: Key) -> u64 {
    fold(key as u64 ^ SEED[0], (key >> 64) as u64 ^ SEED[1])
}

#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(16);
    for chunk in &mut chunks {
        let key = u128::from_le_bytes(chunk.try_into().expect("sixteen bytes"));
        hash = fold(key as u64 ^ hash ^ SEED[0], (key >> 64) as u64 ^ hash.rotate_left(32) ^ SEED[1]);
    }
    let rest = chunks.remainder();
    let mut buffer = [0; 16];
    buffer[..rest.len()].copy_from_slice(rest);
    let key = u128::from_le_bytes(buffer);
    fold(key as u64 ^ hash ^ SEED[0], (key >> 64) as u64 ^ hash.rotate_left(32) ^ SEED[1])
}

/// The first slot to look at: the high bits of the hash, which the multiplication mixes best.
#[inline(always)]
pub fn slot_of(hash: u64, slots: usize) -> usize {
    (hash >> (64 - slots.trailing_zeros())) as usize
}

#[inline(always)]
pub fn prefetch<T>(slots: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and may name any address; this one is inside `slots` besides.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slots.as_ptr().wrapping_add(index).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slots, index);
}
