//! The processes behind requests, as `/proc` shows them: openers and closers, system calls,
//! signals.
//!
//! Runs on session threads: each look is answered by the kernel at once. Invisible processes count
//! as unknown.

mod close;
mod signals;
mod syscall;

pub(super) use close::{ClosingThread, opener};
pub(super) use signals::Effect;
pub(super) use syscall::LookingThread;
