//! Requests to a mount, and its answers.

use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;

use crate::clock::date;
use crate::file::queue::{PendingUpload, PendingUploads};

/// A request to the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlRequest {
    /// The files that wait for their upload.
    Pending,
    /// Upload all of them as soon as possible.
    Flush,
    /// The files that were committed before the mark of an answer, and still wait.
    Left(u64),
}

/// The files that wait for their upload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingReport {
    /// Number of files.
    pub(crate) count: u64,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// The first of them.
    pub(crate) files: Vec<PendingRow>,
    /// Number of committed files that cannot be uploaded, because bytes of them are lost.
    #[serde(default)]
    pub(crate) damaged: u64,
    /// The first of those.
    #[serde(default)]
    pub(crate) damaged_files: Vec<PendingRow>,
    /// Commits until now, for [`ControlRequest::Left`].
    pub(crate) mark: u64,
}

/// Committed files of an earlier mount that cannot be uploaded.
#[derive(Clone, Debug, Default)]
pub(in crate::file) struct DamagedFiles {
    pub(in crate::file) count: u64,
    /// The first of them, at most [`PendingUploads::SHOWN_MAX`].
    pub(in crate::file) files: Vec<PendingRow>,
}

/// A file that waits for its upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingRow {
    /// Its name in the directory.
    pub(crate) id: String,
    /// The key under which it will be stored.
    pub(crate) key: String,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// The time of its last change, as RFC 3339 has it.
    pub(crate) time: String,
    /// Uploads that failed.
    pub(crate) tries: u32,
    /// The last failure.
    pub(crate) error: Option<String>,
}

impl ControlRequest {
    /// Its line.
    pub(super) fn line(self) -> String {
        match self {
            Self::Pending => "pending\n".to_owned(),
            Self::Flush => "flush\n".to_owned(),
            Self::Left(mark) => format!("left {mark}\n"),
        }
    }
}

impl FromStr for ControlRequest {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let unknown = || "this version of mount-s3 does not know the request".to_owned();
        match line.trim_end() {
            "pending" => Ok(Self::Pending),
            "flush" => Ok(Self::Flush),
            line => {
                let mark = line.strip_prefix("left ").and_then(|it| it.parse().ok());
                mark.map(Self::Left).ok_or_else(unknown)
            }
        }
    }
}

impl PendingReport {
    pub(super) fn new(pending: PendingUploads, damaged: &DamagedFiles, mark: u64) -> Self {
        Self {
            count: pending.count as u64,
            bytes: pending.bytes,
            files: pending.files.into_iter().map(PendingRow::new).collect(),
            damaged: damaged.count,
            damaged_files: damaged.files.clone(),
            mark,
        }
    }
}

impl DamagedFiles {
    /// Notes one more.
    pub(in crate::file) fn add(&mut self, file: PendingRow) {
        self.count += 1;
        if self.files.len() < PendingUploads::SHOWN_MAX {
            self.files.push(file);
        }
    }
}

impl PendingRow {
    fn new(file: PendingUpload) -> Self {
        Self {
            id: pending_id(file.number),
            key: file.key.to_string(),
            size: file.size,
            time: text_of(file.modified),
            tries: file.failures,
            error: file.error,
        }
    }
}

/// The name of a version that waits for its upload, for people.
pub(in crate::file) fn pending_id(number: u64) -> String {
    format!("pending-{number:x}")
}

/// A time as RFC 3339 has it.
pub(in crate::file) fn text_of(time: SystemTime) -> String {
    let time = date(time).format(&Rfc3339);
    time.unwrap_or_default()
}
