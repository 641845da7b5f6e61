//! Helper commands: what `mount-s3 NAME …` does instead of a mount.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

use clap::Command;

/// A helper command. Its folder is above this one, and `main` brings all of them.
#[derive(Clone, Copy)]
pub struct Helper {
    /// The word that selects it: one of [`HELPER_NAMES`].
    pub name: &'static str,
    /// Its flags and tasks, for completions and manual pages.
    pub command: fn() -> Command,
    /// Runs it with the arguments after the word, and returns the exit code.
    pub run: fn(Vec<OsString>) -> ExitCode,
}

impl fmt::Debug for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Helper").field(&self.name).finish()
    }
}

/// Words that select a helper command: `s3://NAME` always means the bucket.
pub const HELPER_NAMES: [&str; 10] = [
    "doctor",
    "bench",
    "index",
    "warm",
    "cache",
    "staged",
    "stats",
    "trace",
    "completions",
    "man",
];
