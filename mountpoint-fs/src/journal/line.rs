//! The lines of a journal's file, one JSON value each.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use mountpoint_client::types::Upload;
use serde::{Deserialize, Serialize};

use super::origin::Origin;
use crate::config::limits::RENAME_REMEMBERED;

/// A line of the file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The first one of files that say nothing of their host: which bucket the file is about.
    Bucket(String),
    /// The first one.
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

/// What a file is about, and who writes it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Header {
    /// [`VERSION`] or, from a later program, more.
    pub(super) version: u32,
    pub(super) bucket: String,
    pub(super) origin: Origin,
    /// The device number of the file: which of this host's mounts of a shared file system it was written through.
    pub(super) device: u64,
}

/// The format of files that begin with a [`Header`]. Files of the format before it begin with [`Line::Bucket`].
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
    /// When the newest object that it was to move was made, as the server says, in milliseconds.
    pub(super) newest: u64,
    /// When it was begun, by this machine's clock, in milliseconds.
    pub(super) begun: u64,
}

impl Renaming {
    pub(super) fn is(&self, from: &str, to: &str) -> bool {
        self.from == from && self.to == to
    }

    /// Whether one of its directories is `prefix` or below it.
    pub(super) fn concerns(&self, prefix: &str) -> bool {
        self.from.starts_with(prefix) || self.to.starts_with(prefix)
    }

    /// Whether it is to be remembered: not from a time to come either, because then its age is unknown.
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
