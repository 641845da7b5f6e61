//! One stored object: immutable, shared, replaced as a whole.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use bytes::Bytes;
use md5::{Digest, Md5};

use super::checksum::Checksum;
use super::content::Content;

/// S3's tag of a version: an MD5, and how many parts it was uploaded in if it was a multipart
/// upload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) md5: [u8; 16],
    /// 0 for an object that was put in one request.
    pub(crate) parts: u16,
}

impl Tag {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            md5: Md5::digest(bytes).into(),
            parts: 0,
        }
    }

    /// Without quotes.
    pub(crate) fn text(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(38);
        for byte in self.md5 {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        if self.parts > 0 {
            text.push('-');
            text.push_str(&self.parts.to_string());
        }
        text
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// The headers that are stored with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// `Content-Type`; `binary/octet-stream` is sent where it is absent.
    pub content_type: Option<String>,
    /// `Content-Encoding`, without `aws-chunked`.
    pub content_encoding: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// User metadata, without the `x-amz-meta-` prefix.
    pub metadata: BTreeMap<String, String>,
    /// `x-amz-storage-class`; absent for `STANDARD`.
    pub storage_class: Option<String>,
    /// `Expires`, as an HTTP date.
    pub expires: Option<String>,
    /// `x-amz-website-redirect-location`.
    pub website_redirect: Option<String>,
    /// How it is encrypted, if that was asked for.
    pub encryption: Option<Encryption>,
}

/// The encryption that a request asks for. Only told: bytes are kept as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// `x-amz-server-side-encryption`.
    pub algorithm: String,
    /// `x-amz-server-side-encryption-aws-kms-key-id`.
    pub key_id: Option<String>,
    /// `x-amz-server-side-encryption-bucket-key-enabled`.
    pub bucket_key: bool,
}

/// Whether an archived object has a copy that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore {
    /// A restore was asked for and is not done: the object cannot be read yet.
    InProgress,
    /// There is a copy until then.
    Until(SystemTime),
}

/// One object.
#[derive(Clone)]
pub struct Object {
    pub(crate) content: Content,
    pub(crate) tag: Tag,
    pub(crate) modified: SystemTime,
    /// Boxed, as most of a million small objects have none of it.
    pub(crate) extra: Option<Box<Extra>>,
}

/// Data that only some objects have.
#[derive(Clone, Default)]
pub(crate) struct Extra {
    pub(crate) headers: Headers,
    pub(crate) checksum: Option<Checksum>,
    pub(crate) restore: Option<Restore>,
    /// Size of each part of the multipart upload it was.
    pub(crate) parts: Vec<u64>,
}

/// Storage classes whose objects cannot be read before they are restored.
const ARCHIVES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];

impl Object {
    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.content.size()
    }

    /// Its ETag with the quotes, as in the `ETag` header.
    #[must_use]
    pub fn etag(&self) -> String {
        format!("\"{}\"", self.tag.text())
    }

    /// When it was written, in whole seconds.
    #[must_use]
    pub fn modified(&self) -> SystemTime {
        self.modified
    }

    /// All of its bytes; copied into one buffer if they are synthetic or came in parts.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.content.to_bytes()
    }

    /// All of its bytes, piece by piece, not copied.
    pub fn pieces(&self) -> impl Iterator<Item = Bytes> {
        self.content.pieces()
    }

    /// The headers that were stored with the object.
    #[must_use]
    pub fn headers(&self) -> Headers {
        self.extra
            .as_ref()
            .map(|extra| extra.headers.clone())
            .unwrap_or_default()
    }

    /// Its checksum as in the `x-amz-checksum-…` header, with the algorithm's name (`CRC64NVME`).
    #[must_use]
    pub fn checksum(&self) -> Option<(&'static str, String)> {
        let checksum = self.extra.as_ref()?.checksum.as_ref()?;
        Some((checksum.algorithm.as_str(), checksum.text()))
    }

    /// Sizes of the parts it was uploaded in; empty if it was put in one request.
    #[must_use]
    pub fn parts(&self) -> &[u64] {
        self.extra.as_ref().map_or(&[], |extra| &extra.parts)
    }

    pub(crate) fn storage_class(&self) -> Option<&str> {
        self.extra.as_ref()?.headers.storage_class.as_deref()
    }

    pub(crate) fn restore(&self) -> Option<Restore> {
        self.extra.as_ref()?.restore
    }

    /// Whether its bytes cannot be read now.
    pub(crate) fn is_archived(&self) -> bool {
        let archived = self
            .storage_class()
            .is_some_and(|class| ARCHIVES.contains(&class));
        archived && !matches!(self.restore(), Some(Restore::Until(_)))
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("size", &self.size())
            .field("etag", &self.tag)
            .finish_non_exhaustive()
    }
}
