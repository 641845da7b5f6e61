//! The processes behind requests, as `/proc` shows them: openers and closers, system calls,
//! signals.
//!
//! Runs on session threads: each look is answered by the kernel at once. Invisible processes count
//! as unknown.

mod close;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod signals;
mod syscall;

use std::fs::File;
use std::io::Read as _;

pub(super) use close::{ClosingThread, opener};
pub(super) use signals::Effect;
pub(super) use syscall::LookingThread;

/// The content of a short file of the kernel, by one read. The name of a program in it may be of
/// any bytes.
fn short_text(path: &str) -> Option<String> {
    let mut text = vec![0; SHORT_TEXT_MAX];
    let len = File::open(path).ok()?.read(&mut text).ok()?;
    text.truncate(len);
    let cleaned =
        |error: std::string::FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
    Some(String::from_utf8(text).unwrap_or_else(cleaned))
}

/// Bytes of a `stat`, `syscall` or `stack` that are read: 52 numbers, 9, or 64 functions.
const SHORT_TEXT_MAX: usize = 4 << 10;
