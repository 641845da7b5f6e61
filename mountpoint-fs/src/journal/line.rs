//! The lines of a journal's file, one JSON value each.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mountpoint_client::types::Upload;
use serde::{Deserialize, Serialize};

use super::origin::Origin;

/// A line of the file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The bucket of the file: the first line where no host is named.
    Bucket(String),
    /// The first line.
    Journal(Header),
    Begun {
        key: String,
        id: String,
    },
    Ended {
        id: String,
    },
    Renaming(Renaming),
    Renamed {
        from: String,
        to: String,
    },
}

/// The bucket that a file is about, and the host that writes the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Header {
    /// [`VERSION`], or a larger number from a later program.
    pub(super) version: u32,
    pub(super) bucket: String,
    pub(super) origin: Origin,
    /// The device number of the file. One host has several for one shared file system that it has
    /// mounted several times.
    pub(super) device: u64,
}

/// The format of files that begin with a [`Header`]. Files of the earlier format begin with
/// [`Line::Bucket`].
pub(super) const VERSION: u32 = 2;

impl Line {
    pub(super) fn begun(upload: &Upload) -> Self {
        Self::Begun {
            key: upload.key.as_str().to_owned(),
            id: upload.upload_id.clone(),
        }
    }

    pub(super) fn append_to(&self, lines: &mut Vec<u8>) -> io::Result<()> {
        serde_json::to_writer(&mut *lines, self).map_err(io::Error::other)?;
        lines.push(b'\n');
        Ok(())
    }
}

/// A rename of a directory that was begun.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Renaming {
    /// The prefixes.
    pub(super) from: String,
    pub(super) to: String,
    /// Modification time of the newest object to move, as the server reports it, in milliseconds.
    pub(super) newest: u64,
    /// Start of the rename by this machine's clock, in milliseconds.
    pub(super) begun: u64,
    /// The token of its copies.
    #[serde(default)]
    pub(super) token: String,
}

impl Renaming {
    pub(super) fn is(&self, from: &str, to: &str) -> bool {
        self.from == from && self.to == to
    }

    /// Whether one of the two directories is `prefix` or is below it.
    pub(super) fn concerns(&self, prefix: &str) -> bool {
        self.from.starts_with(prefix) || self.to.starts_with(prefix)
    }

    /// Whether the rename is young enough to be remembered. A start in the future has an unknown
    /// age and is not.
    pub(super) fn is_fresh(&self, now: SystemTime) -> bool {
        let age = millis(now).checked_sub(self.begun);
        age.is_some_and(|age| u128::from(age) <= RENAME_REMEMBERED.as_millis())
    }

    pub(super) fn ended(self) -> Line {
        let Self { from, to, .. } = self;
        Line::Renamed { from, to }
    }
}

pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long an interrupted rename may be resumed. Later the keys may belong to other objects.
pub(crate) const RENAME_REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
