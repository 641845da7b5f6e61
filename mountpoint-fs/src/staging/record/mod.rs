//! Records of the journal that say what a committed file is.
//!
//! `format` has the bytes, `commit` makes a version durable, and `recovery` finds what an earlier
//! process committed. Knows no uploads.

mod commit;
mod format;
mod headers;
mod recovery;

pub(super) use commit::{CommitFailure, CommitRequest, CommittedRecord, commit, remove, sum};
pub(super) use format::{VersionRecord, in_files};
pub(super) use headers::HeadersRecord;
pub(super) use recovery::{
    DamagedVersion, FoundRecord, ReadRecord, RecoveredVersion, check_files, read_record, recover,
    write_inline,
};
