//! Ids in a Python list, read where they lie.
//!
//! The stable ABI has a call for the item of a list, one for its type and one for its value: three quarters of the time
//! it took to decode a list. The interpreters we know keep both in the same places, so there they are read without
//! calls. Which interpreter runs is asked once, and whether numbers are where they should be is tried out; where
//! either is in doubt, every number goes through the calls.

use std::mem::size_of;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

/// A list, as CPython 3.11 to 3.14 with a GIL lay it out.
#[repr(C)]
struct ListObject {
    head: ffi::PyVarObject,
    items: *const *mut ffi::PyObject,
}

/// An `int`, likewise: at least one digit of thirty bits.
#[repr(C)]
struct IntObject {
    head: ffi::PyObject,
    tag: usize,
    digit: u32,
}

/// What the tag of an `int` says.
#[derive(Clone, Copy, PartialEq)]
enum Tag {
    /// 3.11: the number of digits, negative for negative numbers.
    Size,
    /// From 3.12 on: the number of digits above three bits, two of which are 0 for positive numbers and 1 for zero.
    SizeAndSign,
}

/// The items of `list`, `None` if one is no plain `int` from 0 to 2^30, or the interpreter is not known.
pub fn small_ints(list: &Bound<'_, PyList>) -> Option<Vec<u32>> {
    static KNOWN: OnceLock<Option<Tag>> = OnceLock::new();
    match (*KNOWN.get_or_init(|| known_tag(list.py())))? {
        // SAFETY: this is how the running interpreter lays out lists and numbers.
        Tag::Size => unsafe { read(list, one_digit_3_11) },
        // SAFETY: the same.
        Tag::SizeAndSign => unsafe { read(list, one_digit_3_12) },
    }
}

#[inline(always)]
fn one_digit_3_11(tag: usize, digit: u32) -> Option<u32> {
    match tag {
        1 => Some(digit),
        0 => Some(0),
        _ => None,
    }
}

#[inline(always)]
fn one_digit_3_12(tag: usize, digit: u32) -> Option<u32> {
    // The third bit marks numbers that are never freed.
    match tag & !4 {
        8 => Some(digit),
        1 => Some(0),
        _ => None,
    }
}

/// # Safety
/// `ListObject` and `IntObject` are how the interpreter lays them out. `list` holds the GIL, and nothing here lets it
/// go, so that the list stays as it is.
#[inline(always)]
unsafe fn read(list: &Bound<'_, PyList>, one_digit: impl Fn(usize, u32) -> Option<u32>) -> Option<Vec<u32>> {
    let int_type = &raw mut ffi::PyLong_Type;
    // SAFETY: by the promise above these fields are there; a list has `ob_size` items, each a live object, and one whose
    // type is `int` itself is an `IntObject`. There is room for `len` numbers, and all of them have been written.
    unsafe {
        let list = list.as_ptr().cast::<ListObject>();
        let len = (*list).head.ob_size as usize;
        let mut numbers = Vec::with_capacity(len);
        let start: *mut u32 = numbers.as_mut_ptr();
        for index in 0..len {
            let item = *(*list).items.add(index);
            if (*item).ob_type != int_type {
                return None;
            }
            let int = item.cast::<IntObject>();
            start.add(index).write(one_digit((*int).tag, (*int).digit)?);
        }
        numbers.set_len(len);
        Some(numbers)
    }
}

/// The layout of the running interpreter, if it is one that we know and it passes the test.
fn known_tag(py: Python<'_>) -> Option<Tag> {
    let version = py.version_info();
    let tag = match (version.major, version.minor) {
        (3, 11) => Tag::Size,
        (3, 12..=14) => Tag::SizeAndSign,
        _ => return None,
    };
    // Without a GIL objects have a longer head, and lists may change while we read.
    let is_cpython = || py.import("sys")?.getattr("implementation")?.getattr("name")?.extract::<String>();
    if size_of::<ffi::PyObject>() != 2 * size_of::<usize>() || is_cpython().ok()? != "cpython" {
        return None;
    }
    let read_one = |number: i64| -> Option<u32> {
        let number: Bound<'_, PyInt> = number.into_pyobject(py).ok()?;
        let number = number.as_ptr().cast::<IntObject>();
        // SAFETY: every `int` has room for one digit behind its head and tag.
        let (tag_of, digit) = unsafe { ((*number).tag, (*number).digit) };
        if tag == Tag::Size { one_digit_3_11(tag_of, digit) } else { one_digit_3_12(tag_of, digit) }
    };
    let found = [0, 1, 255, 256, 257, 65_537, (1 << 30) - 1].iter().all(|&n| read_one(n) == Some(n as u32));
    let refused = [-1, -257, 1 << 30, -(1 << 30), 1 << 40, i64::MAX].iter().all(|&n| read_one(n).is_none());
    (found && refused).then_some(tag)
}
