//! Texts and JSON documents of `mount-s3 staged`.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use indicatif::HumanBytes;
use serde::Serialize;

use crate::mount::safe_line;
use crate::staging::control::PendingRow;
use crate::staging::directory::JournalBucket;
use crate::staging::kept::{DirectoryState, KeptPlace, KeptVersion};

/// Where a version is that the bucket lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VersionState {
    /// The version could not be stored, and stays.
    Kept,
    /// The version waits for its upload.
    Pending,
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
    pub(super) fn new(version: KeptVersion, state: VersionState) -> Self {
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
            Some(local) => format!("{} of {size} here", HumanBytes(local)),
            None => size.to_string(),
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
    mount: Option<crate::staging::directory::Holder>,
    /// Data files of open and of pending files.
    open_files: u64,
    open_bytes: u64,
    /// Kept versions.
    kept: u64,
    kept_bytes: u64,
    /// Pending files.
    pending: u64,
    pending_bytes: u64,
}

impl Status {
    pub(super) fn new(state: DirectoryState, kept: (u64, u64), pending: (u64, u64)) -> Self {
        Self {
            mount: state.holder,
            open_files: state.open_files,
            open_bytes: state.open_bytes,
            kept: kept.0,
            kept_bytes: kept.1,
            pending: pending.0,
            pending_bytes: pending.1,
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mount = match &self.mount {
            Some(holder) => format!("in use{holder}"),
            None => "in use by no mount".to_owned(),
        };
        vec![
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
        ]
    }
}

/// `flush`: what was uploaded, and what is left of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Flushed {
    pub(super) uploaded: u64,
    pub(super) left: u64,
    pub(super) left_bytes: u64,
}

impl Flushed {
    pub(super) fn lines(&self) -> Vec<String> {
        let uploaded = format!("{} files are uploaded", self.uploaded);
        match self.left {
            0 => vec![uploaded],
            left => vec![
                uploaded,
                format!("{left} files wait, {}", HumanBytes(self.left_bytes)),
            ],
        }
    }
}

/// `discard` and `export`: the versions that it was done with.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Done {
    pub(super) ids: Vec<String>,
    /// Bytes that only the bucket has, and that were written as zeros.
    pub(super) missing: u64,
}

/// Tells what is wrong.
pub(super) fn tell(reason: &str) {
    let text = format!("mount-s3 staged: {reason}");
    writeln!(io::stderr(), "{}", safe_line(&text)).ok();
}

/// Whether nothing was wrong, if it could be printed.
pub(super) type Printed = io::Result<bool>;

/// Prints a document as JSON, or its lines.
pub(super) fn print(document: &impl Serialize, lines: &[String], is_json: bool) -> io::Result<()> {
    let mut text = String::new();
    if is_json {
        text = serde_json::to_string(document).map_err(io::Error::other)?;
        text.push('\n');
    } else {
        for line in lines {
            text.push_str(&safe_line(line));
            text.push('\n');
        }
    }
    io::stdout().write_all(text.as_bytes())
}

const WAITS: &str = "it waits for its upload";
