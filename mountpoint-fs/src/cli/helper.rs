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

impl Helper {
    /// Whether these arguments after its word are its own. Behind a helper with tasks stands a task
    /// or a flag, or nothing; anything else is the directory for a bucket of its name.
    pub(super) fn takes(&self, rest: &[OsString]) -> bool {
        let command = (self.command)();
        if !command.has_subcommands() {
            return true;
        }
        let first = rest.first().map(|first| first.to_string_lossy());
        first.is_none_or(|first| {
            first.starts_with('-') || first == "help" || command.find_subcommand(&*first).is_some()
        })
    }

    /// Its flags and tasks as those of a subcommand.
    pub(super) fn subcommand(&self) -> Command {
        (self.command)().name(self.name)
    }
}

impl fmt::Debug for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Helper").field(&self.name).finish()
    }
}

/// Words that select a helper command: a bucket of such a name is mounted as `s3://NAME`.
pub const HELPER_NAMES: [&str; 11] = [
    "doctor",
    "bench",
    "index",
    "warm",
    "cache",
    "staged",
    "stats",
    "trace",
    "record",
    "completions",
    "man",
];
