//! Keeping the version of a record of the journal.

use std::io;
use std::time::SystemTime;

use mountpoint_client::types::{Key, ObjectHeaders};

use super::keep::{Kept, keep};
use crate::config::StagingConfig;
use crate::file::commit::VersionRecord;
use crate::file::directory::StagingDirectory;
use crate::file::local::DataFiles;

/// Keeps the `version` of a record, all of whose bytes are in `files`, for the reason. Returns its
/// name when the disk has it. Blocks.
pub(in crate::file) fn keep_version(
    directory: &StagingDirectory,
    config: &StagingConfig,
    files: &DataFiles,
    version: &VersionRecord,
    (reason, time): (String, SystemTime),
) -> io::Result<String> {
    let key = Key::parse(&version.key).ok_or(io::ErrorKind::InvalidData)?;
    let headers: ObjectHeaders = version.headers.clone().into();
    let contents = version.contents();
    let base = version.base();
    let kept = Kept {
        key: &key,
        base: base.as_ref(),
        metadata: headers.metadata,
        contents: contents.now(),
        reason,
        time,
    };
    keep(directory, config, files, &kept)
}
