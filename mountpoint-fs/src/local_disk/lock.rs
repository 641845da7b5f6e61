//! Locks of files, by which processes keep out of each other's way.
//!
//! The lock is that of `flock`: the kernel drops it with the last descriptor of the open file.

use std::fs::{File, TryLockError};
use std::io;
use std::thread;
use std::time::Duration;

use crate::clock::Clock;

/// Takes the lock of `file` for this process alone. `false` while another one has it.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    is_taken(file.try_lock())
}

/// Takes the lock of `file` beside others that share it. `false` while a process has it alone.
pub(crate) fn try_lock_shared(file: &File) -> io::Result<bool> {
    is_taken(file.try_lock_shared())
}

/// Takes the lock of `file` for this process alone, and waits for it for `time_max` at most.
/// Returns whether it was free in that time.
pub(crate) fn lock_within(file: &File, time_max: Duration) -> io::Result<bool> {
    let clock = Clock::monotonic();
    while !try_lock(file)? {
        if clock.now() >= time_max {
            return Ok(false);
        }
        thread::sleep(PAUSE);
    }
    Ok(true)
}

fn is_taken(outcome: Result<(), TryLockError>) -> io::Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Pause between two tries for a lock, which others have for microseconds.
const PAUSE: Duration = Duration::from_millis(1);
