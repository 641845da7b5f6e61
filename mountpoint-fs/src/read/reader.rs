//! One open file's reads: what the file system and the sibling prefetch hold of an [`OpenObject`].

use std::sync::Arc;

use mountpoint_client::types::{ETag, Key};

use super::context::ReadContext;
use super::prefetch_budget::PrefetchLoan;
use crate::config::limits::SMALL_FILE_MAX;
use crate::operation::{FsError, ReadData};
use crate::read::object::VersionId;
use crate::read::object::{Keep, Open, OpenObject, wait};

/// Reads one version of one object. Any number of reads may be in progress at once. A clone is the
/// same reader.
#[derive(Clone, Debug)]
pub struct Reader {
    open: Arc<Open>,
}

/// What one open file takes while nothing is held, in bytes.
#[cfg(test)]
pub(super) fn idle_size() -> usize {
    size_of::<Reader>() + size_of::<Open>() + size_of::<OpenObject>()
}

impl Reader {
    /// A reader of the version `etag` of `key`, which is `size` bytes long; it fetches all it reads
    /// by itself. Sends no request yet.
    #[must_use]
    pub fn new(context: Arc<ReadContext>, key: Key, etag: ETag, size: u64) -> Self {
        let object = OpenObject::new(context, key, etag, size, None);
        Self::join(&object).expect("the first reader is free")
    }

    /// The same, but it shares what it fetches with others of this version that are open. Of a
    /// small file it fetches all by itself: that is one request, and may have to show that the
    /// version is still the newest.
    #[must_use]
    pub fn shared(context: &Arc<ReadContext>, key: &Key, etag: &ETag, size: u64) -> Self {
        if size <= SMALL_FILE_MAX {
            return Self::new(Arc::clone(context), key.clone(), etag.clone(), size);
        }
        let id = VersionId::of(key, etag, size);
        let new = || {
            OpenObject::new(
                Arc::clone(context),
                key.clone(),
                etag.clone(),
                size,
                Some(id),
            )
        };
        let object = context.registry.open(id, new);
        if object.is_version(key, etag, size)
            && let Some(reader) = Self::join(&object)
        {
            return reader;
        }
        let object = new();
        context.registry.replace(id, &object);
        Self::join(&object).expect("the first reader is free")
    }

    /// Its reads will ask for pages: what the page cache has of others they will not ask for.
    pub fn expect_pages(&self) {
        self.open.object.expect_pages(self.open.reader);
    }

    fn join(object: &Arc<OpenObject>) -> Option<Self> {
        let open = Arc::new(Open::of(object)?);
        Some(Self { open })
    }

    /// Whether the version has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.object.size == 0
    }

    /// What it reads: the object, its version and its size.
    #[must_use]
    pub fn version(&self) -> (&Key, &ETag, u64) {
        (
            &self.open.object.key,
            &self.open.object.etag,
            self.open.object.size,
        )
    }

    /// That what it reads is asked for before it is opened was lent `ahead`.
    pub(super) fn set_loan(&self, ahead: PrefetchLoan) {
        self.open.object.set_loan(ahead);
    }

    /// Whether it has bytes, or is about to, that were asked for ahead and not read.
    pub(super) fn is_prefetched(&self) -> bool {
        self.open.object.is_prefetched()
    }

    /// Whether `etag` is that of its version.
    pub(super) fn is_of(&self, etag: &ETag) -> bool {
        self.open.object.etag.matches(etag)
    }

    /// Asks for all bytes of a small object that nobody waits for yet, if there is memory for them.
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

    /// The same; `fills_cache` tells that the kernel asks for pages, which it keeps for all who
    /// read the file.
    pub async fn read_for(
        &self,
        offset: u64,
        size: u32,
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let object = &self.open.object;
        let end = offset.saturating_add(u64::from(size)).min(object.size);
        if offset >= end {
            return Ok(ReadData::default());
        }
        object.read(&self.open, offset..end, fills_cache).await
    }

    /// Keeps the object's first bytes, which came from elsewhere, for the read that comes next; if
    /// there is memory.
    pub fn hold_front(&self, bytes: &[u8]) {
        self.open.object.hold_front(bytes);
    }

    /// Fetches all bytes of a small object and keeps them for the read that comes next. Fails like
    /// that read would.
    pub async fn fetch_whole(&self) -> Result<(), FsError> {
        let range = 0..self.open.object.size;
        let pieces = self.open.object.fetch(&range, Keep::Blocks).await;
        wait(&pieces)
            .await
            .map_err(|(error, _)| self.open.object.fs_error(error))
    }
}
