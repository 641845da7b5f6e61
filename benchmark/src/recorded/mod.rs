//! Files of `mount-s3 trace`: the reads of programs, to be carried out again.
//!
//! `format` reads a file, `order` decides which calls wait for which. Knows neither workloads nor
//! mounts.

mod format;
mod order;

pub(crate) use format::{Recorded, RecordedCall, RecordedFile};
pub(crate) use order::{ThreadCalls, threads};

/// Directory of the files whose reads are carried out again.
pub(crate) const REPLAYED: &str = "replay";

/// When the reads are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "kebab-case")]
pub(crate) enum Pace {
    /// As soon as the reads before have ended
    #[default]
    Fast,
    /// When they were recorded, or later
    Recorded,
}
