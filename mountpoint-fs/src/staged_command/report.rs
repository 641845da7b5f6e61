//! Texts and JSON documents of `mount-s3 staged`.

use std::collections::BTreeMap;
use std::io;

use indicatif::HumanBytes;
use serde::Serialize;

use crate::file::control::PendingRow;
use crate::file::directory::JournalBucket;
use crate::file::kept::{DirectoryState, KeptPlace, KeptVersion};
use crate::file::pending::PendingEntry;
use crate::mount;

/// Where a version is that the bucket lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VersionState {
    /// The version could not be stored, and stays.
    Kept,
    /// The version waits for its upload.
    Pending,
    /// Bytes of the version are lost, or its record: it stays, and is not uploaded.
    Damaged,
}

/// `list`: a version.
#[derive(Clone, Debug, Serialize)]
pub(super) struct VersionRow {
    id: String,
    state: VersionState,
    key: String,
    bucket: String,
    endpoint: String,
    host: String,
    time: String,
    reason: String,
    size: u64,
    /// Bytes of the file that are here, zeros included; unknown for a file of a mount.
    local: Option<u64>,
    /// Bytes of the file that only the version has which it is based on.
    missing: Option<u64>,
    /// Bytes of the disk that it occupies; unknown for a file of a mount.
    bytes: Option<u64>,
    base_etag: Option<String>,
    /// The metadata that the object was to have; unknown for a file of a mount.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    /// Uploads of a pending file that failed.
    tries: u32,
}

impl VersionRow {
    /// A kept version.
    pub(super) fn kept(version: KeptVersion) -> Self {
        Self::new(version, VersionState::Kept)
    }

    /// A version of the journal.
    pub(super) fn pending(entry: PendingEntry) -> Self {
        match entry.damage {
            None => Self::new(entry.version, VersionState::Pending),
            Some(damage) => Self {
                reason: format!("{DAMAGED}: {damage}"),
                ..Self::new(entry.version, VersionState::Damaged)
            },
        }
    }

    /// A file of a mount of `bucket` that cannot be uploaded.
    pub(super) fn damaged_of_mount(row: PendingRow, bucket: &JournalBucket) -> Self {
        let damage = row.error.clone().unwrap_or_default();
        Self {
            state: VersionState::Damaged,
            reason: format!("{DAMAGED}: {damage}"),
            ..Self::of_mount(row, bucket)
        }
    }

    /// Whether its bytes, or its record, are lost.
    pub(super) fn is_damaged(&self) -> bool {
        self.state == VersionState::Damaged
    }

    fn new(version: KeptVersion, state: VersionState) -> Self {
        let missing = version.description.bytes_in(&[KeptPlace::Base]);
        let KeptVersion {
            id,
            description,
            bytes,
        } = version;
        Self {
            id,
            state,
            local: Some(description.size - missing.min(description.size)),
            missing: Some(missing),
            key: description.key,
            bucket: description.bucket,
            endpoint: description.endpoint,
            host: description.host,
            time: description.time,
            reason: description.reason,
            size: description.size,
            bytes: Some(bytes),
            base_etag: description.base.map(|base| base.etag),
            metadata: description.metadata.into_iter().collect(),
            tries: 0,
        }
    }

    /// A pending file of a mount of `bucket`.
    pub(super) fn of_mount(row: PendingRow, bucket: &JournalBucket) -> Self {
        let reason = match row.error {
            None => WAITS.to_owned(),
            Some(error) => format!("{WAITS}, which failed {} times: {error}", row.tries),
        };
        Self {
            id: row.id,
            state: VersionState::Pending,
            key: row.key,
            bucket: bucket.name.clone(),
            endpoint: bucket.endpoint.clone(),
            host: String::new(),
            time: row.time,
            reason,
            size: row.size,
            local: None,
            missing: None,
            bytes: None,
            base_etag: None,
            metadata: BTreeMap::new(),
            tries: row.tries,
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let size = HumanBytes(self.size);
        let (id, bucket, key) = (&self.id, &self.bucket, &self.key);
        let size = match self.local {
            Some(local) if !self.is_damaged() => format!("{} of {size} here", HumanBytes(local)),
            _ => size.to_string(),
        };
        let key = match key.is_empty() {
            true => "(unknown)",
            false => key,
        };
        let mut lines = vec![
            format!("{id}  s3://{bucket}/{key}  {size}"),
            format!("    {}", self.reason),
        ];
        if let Some(missing @ 1..) = self.missing {
            let etag = self.base_etag.as_deref().unwrap_or_default();
            lines.push(format!(
                "    {missing} bytes are missing here: `export` reads them from the version {etag} of the object, if the \
                 bucket still has that, or writes zeros with --local-only"
            ));
        }
        lines
    }
}

/// `status`: the directory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Status {
    /// The mount that uses the directory.
    mount: Option<crate::file::directory::Holder>,
    /// Data files of open and of pending files.
    open_files: u64,
    open_bytes: u64,
    /// Kept versions.
    kept: u64,
    kept_bytes: u64,
    /// Pending files.
    pending: u64,
    pending_bytes: u64,
    /// Committed files of which bytes are lost.
    damaged: u64,
}

impl Status {
    /// `kept` and `pending` are numbers and bytes, with the number of those that are damaged.
    pub(super) fn new(
        state: DirectoryState,
        kept: (u64, u64),
        (pending, damaged): ((u64, u64), u64),
    ) -> Self {
        Self {
            mount: state.holder,
            open_files: state.open_files,
            open_bytes: state.open_bytes,
            kept: kept.0,
            kept_bytes: kept.1,
            pending: pending.0,
            pending_bytes: pending.1,
            damaged,
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mount = match &self.mount {
            Some(holder) => format!("in use{holder}"),
            None => "in use by no mount".to_owned(),
        };
        let mut lines = vec![
            mount,
            format!(
                "{} files of open files, {}",
                self.open_files,
                HumanBytes(self.open_bytes)
            ),
            format!(
                "{} files wait for their upload, {}",
                self.pending,
                HumanBytes(self.pending_bytes)
            ),
            format!(
                "{} versions that could not be stored, {}",
                self.kept,
                HumanBytes(self.kept_bytes)
            ),
        ];
        if self.damaged > 0 {
            lines.push(damaged_line(self.damaged));
        }
        lines
    }
}

/// `flush`: what was uploaded, and what is left of it.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Flushed {
    pub(super) uploaded: u64,
    pub(super) left: u64,
    pub(super) left_bytes: u64,
    /// Versions that were kept meanwhile, as they could not be stored.
    pub(super) kept: u64,
    /// Committed files that cannot be uploaded, as bytes of them are lost.
    pub(super) damaged: u64,
}

impl Flushed {
    /// Whether the bucket has all that was committed.
    pub(super) fn is_all(&self) -> bool {
        self.left == 0 && self.kept == 0 && self.damaged == 0
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} files are uploaded", self.uploaded)];
        if self.left > 0 {
            let bytes = HumanBytes(self.left_bytes);
            lines.push(format!("{} files wait, {bytes}", self.left));
        }
        if self.kept > 0 {
            let kept = self.kept;
            lines.push(format!(
                "{kept} versions could not be stored and are kept: `mount-s3 staged list` has the reasons"
            ));
        }
        if self.damaged > 0 {
            lines.push(damaged_line(self.damaged));
        }
        lines
    }
}

fn damaged_line(count: u64) -> String {
    format!("{count} committed files cannot be uploaded: `mount-s3 staged list` has the reasons")
}

/// `discard` and `export`: the versions that it was done with.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Done {
    pub(super) ids: Vec<String>,
    /// Bytes that only the bucket has, and that were written as zeros.
    pub(super) missing: u64,
}

/// Whether nothing was wrong, if it could be printed.
pub(super) type Printed = io::Result<bool>;

/// Writes a line to standard error.
pub(super) fn tell(reason: &str) {
    mount::tell("staged", reason);
}

const DAMAGED: &str = "it is not uploaded";

const WAITS: &str = "it waits for its upload";
