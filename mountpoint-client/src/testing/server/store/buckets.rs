//! Buckets and objects in memory.
//!
//! The server serves them, and a test may fill them directly. Knows nothing of HTTP.
//!
//! Invariant: an object is never changed, only replaced, so a reader that holds one reads one
//! version. Locks: `buckets` before a bucket's `objects` before its `uploads`; none is held across
//! an await.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use s3s::{S3Result, s3_error};

use super::checksum::{Algorithm, hash};
use super::content::Content;
use super::object::{Extra, Headers, Object, Restore, Tag};
use super::synthetic;
use super::upload::{Upload, no_such_upload};
use crate::testing::server::clock;
use crate::testing::server::options::{PartSizes, PartTags, ServerOptions};

/// Buckets in memory.
pub struct Store {
    buckets: RwLock<BTreeMap<String, Arc<Bucket>>>,
    uploads_created: AtomicU64,
    pub(crate) part_tags: PartTags,
    pub(crate) part_sizes: PartSizes,
    /// Most parts of an object that is appended to.
    pub(crate) append_parts_max: usize,
}

/// One bucket.
pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) created: SystemTime,
    /// In UTF-8 byte order, which is S3's listing order.
    pub(crate) objects: RwLock<BTreeMap<Box<str>, Arc<Object>>>,
    /// By key and upload id, in listing order.
    pub(crate) uploads: Mutex<BTreeMap<(String, String), Upload>>,
}

/// Objects up to this many bytes get a CRC64NVME when a test stores them, as S3 keeps one of every
/// object. Larger ones are never sent whole with one answer, and hashing them takes time.
const CHECKSUM_MAX: u64 = 1024 * 1024;

/// Whether the bucket of this name is a directory bucket.
pub(crate) fn is_directory_bucket(bucket: &str) -> bool {
    bucket.ends_with("--x-s3")
}

impl Bucket {
    /// Reads or changes an upload in progress.
    pub(crate) fn with_upload<T>(
        &self,
        key: &str,
        id: &str,
        f: impl FnOnce(&mut Upload) -> T,
    ) -> S3Result<T> {
        let mut uploads = self.uploads.lock();
        let upload = uploads
            .get_mut(&(key.to_owned(), id.to_owned()))
            .ok_or_else(no_such_upload)?;
        Ok(f(upload))
    }
}

impl Store {
    /// An empty one.
    pub(crate) fn new(options: &ServerOptions) -> Self {
        Self {
            buckets: RwLock::default(),
            uploads_created: AtomicU64::new(0),
            part_tags: options.part_tags,
            part_sizes: options.part_sizes,
            append_parts_max: options.append_parts_max,
        }
    }

    /// Makes a bucket, unless there is one of this name. Returns whether it was made.
    pub fn create_bucket(&self, name: &str) -> bool {
        let mut buckets = self.buckets.write();
        if buckets.contains_key(name) {
            return false;
        }
        let bucket = Bucket {
            name: name.to_owned(),
            created: clock::now(),
            objects: RwLock::default(),
            uploads: Mutex::default(),
        };
        buckets.insert(name.to_owned(), Arc::new(bucket));
        true
    }

    /// Gives a bucket a second name, as an alias of an access point is. Returns whether there is
    /// such a bucket and no other of that name.
    pub fn add_bucket_name(&self, bucket: &str, alias: &str) -> bool {
        let mut buckets = self.buckets.write();
        let named = buckets.get(bucket).cloned();
        named.is_some_and(|bucket| buckets.insert(alias.to_owned(), bucket).is_none())
    }

    /// Puts an object, and the bucket if there is none. Returns the ETag with its quotes.
    pub fn put(&self, bucket: &str, key: &str, bytes: impl Into<Bytes>) -> String {
        self.put_with(bucket, key, bytes, Headers::default())
    }

    /// Puts an object with headers, and the bucket if there is none. Returns the ETag with its
    /// quotes.
    pub fn put_with(
        &self,
        bucket: &str,
        key: &str,
        bytes: impl Into<Bytes>,
        headers: Headers,
    ) -> String {
        let bytes = bytes.into();
        let tag = Tag::of(&bytes);
        let content = Content::Stored(bytes);
        self.insert(bucket, key, tag, content, headers)
    }

    /// Puts an object of `size` bytes that are computed from `seed` and take no memory, and the
    /// bucket if there is none. [`synthetic_bytes`](super::synthetic_bytes) tells what it holds.
    /// Returns the ETag with its quotes.
    pub fn put_synthetic(&self, bucket: &str, key: &str, size: u64, seed: u64) -> String {
        let tag = Tag {
            md5: synthetic::synthetic_md5(seed, size),
            parts: 0,
        };
        let content = Content::Synthetic {
            seed,
            start: 0,
            len: size,
        };
        self.insert(bucket, key, tag, content, Headers::default())
    }

    /// The object, if it is there.
    #[must_use]
    pub fn object(&self, bucket: &str, key: &str) -> Option<Arc<Object>> {
        self.bucket(bucket)?.objects.read().get(key).cloned()
    }

    /// Every key of a bucket, in order. Empty if there is no such bucket.
    #[must_use]
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        let Some(bucket) = self.bucket(bucket) else {
            return Vec::new();
        };
        bucket
            .objects
            .read()
            .keys()
            .map(ToString::to_string)
            .collect()
    }

    /// Removes an object. Returns whether it was there.
    pub fn delete(&self, bucket: &str, key: &str) -> bool {
        self.bucket(bucket)
            .is_some_and(|bucket| bucket.objects.write().remove(key).is_some())
    }

    /// Sets when an object was written. Returns whether it is there.
    pub fn set_modified(&self, bucket: &str, key: &str, modified: SystemTime) -> bool {
        self.change(bucket, key, |object| object.modified = modified)
    }

    /// Sets the storage class of an object (`GLACIER`, …; `None` for `STANDARD`) and, for an
    /// archived one, whether it has a restored copy. Returns whether it is there.
    pub fn set_storage_class(
        &self,
        bucket: &str,
        key: &str,
        class: Option<&str>,
        restore: Option<Restore>,
    ) -> bool {
        self.change(bucket, key, |object| {
            let extra = object.extra.get_or_insert_default();
            extra.headers.storage_class = class.map(str::to_owned);
            extra.restore = restore;
        })
    }

    /// Key and upload id of every multipart upload in progress, in order.
    #[must_use]
    pub fn uploads(&self, bucket: &str) -> Vec<(String, String)> {
        let Some(bucket) = self.bucket(bucket) else {
            return Vec::new();
        };
        bucket.uploads.lock().keys().cloned().collect()
    }

    pub(crate) fn bucket(&self, name: &str) -> Option<Arc<Bucket>> {
        self.buckets.read().get(name).cloned()
    }

    pub(crate) fn buckets(&self) -> Vec<Arc<Bucket>> {
        self.buckets.read().values().cloned().collect()
    }

    /// Removes a bucket that is empty. `None` if there is none, `Some(false)` if it is not empty.
    pub(crate) fn delete_bucket(&self, name: &str) -> Option<bool> {
        let mut buckets = self.buckets.write();
        let empty = buckets.get(name)?.objects.read().is_empty();
        if empty {
            buckets.remove(name);
        }
        Some(empty)
    }

    /// An upload id that was not used before.
    pub(crate) fn new_upload_id(&self) -> String {
        format!(
            "upload-{:016x}",
            self.uploads_created.fetch_add(1, Ordering::Relaxed) + 1
        )
    }

    fn insert(
        &self,
        bucket: &str,
        key: &str,
        tag: Tag,
        content: Content,
        headers: Headers,
    ) -> String {
        let is_hashed = content.size() <= CHECKSUM_MAX || is_directory_bucket(bucket);
        let checksum = is_hashed.then(|| hash(Algorithm::Crc64Nvme, &content));
        let object = Object {
            content,
            tag,
            modified: clock::now(),
            extra: Some(Box::new(Extra {
                headers,
                checksum,
                ..Extra::default()
            })),
        };
        let etag = object.etag();
        if self.bucket(bucket).is_none() {
            self.create_bucket(bucket);
        }
        if let Some(bucket) = self.bucket(bucket) {
            bucket.objects.write().insert(key.into(), Arc::new(object));
        }
        etag
    }

    fn change(&self, bucket: &str, key: &str, change: impl FnOnce(&mut Object)) -> bool {
        let Some(bucket) = self.bucket(bucket) else {
            return false;
        };
        let mut objects = bucket.objects.write();
        objects
            .get_mut(key)
            .map(|object| change(Arc::make_mut(object)))
            .is_some()
    }

    pub(crate) fn require_bucket(&self, name: &str) -> S3Result<Arc<Bucket>> {
        self.bucket(name)
            .ok_or_else(|| s3_error!(NoSuchBucket, "The specified bucket does not exist"))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("buckets", &self.buckets.read().len())
            .finish_non_exhaustive()
    }
}
