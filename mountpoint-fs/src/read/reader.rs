//! One open file's reads: what the file system and the sibling prefetch hold of an [`OpenObject`].

use std::sync::Arc;

use mountpoint_client::types::{ETag, Key};

use super::context::ReadContext;
use super::object::{Open, OpenObject};
use super::object_version::ObjectVersion;
use super::prefetch_budget::PrefetchLoan;
use crate::config::limits::SMALL_FILE_MAX;
use crate::operation::{FsError, ReadData};

/// Reads one version of one object. Any number of reads may be in progress at once. A clone is the
/// same reader.
#[derive(Clone, Debug)]
pub struct Reader {
    open: Arc<Open>,
}

/// Bytes of one open file that holds no blocks.
#[cfg(test)]
pub(super) fn idle_size() -> usize {
    size_of::<Reader>() + size_of::<Open>() + size_of::<OpenObject>() + size_of::<ObjectVersion>()
}

impl Reader {
    /// A reader of the version `etag` of `key`, which is `size` bytes long; it fetches all its
    /// bytes itself. Sends no request yet.
    #[must_use]
    pub fn new(context: &ReadContext, key: Key, etag: ETag, size: u64) -> Self {
        let version = ObjectVersion { key, etag, size };
        let object = OpenObject::new(Arc::clone(&context.resources), version, None);
        Self::join(&object).expect("the first reader is free")
    }

    /// Waits until it is known which bytes the cache has, if there is one.
    pub async fn when_cache_known(&self) {
        if let Some(cached) = self.open.object.cached() {
            cached.when_loaded().await;
        }
    }

    /// A reader that shares fetched bytes with other open files of its version. A small file is not
    /// shared: its one request may have to show that the version is still the newest.
    #[must_use]
    pub fn shared(context: &ReadContext, key: &Key, etag: &ETag, size: u64) -> Self {
        if size <= SMALL_FILE_MAX {
            return Self::new(context, key.clone(), etag.clone(), size);
        }
        let (key, etag) = (key.clone(), etag.clone());
        let version = ObjectVersion { key, etag, size };
        let id = version.id();
        let new = || {
            let shared = Some((Arc::clone(&context.registry), id));
            OpenObject::new(Arc::clone(&context.resources), version.clone(), shared)
        };
        let object = context.registry.open(id, new);
        if *object.version() == version
            && let Some(reader) = Self::join(&object)
        {
            return reader;
        }
        let object = new();
        context.registry.replace(id, &object);
        Self::join(&object).expect("the first reader is free")
    }

    /// Its reads will ask for pages: it will not ask for those that other readers have filled.
    pub fn expect_pages(&self) {
        self.open.object.expect_pages(self.open.reader);
    }

    /// One more reader of `object`, if there may be one more.
    pub(super) fn join(object: &Arc<OpenObject>) -> Option<Self> {
        let open = Arc::new(Open::of(object)?);
        Some(Self { open })
    }

    /// Whether the version has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.object.version().size == 0
    }

    /// The object that it reads, its version and its size.
    #[must_use]
    pub fn version(&self) -> (&Key, &ETag, u64) {
        let ObjectVersion { key, etag, size } = self.open.object.version();
        (key, etag, *size)
    }

    /// Keeps the loan for bytes that are asked for before the file is opened.
    pub(super) fn set_loan(&self, loan: PrefetchLoan) {
        self.open.object.set_loan(loan);
    }

    /// Whether bytes were asked for before the file was opened, and not read.
    pub(super) fn is_prefetched(&self) -> bool {
        self.open.object.is_prefetched()
    }

    /// Whether `etag` is that of its version.
    pub(super) fn is_of(&self, etag: &ETag) -> bool {
        self.open.object.version().etag.matches(etag)
    }

    /// Asks for all bytes of a small object, which no reader waits for yet, if there is memory.
    pub(super) fn fetch_ahead(&self) {
        self.open.object.fetch_ahead();
    }

    /// Bytes `offset..offset + size`, cut at the end of the object.
    ///
    /// Ready at once if the bytes are here. Dropping the future is safe at any time; what was asked
    /// for arrives all the same.
    pub async fn read(&self, offset: u64, size: u32) -> Result<ReadData, FsError> {
        self.read_for(offset, size, false).await
    }

    /// Reads like [`Reader::read`]; `fills_cache` tells that the kernel asks for pages, which it
    /// keeps for all readers of the file.
    pub async fn read_for(
        &self,
        offset: u64,
        size: u32,
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let object = &self.open.object;
        let end = offset.saturating_add(u64::from(size));
        let end = end.min(object.version().size);
        if offset >= end {
            return Ok(ReadData::default());
        }
        object.read(&self.open, offset..end, fills_cache).await
    }

    /// Keeps the object's first bytes, which came from elsewhere, for the read that comes next; if
    /// there is memory.
    pub fn hold_first_bytes(&self, bytes: &[u8]) {
        self.open.object.hold_first_bytes(bytes);
    }

    /// Fetches all bytes of a small object and keeps them for the read that comes next. Fails like
    /// that read would.
    pub async fn fetch_whole(&self) -> Result<(), FsError> {
        self.open.object.fetch_whole().await
    }
}
