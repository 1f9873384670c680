//! Big arrays on big pages: random access to tens of megabytes spends more time on address translation than on
//! memory when a page has four kilobytes (multilingual training: a fifth of the merge phase).

use std::sync::atomic::AtomicU32;

/// An empty vector with room for `capacity` elements, on huge pages where the system offers them on request.
pub fn with_huge_pages<T>(capacity: usize) -> Vec<T> {
    let vector = Vec::with_capacity(capacity);
    #[cfg(target_os = "linux")]
    advise(vector.as_ptr() as usize, capacity * size_of::<T>());
    vector
}

/// So many zeros, on huge pages; the system hands them out untouched.
pub fn zeros_on_huge_pages(len: usize) -> Vec<u32> {
    let zeros = vec![0u32; len];
    #[cfg(target_os = "linux")]
    advise(zeros.as_ptr() as usize, len * size_of::<u32>());
    zeros
}

/// Numbers that several threads may write at the same time.
pub fn as_atomics(numbers: &mut [u32]) -> &[AtomicU32] {
    let pointer: *mut [u32] = numbers;
    // SAFETY: an `AtomicU32` has the size, alignment and valid values of a `u32`, and for as long as the atomics are
    // borrowed nobody else can reach the numbers, since they are borrowed exclusively.
    unsafe { &*(pointer as *const [AtomicU32]) }
}

#[cfg(target_os = "linux")]
fn advise(address: usize, bytes: usize) {
    const PAGE: usize = 4096;
    const WORTH_IT: usize = 4 << 20;
    let start = address.next_multiple_of(PAGE);
    let end = (address + bytes) / PAGE * PAGE;
    if bytes >= WORTH_IT && start < end {
        // SAFETY: the range lies inside one live allocation, and this advice changes no content. Should the kernel
        // refuse it, small pages do.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}
