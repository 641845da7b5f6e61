//! The description of a kept version: what it was to be, and where its bytes are.

use serde::{Deserialize, Serialize};

use crate::file::contents::{DataFileNo, Piece, Source};

/// A kept version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    /// The format of the description.
    pub(crate) format: u32,
    /// The bucket's name or ARN.
    pub(crate) bucket: String,
    /// The endpoint's URL; empty for AWS.
    pub(crate) endpoint: String,
    /// The key under which it was to be stored.
    pub(crate) key: String,
    /// The host that has written it.
    pub(crate) host: String,
    /// The time when it was kept, as RFC 3339 has it.
    pub(crate) time: String,
    /// Why it was not stored.
    pub(crate) reason: String,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// The version that it is based on.
    pub(crate) base: Option<BaseVersion>,
    /// The metadata that the object was to have: names and values.
    #[serde(default)]
    pub(crate) metadata: Vec<(String, String)>,
    /// All bytes, in order.
    pub(crate) ranges: Vec<KeptRange>,
}

/// The version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BaseVersion {
    /// Its tag.
    pub(crate) etag: String,
    /// Its size in bytes.
    pub(crate) size: u64,
}

/// A range of bytes in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptRange {
    /// Its first byte.
    pub(crate) start: u64,
    /// The byte behind its last one.
    pub(crate) end: u64,
    /// Where the bytes are.
    pub(crate) place: KeptPlace,
}

/// The place of kept bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KeptPlace {
    /// The first data file.
    First,
    /// The second data file.
    Second,
    /// Nowhere: the bytes are zeros.
    Zeros,
    /// The base, from which they were never read.
    Base,
}

impl KeptRange {
    /// The range of a piece.
    pub(in crate::file) fn of(piece: &Piece) -> Self {
        Self {
            start: piece.range.start,
            end: piece.range.end,
            place: match piece.source {
                Source::Local(DataFileNo::First) => KeptPlace::First,
                Source::Local(DataFileNo::Second) => KeptPlace::Second,
                Source::Zeros => KeptPlace::Zeros,
                Source::Base | Source::Sent | Source::Copied(_) => KeptPlace::Base,
            },
        }
    }
}

/// The format of a description, whatever else it has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Description {
    /// The description that `text` is.
    ///
    /// # Errors
    /// A text for the user if it is damaged or of a later version of this program.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let damaged = |error: serde_json::Error| format!("its description is damaged: {error}");
        let Format { format } = serde_json::from_str(text).map_err(damaged)?;
        if format != FORMAT {
            return Err(format!(
                "its description has the format {format}, and this version of mount-s3 knows {FORMAT} alone"
            ));
        }
        let description: Self = serde_json::from_str(text).map_err(damaged)?;
        let mut at = 0;
        let are_in_order = description.ranges.iter().all(|range| {
            let is_right = at <= range.start && range.start <= range.end;
            at = range.end;
            is_right
        });
        match are_in_order && at <= description.size {
            true => Ok(description),
            false => Err("its description is damaged: its ranges are wrong".to_owned()),
        }
    }

    /// Bytes of the file that are in one of `places`.
    pub(crate) fn bytes_in(&self, places: &[KeptPlace]) -> u64 {
        let ranges = self.ranges.iter();
        let found = ranges.filter(|range| places.contains(&range.place));
        found.map(|range| range.end - range.start).sum()
    }
}

/// The format of descriptions. Another one is not read.
pub(crate) const FORMAT: u32 = 1;
