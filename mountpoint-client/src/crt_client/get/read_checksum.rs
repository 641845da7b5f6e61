//! The checksum of bytes that were read, where S3 tells one that is of exactly these bytes.
//!
//! Sends nothing. S3 sends the checksum that it keeps of an object with an answer that has all of
//! it. That of an object in parts may be made of the checksums of its parts (COMPOSITE): it cannot
//! be compared, and an answer to a range does not mark it by the number of parts behind it. So a
//! checksum counts where the answer says that it is of the whole (FULL_OBJECT), or where it says
//! nothing and the ETag is that of an object in one piece.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crc_fast::CrcAlgorithm;
use mountpoint_crt_sys::ResponseHead;
use parking_lot::Mutex;

use crate::crt_client::control::exchange::header;
use crate::types::{ETag, Key};
use crate::{ClientError, ErrorKind};

/// What the bytes must have. SHA-1 and SHA-256 are not looked at: they cost ten times as much as
/// the transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::crt_client) struct Expected {
    name: &'static str,
    algorithm: Crc,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crc {
    Crc64Nvme,
    Crc32c,
    Crc32,
}

impl Crc {
    /// The checksum as S3 writes it: base64 of its big-endian bytes.
    fn of(self, bytes: &[u8]) -> String {
        let (algorithm, len) = match self {
            Self::Crc64Nvme => (CrcAlgorithm::Crc64Nvme, 8),
            Self::Crc32c => (CrcAlgorithm::Crc32Iscsi, 4),
            Self::Crc32 => (CrcAlgorithm::Crc32IsoHdlc, 4),
        };
        let sum = crc_fast::checksum(algorithm, bytes).to_be_bytes();
        BASE64_STANDARD.encode(&sum[sum.len() - len..])
    }
}

/// Whether the checksum of `len` bytes is worth waiting for before any of them is shown.
pub(in crate::crt_client) fn is_checked(len: u64) -> bool {
    len <= CHECKED_MAX
}

/// Whether the server knows the header that asks for checksums.
///
/// Some servers refuse every request with a header that they do not know. One refusal proves
/// nothing: the header is left out as soon as a request that was refused with it has succeeded
/// without.
#[derive(Debug, Default)]
pub(in crate::crt_client) struct ChecksumMode {
    is_unknown: AtomicBool,
}

impl ChecksumMode {
    /// The outcome of `send` with the header, or without it where the server does not know it.
    pub(in crate::crt_client) async fn ask<T, A>(
        &self,
        send: impl Fn(Option<(String, String)>) -> A,
    ) -> Result<T, ClientError>
    where
        A: Future<Output = Result<T, ClientError>>,
    {
        let mut asking = Asking::default();
        let mut outcome = send(asking.header(self)).await;
        if let Err(error) = &outcome
            && asking.may_be_refused(error)
        {
            outcome = send(None).await;
        }
        if outcome.is_ok() {
            asking.succeeded(self);
        }
        outcome
    }
}

/// Whether one request asks for the checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::crt_client) enum Asking {
    #[default]
    No,
    Yes,
    /// Not any more: an attempt that asked for it was refused.
    Refused,
}

impl Asking {
    /// The header of the next attempt that asks for the checksum, if it is to ask.
    pub(in crate::crt_client) fn header(
        &mut self,
        mode: &ChecksumMode,
    ) -> Option<(String, String)> {
        if *self == Self::Refused || mode.is_unknown.load(Ordering::Relaxed) {
            return None;
        }
        *self = Self::Yes;
        Some(("x-amz-checksum-mode".to_owned(), "ENABLED".to_owned()))
    }

    /// Whether the attempt that ended with `error` is to be repeated without the header.
    pub(in crate::crt_client) fn may_be_refused(&mut self, error: &ClientError) -> bool {
        let may_be = *self == Self::Yes && error.kind == ErrorKind::Unsupported;
        if may_be {
            *self = Self::Refused;
        }
        may_be
    }

    /// The request succeeded.
    pub(in crate::crt_client) fn succeeded(self, mode: &ChecksumMode) {
        if self == Self::Refused && !mode.is_unknown.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "the server refuses requests for checksums (x-amz-checksum-mode): what is read is compared with none"
            );
        }
    }
}

/// What the answer, which has all bytes of its object, says of them.
pub(in crate::crt_client) fn expected(head: &ResponseHead) -> Option<Expected> {
    let is_of_whole = match header(head, "x-amz-checksum-type") {
        Some(kind) => kind.eq_ignore_ascii_case("FULL_OBJECT"),
        None => header(head, "etag").is_some_and(is_md5),
    };
    if !is_of_whole {
        return None;
    }
    KNOWN.into_iter().find_map(|(name, algorithm)| {
        let value = header(head, name)?.to_owned();
        // One that is made of those of the parts has their number behind it.
        let is_plain = !value.contains('-');
        is_plain.then_some(Expected {
            name,
            algorithm,
            value,
        })
    })
}

impl Expected {
    /// Why `bytes` are not those that were stored.
    pub(in crate::crt_client) fn check(&self, bytes: &[u8]) -> Result<(), String> {
        let found = self.algorithm.of(bytes);
        if found == self.value {
            return Ok(());
        }
        let Self { name, value, .. } = self;
        Err(format!(
            "the bytes that came are not those that S3 stored: {name} is {value:?}, theirs {found:?}"
        ))
    }
}

/// Versions whose bytes came otherwise than they were stored. A piece of one has no checksum of its
/// own, so that the kernel, which asks for pieces of what it could not have as a whole, would get
/// such bytes; until the whole came right.
#[derive(Debug, Default)]
pub(in crate::crt_client) struct CorruptVersions {
    /// How many there are, to be looked at by each GET.
    count: AtomicUsize,
    /// Held for a few instructions; no other lock is taken under it.
    versions: Mutex<VecDeque<(Key, ETag)>>,
}

impl CorruptVersions {
    /// No piece of this version is to be shown.
    pub(in crate::crt_client) fn add(&self, key: &Key, version: &ETag) {
        let mut versions = self.versions.lock();
        versions.retain(|(known, _)| known != key);
        if versions.len() == CORRUPT_MAX {
            versions.pop_front();
        }
        versions.push_back((key.clone(), version.clone()));
        self.count.store(versions.len(), Ordering::Relaxed);
    }

    /// All of the object came right.
    pub(in crate::crt_client) fn remove(&self, key: &Key) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut versions = self.versions.lock();
            versions.retain(|(known, _)| known != key);
            self.count.store(versions.len(), Ordering::Relaxed);
        }
    }

    pub(in crate::crt_client) fn holds(&self, key: &Key, version: &ETag) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && self
                .versions
                .lock()
                .iter()
                .any(|(known, corrupt)| known == key && corrupt.matches(version))
    }
}

fn is_md5(etag: &str) -> bool {
    let digits = etag.trim_matches('"');
    digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

const KNOWN: [(&str, Crc); 3] = [
    ("x-amz-checksum-crc64nvme", Crc::Crc64Nvme),
    ("x-amz-checksum-crc32c", Crc::Crc32c),
    ("x-amz-checksum-crc32", Crc::Crc32),
];

/// Corrupt versions that are remembered, the oldest are forgotten.
const CORRUPT_MAX: usize = 1024;

/// Longest answer whose bytes are shown only when all have come: 11 ms at 90 MB/s. What is read
/// whole is no longer.
const CHECKED_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "\"0123456789abcdef0123456789abcdef\"";

    fn head(headers: &[(&str, &str)]) -> ResponseHead {
        let headers = headers.iter();
        ResponseHead {
            status: 206,
            headers: headers
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn checksums_of_the_catalogue() {
        for (name, value) in [
            ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
            ("x-amz-checksum-crc32c", "4waSgw=="),
            ("x-amz-checksum-crc32", "y/Q5Jg=="),
        ] {
            let expected = expected(&head(&[("ETag", MD5), (name, value)])).unwrap();
            assert_eq!(expected.check(b"123456789"), Ok(()), "{name}");
            let why = expected.check(b"123456780").unwrap_err();
            assert!(why.contains(name) && why.contains(value), "{why}");
        }
    }

    #[test]
    fn only_that_of_the_whole_counts() {
        let sum = ("x-amz-checksum-crc32c", "4waSgw==");
        let full = ("x-amz-checksum-type", "FULL_OBJECT");
        let composite = ("x-amz-checksum-type", "COMPOSITE");
        for (headers, counts) in [
            (&[("ETag", MD5), sum][..], true),
            (&[("ETag", MD5)], false),
            (&[("ETag", MD5), sum, full], true),
            (&[("ETag", MD5), sum, composite], false),
            (
                &[("ETag", "\"0123456789abcdef0123456789abcdef-2\""), sum],
                false,
            ),
            (
                &[
                    ("ETag", "\"0123456789abcdef0123456789abcdef-2\""),
                    sum,
                    full,
                ],
                true,
            ),
            (&[("ETag", "\"of-another-kind\""), sum], false),
            (&[("ETag", "\"of-another-kind\""), sum, full], true),
            (
                &[("ETag", MD5), ("x-amz-checksum-crc32c", "4waSgw==-2"), full],
                false,
            ),
            (
                &[("ETag", MD5), ("x-amz-checksum-sha256", "AAAA"), full],
                false,
            ),
        ] {
            assert_eq!(expected(&head(headers)).is_some(), counts, "{headers:?}");
        }
    }
}
