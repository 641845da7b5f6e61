//! Strings of the C library. Knows no error and no other file of this crate.

use std::ffi::CStr;

/// A string that the C library keeps for ever.
///
/// # Safety
///
/// `text` is null or points to a terminated string that lives as long as the process.
pub(crate) unsafe fn static_text(text: *const libc::c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the caller's contract.
    let text: &'static CStr = unsafe { CStr::from_ptr(text) };
    text.to_str().unwrap_or("")
}
