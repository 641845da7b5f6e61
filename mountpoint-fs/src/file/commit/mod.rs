//! Records of the journal that say what a committed file is.
//!
//! `format` has the bytes, `request` makes a version durable, and `recovery` finds what an earlier
//! process committed. Knows no uploads.

mod format;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod headers;
mod recovery;
mod request;
mod sum_run;

pub(super) use format::{VersionRecord, in_files, sum};
pub(super) use headers::HeadersRecord;
pub(super) use recovery::{
    DamagedVersion, FoundRecord, ReadRecord, RecoveredVersion, check_files, check_formats,
    read_record, recover, write_inline,
};
pub(super) use request::{
    CommitFailure, CommitRequest, CommittedRecord, commit, drop_sums, remove,
};
