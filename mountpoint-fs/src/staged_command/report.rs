//! Texts and JSON documents of `mount-s3 staged`.

use std::io::{self, Write as _};

use indicatif::HumanBytes;
use serde::Serialize;

use crate::mount::safe_line;
use crate::staging::kept::{DirectoryState, KeptPlace, KeptVersion};

/// `list`: a kept version.
#[derive(Clone, Debug, Serialize)]
pub(super) struct VersionRow {
    id: String,
    key: String,
    bucket: String,
    endpoint: String,
    host: String,
    time: String,
    reason: String,
    size: u64,
    /// Bytes of the file that are here, zeros included.
    local: u64,
    /// Bytes of the disk that it occupies.
    bytes: u64,
    base_etag: Option<String>,
}

impl VersionRow {
    pub(super) fn new(version: KeptVersion) -> Self {
        let missing = version.description.bytes_in(&[KeptPlace::Base]);
        let KeptVersion {
            id,
            description,
            bytes,
        } = version;
        Self {
            id,
            local: description.size - missing.min(description.size),
            key: description.key,
            bucket: description.bucket,
            endpoint: description.endpoint,
            host: description.host,
            time: description.time,
            reason: description.reason,
            size: description.size,
            bytes,
            base_etag: description.base.map(|base| base.etag),
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let (local, size) = (HumanBytes(self.local), HumanBytes(self.size));
        let (bucket, key) = (&self.bucket, &self.key);
        vec![
            format!("{}  s3://{bucket}/{key}  {local} of {size} here", self.id),
            format!("    {}", self.reason),
        ]
    }
}

/// `status`: the directory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Status {
    /// The mount that uses the directory.
    mount: Option<crate::staging::directory::Holder>,
    /// Data files of open files.
    open_files: u64,
    open_bytes: u64,
    /// Kept versions.
    kept: u64,
    kept_bytes: u64,
}

impl Status {
    pub(super) fn new(state: DirectoryState, kept: u64, kept_bytes: u64) -> Self {
        Self {
            mount: state.holder,
            open_files: state.open_files,
            open_bytes: state.open_bytes,
            kept,
            kept_bytes,
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
                "{} versions that could not be stored, {}",
                self.kept,
                HumanBytes(self.kept_bytes)
            ),
        ]
    }
}

/// `discard` and `export`: the versions that it was done with.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Done {
    pub(super) ids: Vec<String>,
    /// Bytes that only the bucket has, and that were written as zeros.
    pub(super) missing: u64,
}

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
