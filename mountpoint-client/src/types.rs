//! The values that go in and out of an [`ObjectClient`](crate::ObjectClient).
//!
//! Plain data: parsed once at the edge, so that what holds one of these types need not check it
//! again.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use md5::{Digest as _, Md5};

/// A whole object key: UTF-8, 1 to 1024 bytes, cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Longest key that S3 stores, in bytes of UTF-8 (S3 user guide, "Naming Amazon S3 objects").
    pub const LEN_MAX: usize = 1024;

    /// Ends the key of an object that a server lists without an ETag: it cannot be read, because
    /// nothing tells its versions apart, and no file has a name with a NUL.
    pub const NO_ETAG: &str = "\0no ETag";

    /// The key `text`, or `None` if S3 could not store it (empty, or longer than [`Key::LEN_MAX`]).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (!text.is_empty() && text.len() <= Self::LEN_MAX).then(|| Self(Arc::from(text)))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The defect of an object that a listing names by this key, which the server does not know.
    ///
    /// The object has no ETag ([`Key::NO_ETAG`]), or its key is not UTF-8, where a NUL and two
    /// hexadecimal digits stand for a byte.
    #[must_use]
    pub fn why_made_up(&self) -> Option<&'static str> {
        let is_byte = |text: &str| match text.as_bytes() {
            [high, low, ..] => {
                matches!(high, b'8' | b'9' | b'a'..=b'f')
                    && matches!(low, b'0'..=b'9' | b'a'..=b'f')
            }
            _ => false,
        };
        if self.0.ends_with(Self::NO_ETAG) {
            Some("no ETag at the server")
        } else if self.0.split('\0').skip(1).any(is_byte) {
            Some("a name that is not UTF-8")
        } else {
            None
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// S3's tag of one version of an object, byte for byte as the server sent it, quotes included.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ETag(Arc<str>);

impl ETag {
    /// Takes the header's value as it is.
    #[must_use]
    pub fn from_header(value: &str) -> Self {
        Self(Arc::from(value))
    }

    /// The value for an `If-Match` header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// This ETag in quotes, which some servers leave out of listings and want in a condition.
    #[must_use]
    pub fn quoted(&self) -> Self {
        if self.0.ends_with('"') {
            self.clone()
        } else {
            Self::from_header(&format!("\"{}\"", self.0))
        }
    }

    /// Whether both name the same version: quotes are ignored, because some servers leave them out
    /// of XML listings and put them into headers.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.trim_matches('"') == other.0.trim_matches('"')
    }

    /// Of how many parts the object was made, where the ETag says it as Amazon S3's do: `…-N`.
    #[must_use]
    pub fn parts(&self) -> Option<usize> {
        let (digest, count) = self.0.trim_matches('"').split_once('-')?;
        let is_digest = digest.len() == 32 && digest.bytes().all(|b| b.is_ascii_hexdigit());
        count.parse().ok().filter(|_| is_digest)
    }

    /// The tag of the object that an upload makes of parts with these tags, where it is as Amazon
    /// S3 makes it: the MD5 of their digests, and how many there are. `None` if one of them is no
    /// digest. An object that has it has the bytes of these parts.
    #[must_use]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        Self::both_of_parts(parts).map(|(tag, _)| tag)
    }

    /// Whether it is the tag of an object that an upload makes of parts with these tags. An object
    /// that has it has the bytes of these parts. Garage's is the MD5 of their digests as they are
    /// written, not of their bytes.
    #[must_use]
    pub fn is_of_parts<'a>(&self, parts: impl IntoIterator<Item = &'a Self>) -> bool {
        Self::both_of_parts(parts)
            .is_some_and(|(tag, of_text)| self.matches(&tag) || self.matches(&of_text))
    }

    /// Made of the digests' bytes, and of their text.
    fn both_of_parts<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Option<(Self, Self)> {
        let (mut all, mut text, mut count) = (Md5::new(), Md5::new(), 0_u32);
        for part in parts {
            let digits = part.0.trim_matches('"').as_bytes();
            if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            text.update(digits);
            for pair in digits.chunks(2) {
                let pair = std::str::from_utf8(pair).ok()?;
                all.update([u8::from_str_radix(pair, 16).ok()?]);
            }
            count += 1;
        }
        let tag = |of: Md5| {
            let digest = of.finalize();
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            Self(Arc::from(format!("\"{hex}-{count}\"")))
        };
        (count > 0).then(|| (tag(all), tag(text)))
    }
}

impl fmt::Debug for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How urgent a GET is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// An application is blocked on these bytes.
    Foreground,
    /// Asked for ahead of the reader; leaves a share of the connections free.
    ReadAhead,
    /// An application is blocked on these bytes, and another GET that was to bring them is late.
    Hedge {
        /// The network interface of that one, which this is not to take if there is another.
        avoid: Option<usize>,
    },
}

/// One ranged GET.
#[derive(Clone, Debug)]
pub struct GetRequest {
    /// The object.
    pub key: Key,
    /// Bytes of the object, half-open and never empty.
    pub range: Range<u64>,
    /// The version the bytes must come from. `None` only where the caller has seen no version yet.
    pub if_match: Option<ETag>,
    /// Size of that version in bytes, where the caller was told it: an answer that says another one
    /// is refused.
    pub object_size: Option<u64>,
    /// How urgent the GET is.
    pub priority: Priority,
}

/// Version and size that a finished GET tells besides its bytes.
#[derive(Clone, Debug)]
pub struct GetOutput {
    /// The version the bytes came from.
    pub etag: ETag,
    /// Size of the whole object in bytes.
    pub object_size: u64,
}

/// One object, as HEAD or a listing describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The object.
    pub key: Key,
    /// Size in bytes.
    pub size: u64,
    /// Its current version.
    pub etag: ETag,
    /// When that version was written.
    pub last_modified: SystemTime,
    /// `STANDARD`, `GLACIER`, …; `None` where the server does not say.
    pub storage_class: Option<String>,
    /// Whether an archived object has a restored copy that can be read now.
    pub restored: bool,
}

/// The first bytes of an object, and what S3 says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    /// The object, of the version that the bytes are from.
    pub info: ObjectInfo,
    /// Its first bytes: all that were asked for, or all there are.
    pub bytes: Bytes,
}

/// All that HEAD says of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDetails {
    /// Key, size, version and times, as in a listing.
    pub info: ObjectInfo,
    /// Headers and metadata of the object.
    pub headers: ObjectHeaders,
    /// Its version; `None` in a bucket without versions.
    pub version_id: Option<String>,
    /// Its checksum, which is asked for only where bytes can be appended.
    pub checksum: KeptChecksum,
    /// The checksum, if it covers all bytes of the object in order.
    pub whole: Option<Checksum>,
}

impl ObjectDetails {
    /// Whether it is an object of `size` bytes that was told to carry `headers`. A copy of an
    /// object that was made of parts has another ETag, so that the ETag does not tell.
    #[must_use]
    pub fn is_copy(&self, size: u64, headers: &ObjectHeaders) -> bool {
        let sorted = |metadata: &[(String, String)]| {
            let mut metadata = metadata.to_vec();
            metadata.sort_unstable();
            metadata
        };
        let has_type =
            headers.content_type.is_none() || self.headers.content_type == headers.content_type;
        self.info.size == size
            && has_type
            && sorted(&self.headers.metadata) == sorted(&headers.metadata)
    }
}

/// Of which kind the checksum is that S3 keeps of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeptChecksum {
    /// None, or the server does not say.
    #[default]
    None,
    /// One that can be sent with bytes that are appended.
    Of(ChecksumAlgorithm),
    /// Another one.
    Other,
}

/// One page of ListObjectsV2.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Only keys that begin with this; empty for all.
    pub prefix: String,
    /// Keys that share a prefix up to this are rolled up into one common prefix.
    pub delimiter: Option<String>,
    /// Only keys after this one, in UTF-8 byte order.
    pub start_after: Option<String>,
    /// Where the page before ended, from [`ListOutput::continuation_token`].
    pub continuation_token: Option<String>,
    /// At most this many entries, 0 to 1000; `None` for the server's default of 1000.
    pub max_keys: Option<u16>,
}

/// One page of keys. A page without entries is the last one.
#[derive(Clone, Debug, Default)]
pub struct ListOutput {
    /// Objects, in UTF-8 byte order of their keys on general purpose buckets.
    pub objects: Vec<ObjectInfo>,
    /// Prefixes that end with the delimiter.
    pub common_prefixes: Vec<String>,
    /// Pass it to the next request; `None` on the last page.
    pub continuation_token: Option<String>,
    /// How often the server said to slow down before it answered.
    pub slow_downs: u32,
}

/// Condition of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PutCondition {
    /// Write whatever is there.
    #[default]
    None,
    /// Only if the key holds this version (`If-Match`).
    Match(ETag),
    /// Only if the key holds nothing (`If-None-Match: *`).
    Absent,
}

/// Checksum to send with bytes that are uploaded. The value is the checksum itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// CRC-32C (Castagnoli).
    Crc32c(u32),
    /// CRC-64/NVME.
    Crc64Nvme(u64),
}

/// Which checksum a multipart upload is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumAlgorithm {
    /// CRC-32C, a checksum of the parts' checksums.
    Crc32c,
    /// CRC-64/NVME, a checksum of the whole object.
    Crc64Nvme,
}

/// Headers and metadata of a new object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectHeaders {
    /// `Content-Type`; S3 stores `binary/octet-stream` where it is absent.
    pub content_type: Option<String>,
    /// `x-amz-storage-class`.
    pub storage_class: Option<String>,
    /// User metadata, without the `x-amz-meta-` prefix.
    pub metadata: Vec<(String, String)>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Expires`, as it was sent.
    pub expires: Option<String>,
    /// `x-amz-website-redirect-location`.
    pub website_redirect: Option<String>,
    /// Its own encryption by a key of KMS. Settings of the client that name another one go before
    /// it, and in a directory bucket the bucket's does.
    pub encryption: Option<KmsEncryption>,
}

/// Encryption of one object by a key of KMS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KmsEncryption {
    /// `aws:kms` or `aws:kms:dsse`.
    pub algorithm: String,
    /// The key; `None` for the account's default key.
    pub key_id: Option<String>,
    /// Whether S3 asks KMS with a key of the bucket.
    pub bucket_key: bool,
}

/// PutObject, in one request.
#[derive(Clone, Debug)]
pub struct PutRequest {
    /// The object.
    pub key: Key,
    /// All bytes of it.
    pub body: Bytes,
    /// When to write.
    pub condition: PutCondition,
    /// Checksum of `body`, verified by the server.
    pub checksum: Option<Checksum>,
    /// Headers and metadata of the object.
    pub headers: ObjectHeaders,
}

/// PutObject behind the end of an object that is there, in one request.
#[derive(Clone, Debug)]
pub struct AppendRequest {
    /// The object.
    pub key: Key,
    /// Its size, behind which the bytes come.
    pub offset: u64,
    /// The version that it must be.
    pub if_match: ETag,
    /// The bytes, at least one.
    pub body: Bytes,
    /// Checksum of `body`, verified by the server; of the algorithm that the object has.
    pub checksum: Option<Checksum>,
}

/// The outcome of a finished write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutOutput {
    /// The new version.
    pub etag: ETag,
}

/// An open multipart upload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upload {
    /// The object it will become.
    pub key: Key,
    /// S3's name for it.
    pub upload_id: String,
}

/// Number of a part, 1 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartNumber(pub u16);

/// A part that S3 holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its place in the object.
    pub number: PartNumber,
    /// S3's tag of it, needed to complete the upload.
    pub etag: ETag,
    /// Size in bytes; 0 where the caller made it and does not know.
    pub size: u64,
    /// Checksum that was sent with it.
    pub checksum: Option<Checksum>,
}

/// One key of DeleteObjects that was not deleted.
#[derive(Clone, Debug)]
pub struct DeleteFailure {
    /// The object that is still there.
    pub key: Key,
    /// Why.
    pub error: crate::ClientError,
}

/// Source of a server-side copy.
#[derive(Clone, Debug)]
pub struct CopySource {
    /// The object, in the same bucket.
    pub key: Key,
    /// The version it must be.
    pub if_match: Option<ETag>,
}

/// Headers and metadata of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyHeaders {
    /// Those of the source. S3 does not take the storage class, the encryption and the
    /// redirection from the source: they are taken from these, and nothing else.
    Same(ObjectHeaders),
    /// These, and nothing of what its source carries. An object may so be copied onto itself.
    New(ObjectHeaders),
}

/// The answer to HeadBucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketInfo {
    /// `x-amz-bucket-region`, where the server sends it.
    pub region: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_an_upload_is_made_of_those_of_its_parts() {
        let empty = "d41d8cd98f00b204e9800998ecf8427e";
        let (ones, letters) = ("1".repeat(32), "a".repeat(32));
        for (parts, expected) in [
            (&[empty][..], Some("\"59adb24ef3cdbe0297f05b395827453f-1\"")),
            (
                &[&ones, &letters],
                Some("\"b47542bcb0437fd2841d0460324c5d05-2\""),
            ),
            (&[&ones, "something else"], None),
            (&[&"g".repeat(32)], None),
            (&[&"é".repeat(16)], None),
            (&[&"+1".repeat(16)], None),
            (&[], None),
        ] {
            for quote in ["", "\""] {
                let tags: Vec<_> = parts
                    .iter()
                    .map(|part| ETag::from_header(&format!("{quote}{part}{quote}")))
                    .collect();
                let made = ETag::of_parts(&tags);
                assert_eq!(made.as_ref().map(ETag::as_str), expected, "{parts:?}");
                assert_eq!(
                    made.is_some_and(|made| made.is_of_parts(&tags)),
                    expected.is_some()
                );
            }
        }
        let tags = [&ones, &letters].map(|part| ETag::from_header(part));
        let written = ETag::from_header("\"fff82b0398f55050286ed0ac0372cc0e-2\"");
        assert!(written.is_of_parts(&tags));
        assert!(!written.is_of_parts(&tags[..1]));
        assert!(!written.is_of_parts([&tags[1], &tags[0]]));
    }
}
