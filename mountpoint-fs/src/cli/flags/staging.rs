//! Files that are written in place, on a local disk.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::ConflictPolicy;

/// Flags under "Staging options".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Staging options")]
pub struct StagingFlags {
    /// Let files be written at any place and in any order, with their changes in this directory of
    /// a local disk until `close` or `fsync` has stored them. One mount uses it at a time
    #[arg(long, value_name = "DIRECTORY")]
    pub staging: Option<PathBuf>,

    /// What becomes of a changed file that another client has changed meanwhile [default: fail]
    #[arg(long, value_name = "POLICY", value_enum, requires = "staging")]
    pub on_conflict: Option<OnConflict>,
}

/// Value of `--on-conflict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnConflict {
    /// The object stays, `close` fails, and the local version is kept in the directory
    Fail,
    /// The object stays, and the local version is stored beside it, as NAME.conflict-HOST-TIME
    KeepBoth,
    /// The local version replaces the object
    Overwrite,
}

impl From<OnConflict> for ConflictPolicy {
    fn from(policy: OnConflict) -> Self {
        match policy {
            OnConflict::Fail => Self::Fail,
            OnConflict::KeepBoth => Self::KeepBoth,
            OnConflict::Overwrite => Self::Overwrite,
        }
    }
}
