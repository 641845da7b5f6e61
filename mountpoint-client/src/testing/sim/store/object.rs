//! One version of an object.

use std::time::{Duration, SystemTime};

use crate::types::{ETag, Key, ObjectHeaders, ObjectInfo, StoredChecksum};

use super::content::Content;

/// One version of an object in a [`SimClient`](super::SimClient). Tests may make one of their own
/// and insert it.
#[derive(Clone, Debug)]
pub struct SimObject {
    /// Its name.
    pub key: Key,
    /// Its bytes.
    pub content: Content,
    /// Its tag.
    pub etag: ETag,
    /// When it was written, in whole seconds as in a `Last-Modified` header.
    pub last_modified: SystemTime,
    /// Content type, storage class and user metadata.
    pub headers: ObjectHeaders,
    /// Whether an archived object has a restored copy.
    pub restored: bool,
    /// Checksum that the object was put with: appended bytes must have one of this kind.
    pub checksum: StoredChecksum,
}

impl SimObject {
    /// An object with the ETag of its content, last modified at the beginning of simulated time.
    #[must_use]
    pub fn new(key: Key, content: Content) -> Self {
        Self {
            etag: content.etag(),
            key,
            content,
            last_modified: time_of_write(0),
            headers: ObjectHeaders::default(),
            restored: false,
            checksum: StoredChecksum::None,
        }
    }

    /// Puts the object into another storage class.
    #[must_use]
    pub fn with_storage_class(mut self, class: &str) -> Self {
        self.headers.storage_class = Some(class.to_owned());
        self
    }

    /// Whether it cannot be read before it is restored.
    pub(crate) fn is_archived(&self) -> bool {
        let class = self.headers.storage_class.as_deref();
        matches!(class, Some("GLACIER" | "DEEP_ARCHIVE")) && !self.restored
    }

    /// The answer of HEAD: S3 leaves the class out where it is the standard one.
    pub(crate) fn head(&self) -> ObjectInfo {
        ObjectInfo {
            key: self.key.clone(),
            size: self.content.size(),
            etag: self.etag.clone(),
            last_modified: self.last_modified,
            storage_class: self
                .headers
                .storage_class
                .clone()
                .filter(|class| class != STANDARD),
            restored: self.restored,
        }
    }

    /// The entry in a listing: the class is always there.
    pub(crate) fn listed(&self) -> ObjectInfo {
        let class = self.headers.storage_class.clone();
        ObjectInfo {
            storage_class: Some(class.unwrap_or_else(|| STANDARD.to_owned())),
            ..self.head()
        }
    }
}

const STANDARD: &str = "STANDARD";

/// Simulated time begins in November 2023, in seconds since 1970.
const TIME_ZERO_SECONDS: u64 = 1_700_000_000;

/// When the `n`th write of a bucket happens: each is one second later than the one before.
pub(crate) fn time_of_write(n: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(TIME_ZERO_SECONDS + n)
}
