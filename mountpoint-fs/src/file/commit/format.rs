//! The bytes of a record: what a committed file is, and the bytes of a small one.
//!
//! ```text
//! 0   4   format
//! 4   4   kind: 1 a version, 2 a version whose description is in a file beside, 3 a removed file
//! 8   4   length of the description
//! 12  …   description, JSON
//! …   …   the local bytes, one range behind the other, if the description says so
//! ```
//!
//! A reader that does not know the format of a record refuses it: it may mean anything.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use crc_fast::{CrcAlgorithm, Digest};
use mountpoint_client::types::{ETag, Key};
use serde::{Deserialize, Serialize};

use super::headers::HeadersRecord;
use super::sum_run::SumRun;
use crate::file::contents::{Contents, DataFileNo, LocalRange, Snapshot};
use crate::file::local::NotedSums;
use crate::operation::TimeChange;
use crate::write::Stored;

/// The format that is written, and the newest one that is read. Version 0.2.0 wrote format 1: it
/// takes a record without the versions that it had sent for a damaged one, and would drop its file.
pub(super) const FORMAT: u32 = 2;
const OLDEST_FORMAT: u32 = 1;

/// Bytes that tell the format.
pub(super) const FORMAT_LEN: usize = 4;

/// Bytes before the description.
const HEAD_LEN: usize = 12;

/// A committed version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::file) struct VersionRecord {
    /// The key under which it is to be stored.
    pub(in crate::file) key: String,
    /// The version that it is based on: tag and size.
    pub(in crate::file) base: Option<(String, u64)>,
    /// Whether S3 was not asked for an object of the key.
    pub(in crate::file) is_unasked: bool,
    /// Bytes of the file.
    pub(in crate::file) size: u64,
    /// The base shows through below this offset where no range is local.
    pub(in crate::file) base_len: u64,
    /// Time of the last change: seconds and nanoseconds since 1970.
    pub(in crate::file) mtime: (u64, u32),
    pub(in crate::file) headers: HeadersRecord,
    /// Local ranges, in order.
    pub(in crate::file) ranges: Vec<RangeRecord>,
    /// Whether the bytes of the ranges are in the record, and not in the data files.
    pub(in crate::file) is_inline: bool,
    /// The number of the file whose name it has got by a rename, and that the journal may have as
    /// well. Without it, two records of a key are two versions that were acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::file) over: Option<u64>,
    /// The token of the file's stores, which are numbered: their objects carry it. Older records
    /// have none.
    #[serde(default)]
    pub(in crate::file) series: String,
    /// The number of this version.
    #[serde(default)]
    pub(in crate::file) number: u64,
    /// The number of the last version that the bucket had for certain.
    #[serde(default)]
    pub(in crate::file) known: u64,
    /// The checksums of the data files' blocks. Older records have none, nor have those of a file
    /// that is written over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::file) sums: Vec<SumRun>,
}

/// A local range: start, end, place (0 zeros, 1 and 2 the data files), whether the base has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::file) struct RangeRecord(u64, u64, u8, bool);

/// A description in a file beside the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DescriptionFile {
    /// Number of the file.
    pub(super) number: u64,
    /// Bytes of it.
    pub(super) len: u64,
    /// CRC64NVME of them.
    pub(super) sum: u64,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// A version, and the bytes that the record has.
    Version(Box<VersionRecord>, Vec<u8>),
    /// The description is in a file.
    Beside(DescriptionFile),
    /// The file was removed.
    Removed,
}

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PayloadError {
    /// A newer program wrote it.
    #[error("it has format {0}, and this program reads up to {FORMAT}")]
    Newer(u32),
    /// The payload is no record.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl RangeRecord {
    fn of(local: &LocalRange) -> Self {
        let place = match local.place {
            None => 0,
            Some(DataFileNo::First) => 1,
            Some(DataFileNo::Second) => 2,
        };
        Self(local.range.start, local.range.end, place, local.is_in_base)
    }

    /// The range; `None` if there is no such place.
    fn local(self) -> Option<LocalRange> {
        let place = match self.2 {
            0 => None,
            1 => Some(DataFileNo::First),
            2 => Some(DataFileNo::Second),
            _ => return None,
        };
        Some(LocalRange {
            range: self.0..self.1,
            place,
            is_in_base: self.3,
        })
    }
}

impl VersionRecord {
    /// What is known of a version whose record cannot be read.
    pub(in crate::file) fn unknown() -> Self {
        Self {
            key: String::new(),
            base: None,
            is_unasked: false,
            size: 0,
            base_len: 0,
            mtime: (0, 0),
            headers: HeadersRecord::default(),
            ranges: Vec::new(),
            is_inline: false,
            over: None,
            series: String::new(),
            number: 0,
            known: 0,
            sums: Vec::new(),
        }
    }

    /// Notes the sums of the blocks of both data files.
    pub(in crate::file) fn set_sums(&mut self, noted: &[NotedSums; 2]) {
        let places = [1, 2].into_iter().zip(noted);
        self.sums = places
            .flat_map(|(place, noted)| SumRun::of(place, noted))
            .collect();
    }

    /// The sums of the blocks of both data files.
    pub(in crate::file) fn noted_sums(&self) -> [NotedSums; 2] {
        [1, 2].map(|place| {
            let runs = self.sums.iter().filter(|run| run.place == place);
            runs.flat_map(SumRun::noted).collect()
        })
    }

    /// Notes what is where in `contents`.
    pub(in crate::file) fn describe(&mut self, contents: &Snapshot) {
        self.size = contents.size();
        self.base_len = contents.base_len();
        self.ranges = contents
            .local()
            .map(|local| RangeRecord::of(&local))
            .collect();
    }

    /// The local ranges, each valid.
    pub(in crate::file) fn local(&self) -> Vec<LocalRange> {
        self.ranges
            .iter()
            .filter_map(|range| range.local())
            .collect()
    }

    /// Has all bytes of data files in the first one.
    pub(in crate::file) fn place_in_first(&mut self) {
        for range in self.ranges.iter_mut().filter(|range| range.2 != 0) {
            range.2 = 1;
        }
    }

    /// The contents, which the bucket lacks.
    pub(in crate::file) fn contents(&self) -> Contents {
        Contents::restored(self.size, self.base_len, self.local())
    }

    /// The version that it is based on.
    pub(in crate::file) fn base(&self) -> Option<Stored> {
        let (etag, size) = self.base.as_ref()?;
        Some(Stored {
            etag: ETag::from_header(etag),
            size: *size,
        })
    }

    /// Time of the last change.
    pub(in crate::file) fn mtime(&self) -> SystemTime {
        let (seconds, nanos) = self.mtime;
        let seconds = seconds.cast_signed();
        let time = TimeChange::At { seconds, nanos }.time(SystemTime::UNIX_EPOCH);
        let max = SystemTime::UNIX_EPOCH + TIME_MAX;
        time.unwrap_or(max).min(max)
    }

    /// Sets the time of the last change.
    pub(in crate::file) fn set_mtime(&mut self, time: SystemTime) {
        self.mtime = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => (since.as_secs(), since.subsec_nanos()),
            // Seconds of two's complement, nanoseconds that count forward.
            Err(before) => {
                let before = before.duration();
                let seconds = before.as_secs() + u64::from(before.subsec_nanos() > 0);
                let nanos = Duration::from_secs(seconds) - before;
                (0_u64.wrapping_sub(seconds), nanos.subsec_nanos())
            }
        };
    }

    /// Bytes that the data files have, and that the record has if it `is_inline`.
    pub(in crate::file) fn local_bytes(&self) -> u64 {
        let in_files = self.ranges.iter().filter(|range| range.2 != 0);
        in_files.map(|range| range.1.saturating_sub(range.0)).sum()
    }

    /// Whether it is what a committed file can be.
    fn is_valid(&self) -> bool {
        // Offsets of files have 63 bits.
        if self.size > i64::MAX.unsigned_abs() {
            return false;
        }
        let mut at = 0;
        let ranges = self.ranges.iter().all(|range| {
            let is_right = range.0 >= at && range.0 < range.1 && range.2 <= 2;
            at = range.1;
            is_right
        });
        let base_size = self.base.as_ref().map_or(0, |base| base.1);
        ranges && at <= self.size && self.base_len <= base_size && Key::parse(&self.key).is_some()
    }
}

impl Payload {
    /// The first bytes of the record: format, kind and description.
    pub(super) fn head(&self) -> serde_json::Result<Vec<u8>> {
        let (kind, text) = match self {
            Self::Version(version, _) => (VERSION, serde_json::to_vec(version)?),
            Self::Beside(beside) => (BESIDE, serde_json::to_vec(beside)?),
            Self::Removed => (REMOVED, Vec::new()),
        };
        Ok(head(kind, &text))
    }

    /// The description in a head.
    pub(super) fn text(head: &[u8]) -> &[u8] {
        head.get(HEAD_LEN..).unwrap_or_default()
    }

    /// The record in `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        check_format(bytes)?;
        let kind = number(bytes, 4)?;
        let len = number(bytes, 8)? as usize;
        let rest = bytes.get(HEAD_LEN..).ok_or_else(short)?;
        let (text, local) = rest.split_at_checked(len).ok_or_else(short)?;
        let damaged = |error: serde_json::Error| PayloadError::Damaged(error.to_string());
        match kind {
            VERSION => Self::version(text, local),
            BESIDE => Ok(Self::Beside(serde_json::from_slice(text).map_err(damaged)?)),
            REMOVED => Ok(Self::Removed),
            other => Err(PayloadError::Damaged(format!("it is of kind {other}"))),
        }
    }

    /// The version that `text` describes, with its bytes.
    pub(super) fn version(text: &[u8], local: &[u8]) -> Result<Self, PayloadError> {
        let version: VersionRecord = serde_json::from_slice(text)
            .map_err(|error| PayloadError::Damaged(error.to_string()))?;
        let is_right = version.is_valid()
            && local.len() as u64
                == match version.is_inline {
                    true => version.local_bytes(),
                    false => 0,
                };
        if !is_right {
            let text = "its ranges or its bytes are wrong".to_owned();
            return Err(PayloadError::Damaged(text));
        }
        Ok(Self::Version(Box::new(version), local.to_vec()))
    }
}

/// Whether the record that begins with `bytes` may be read: another format may mean anything.
pub(super) fn check_format(bytes: &[u8]) -> Result<(), PayloadError> {
    let format = number(bytes, 0)?;
    match (OLDEST_FORMAT..=FORMAT).contains(&format) {
        true => Ok(()),
        false => Err(PayloadError::Newer(format)),
    }
}

fn number(bytes: &[u8], at: usize) -> Result<u32, PayloadError> {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map(|it| u32::from_le_bytes(*it)).ok_or_else(short)
}

fn short() -> PayloadError {
    PayloadError::Damaged("it is too short".to_owned())
}

fn head(kind: u32, text: &[u8]) -> Vec<u8> {
    let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEAD_LEN + text.len());
    for number in [FORMAT, kind, len] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(text);
    bytes
}

/// The ranges of `local` that data files have.
pub(in crate::file) fn in_files(
    local: impl IntoIterator<Item = LocalRange>,
) -> Vec<(DataFileNo, Range<u64>)> {
    let in_files = local
        .into_iter()
        .filter_map(|local| Some((local.place?, local.range)));
    in_files.collect()
}

/// CRC64NVME of `bytes`.
pub(in crate::file) fn sum(bytes: &[u8]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(bytes);
    digest.finalize()
}

const VERSION: u32 = 1;
const BESIDE: u32 = 2;
const REMOVED: u32 = 3;

/// More than any file system's times: the year 9999.
const TIME_MAX: Duration = Duration::from_secs(253_402_300_799);

#[cfg(test)]
mod tests {
    use mountpoint_client::types::ObjectHeaders;

    use super::*;

    fn version() -> VersionRecord {
        VersionRecord {
            key: "a/b".to_owned(),
            base: Some(("\"tag\"".to_owned(), 50)),
            is_unasked: false,
            size: 100,
            base_len: 50,
            mtime: (1_700_000_000, 7),
            headers: HeadersRecord::default(),
            ranges: vec![RangeRecord(10, 13, 1, false), RangeRecord(20, 90, 0, true)],
            is_inline: true,
            over: Some(9),
            series: "series".to_owned(),
            number: 7,
            known: 3,
            sums: Vec::new(),
        }
    }

    fn encode(version: &VersionRecord, bytes: &[u8]) -> Vec<u8> {
        let payload = Payload::Version(Box::new(version.clone()), Vec::new());
        [&payload.head().unwrap(), bytes].concat()
    }

    #[test]
    fn a_record_comes_back() {
        let bytes = encode(&version(), b"abc");
        let decoded = Payload::decode(&bytes).unwrap();
        assert_eq!(
            decoded,
            Payload::Version(Box::new(version()), b"abc".to_vec())
        );
        let removed = Payload::Removed.head().unwrap();
        assert_eq!(Payload::decode(&removed), Ok(Payload::Removed));
        let contents = version().contents();
        assert_eq!(contents.size(), 100);
        assert!(contents.is_changed());
        assert_eq!(contents.now().local().count(), 2);
    }

    #[test]
    fn a_newer_format_is_refused_and_no_cut_record_is_taken() {
        let mut bytes = encode(&version(), b"abc");
        for len in 0..bytes.len() {
            let cut = Payload::decode(&bytes[..len]);
            assert!(
                matches!(cut, Err(PayloadError::Damaged(_))),
                "{len}: {cut:?}"
            );
        }
        assert_eq!(bytes[0], 2, "0.2.0 refuses it");
        for other in [0, 3] {
            bytes[0] = other;
            let newer = PayloadError::Newer(u32::from(other));
            assert_eq!(Payload::decode(&bytes), Err(newer));
        }
    }

    /// The bytes of a record that 0.2.0 has written, which tells of versions that it had sent.
    #[test]
    fn a_record_of_an_older_format_is_read() {
        let before = concat!(
            "\x01\0\0\0\x01\0\0\0\x0d\x01\0\0",
            r#"{"key":"a/b","base":["\"tag\"",50],"is_unasked":false,"size":100,"base_len":50,"#,
            r#""mtime":[1700000000,7],"headers":{"content_type":"text/plain"},"#,
            r#""ranges":[[10,13,1,false],[20,90,0,true]],"is_inline":true,"#,
            r#""sent":[{"size":100,"ranges":[[10,13]],"sum":12297829382473034410}]}"#,
            "abc",
        );
        let headers = ObjectHeaders {
            content_type: Some("text/plain".to_owned()),
            ..ObjectHeaders::default()
        };
        let expected = VersionRecord {
            headers: headers.into(),
            over: None,
            series: String::new(),
            number: 0,
            known: 0,
            ..version()
        };
        let expected = Payload::Version(Box::new(expected), b"abc".to_vec());
        assert_eq!(Payload::decode(before.as_bytes()), Ok(expected));
    }

    #[test]
    fn a_version_that_cannot_be_is_damaged() {
        let wrong: [fn(&mut VersionRecord); 5] = [
            |version| version.base_len = 51,
            |version| version.size = 89,
            |version| version.key = String::new(),
            |version| version.ranges[0].2 = 3,
            |version| version.ranges.reverse(),
        ];
        for (number, wrong) in wrong.iter().enumerate() {
            let mut version = version();
            wrong(&mut version);
            let decoded = Payload::decode(&encode(&version, b"abc"));
            assert!(
                matches!(decoded, Err(PayloadError::Damaged(_))),
                "{number}: {decoded:?}"
            );
        }
    }
}
