//! Written files on a local disk.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values::seconds;
use crate::config::{ConflictPolicy, WriteBackConfig};

/// Flags under "Staging options".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Staging options")]
pub struct StagingFlags {
    /// Keep written bytes in this directory of a local disk, not in memory, until `close` or
    /// `fsync` has stored them: files of any size can be changed anywhere. One mount uses it at a
    /// time
    #[arg(long, value_name = "DIRECTORY")]
    pub staging: Option<PathBuf>,

    /// What becomes of a changed file that another client has changed meanwhile [default: fail]
    #[arg(long, value_name = "POLICY", value_enum, requires = "staging")]
    pub on_conflict: Option<OnConflict>,

    /// Let `close` and `fsync` return when the local disk has the file. It is uploaded afterwards,
    /// by the next mount if this one ends before; so two hosts may both make one lock file
    #[arg(long, requires = "staging")]
    pub write_back: bool,

    /// Ask S3 before `O_CREAT | O_EXCL`, `mkdir`, `symlink` and `rename` with `RENAME_NOREPLACE`
    /// return: of two hosts that make one name, one gets `EEXIST`
    #[arg(long, requires = "write_back")]
    pub write_back_exclusive: bool,

    /// Wait before the upload of a closed file: rewrites meanwhile make one upload [default: 1]
    #[arg(long, value_name = "SECONDS", requires = "write_back", value_parser = seconds(0..=DELAY_MAX))]
    pub write_back_delay: Option<u64>,

    /// Longest wait for uploads at the end of the mount; the next mount goes on with the rest
    /// [default: 20]
    #[arg(long, value_name = "SECONDS", requires = "write_back", value_parser = seconds(0..=DRAIN_MAX))]
    pub drain_timeout: Option<u64>,
}

impl StagingFlags {
    /// The settings of write-back; `None` without it.
    #[must_use]
    pub fn write_back(&self) -> Option<WriteBackConfig> {
        let default = WriteBackConfig::default();
        let or = |seconds: Option<u64>, default| seconds.map_or(default, Duration::from_secs);
        self.write_back.then(|| WriteBackConfig {
            delay: or(self.write_back_delay, default.delay),
            drain_timeout: or(self.drain_timeout, default.drain_timeout),
            is_exclusive: self.write_back_exclusive,
        })
    }
}

/// Longest wait before an upload: a day, so that a forgotten file is not left for ever.
const DELAY_MAX: u64 = 24 * 60 * 60;

/// Longest wait at the end of the mount: a week.
const DRAIN_MAX: u64 = 7 * 24 * 60 * 60;

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
