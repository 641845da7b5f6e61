//! The journal of staged writes: what was acknowledged is recoverable.
//!
//! Append-only segments in one folder hold records, the newest of each key. Writers that wait at
//! the same time share one sync. A segment goes when nothing in it lives.
//! doc/internals/staging.md has the format, the states and the figures.
//!
//! Knows neither files nor uploads: a record is bytes. Invariant: what a [`Commit`] said is durable
//! is found by the next [`Journal::open`] until a newer record of its key, or its release, is
//! durable; and nothing else is found.

mod batch;
mod committer;
mod filling;
mod format;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod index;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the type it defines"
)]
mod journal;
mod log;
mod reader;
mod recovery;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use self::batch::Commit;
pub(crate) use self::journal::{Journal, has_journal};
pub(crate) use self::reader::JournalReader;
pub(crate) use self::types::{
    AppendError, JournalError, JournalLimits, RECORD_LEN_MAX, RecordId, RecordKey, RecoveredRecord,
};
