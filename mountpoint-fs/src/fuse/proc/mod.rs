//! What `/proc` tells of the processes that ask: who opens and closes, which system call, what a
//! signal means.
//!
//! Runs on session threads and reads what the kernel has at hand. What cannot be seen is said to be
//! unknown.

mod close;
mod signals;
mod syscall;

pub(super) use close::{ClosingThread, opener};
pub(super) use signals::Effect;
pub(super) use syscall::{LookingThread, WritingThread};
