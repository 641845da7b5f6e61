//! The state that a later attempt needs to continue an upload: its id, and the parts that S3 has.
//!
//! A part counts only for bytes that are equal to those that were sent, and only with the tag that
//! S3 has of it. So a checkpoint that is old, or of other bytes, costs requests and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use mountpoint_client::ErrorKind;
use mountpoint_client::types::{
    Checksum, ChecksumAlgorithm, ETag, Key, ObjectHeaders, Part, PartNumber, Upload,
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::context::SendContext;
use super::copied_range::CopiedRange;
use crate::operation::{FsError, PosixAttributes};
use crate::sync::Mutex;
use crate::write::failure::failed;

/// An upload that was begun, and neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunUpload {
    /// The upload.
    pub upload: Upload,
    /// The headers that its object gets.
    pub headers: ObjectHeaders,
    /// The checksum of its parts.
    pub checksum: Option<ChecksumAlgorithm>,
}

/// A part that S3 has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedPart {
    /// Number, tag and size.
    pub part: Part,
    /// Its content.
    pub content: PartContent,
}

/// The content of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartContent {
    /// Bytes with this CRC64NVME.
    Bytes(u64),
    /// A range of a version of an object.
    Copy {
        /// Key of the object.
        key: Key,
        /// Tag of the version.
        etag: ETag,
        /// Bytes of it.
        range: Range<u64>,
    },
}

/// The place where a checkpoint is kept for a later process.
pub trait CheckpointStore: Send + Sync {
    /// Notes an upload before its first part is sent. Returns whether a later process will find it.
    fn begun(&self, upload: &BegunUpload) -> BoxFuture<'static, bool>;

    /// Notes a part of that upload.
    fn finished(&self, part: &FinishedPart);

    /// This upload is completed, or gone. Another one may have begun since.
    fn ended(&self, upload: &Upload);
}

/// The unfinished upload of one file, if it has one.
pub struct UploadCheckpoint {
    /// A leaf.
    state: Mutex<Option<Unfinished>>,
    store: Box<dyn CheckpointStore>,
    /// The turn of the attempt that sends, until all its parts were answered.
    sending: Arc<AsyncMutex<()>>,
}

/// The right to send parts of a checkpoint's upload, or to abort it.
pub(in crate::write) type AttemptTurn = OwnedMutexGuard<()>;

#[derive(Debug)]
struct Unfinished {
    begun: BegunUpload,
    parts: BTreeMap<PartNumber, FinishedPart>,
    /// Whether a later process finds it.
    is_noted: bool,
}

/// The answer of S3 about the upload of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointFound {
    /// The checkpoint has no upload.
    Nothing,
    /// The upload can be continued.
    Continues,
    /// The upload is gone: it was completed, or another client has aborted it.
    Gone,
}

impl UploadCheckpoint {
    /// No upload yet.
    #[must_use]
    pub fn new(store: Box<dyn CheckpointStore>) -> Arc<Self> {
        Self::of(None, store)
    }

    /// No upload yet, and none that a later process finds.
    #[must_use]
    pub fn in_memory() -> Arc<Self> {
        Self::of(None, Box::new(Forgets))
    }

    /// The upload of an earlier process.
    #[must_use]
    pub fn restored(
        begun: BegunUpload,
        parts: Vec<FinishedPart>,
        store: Box<dyn CheckpointStore>,
    ) -> Arc<Self> {
        let parts = parts.into_iter().map(|part| (part.part.number, part));
        let unfinished = Unfinished {
            begun,
            parts: parts.collect(),
            is_noted: true,
        };
        Self::of(Some(unfinished), store)
    }

    fn of(unfinished: Option<Unfinished>, store: Box<dyn CheckpointStore>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(unfinished),
            store,
            sending: Arc::default(),
        })
    }

    /// Waits until no part of an earlier attempt is in flight: S3 might take its late part for a
    /// newer one.
    pub(in crate::write) async fn turn(&self) -> AttemptTurn {
        Arc::clone(&self.sending).lock_owned().await
    }

    /// Whether there is an upload.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.state.lock().is_some()
    }

    /// Whether there is an upload, or an attempt that may begin one.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.is_begun() || self.sending.try_lock().is_err()
    }

    /// The upload, if there is one.
    pub(in crate::write) fn begun(&self) -> Option<BegunUpload> {
        let state = self.state.lock();
        state.as_ref().map(|unfinished| unfinished.begun.clone())
    }

    /// Asks S3 for the upload and its parts. What the answer does not have is sent again.
    ///
    /// # Errors
    /// S3 may answer later.
    pub(in crate::write) async fn confirm(
        &self,
        context: &SendContext,
    ) -> Result<CheckpointFound, FsError> {
        let Some(begun) = self.begun() else {
            return Ok(CheckpointFound::Nothing);
        };
        match context.client.list_parts(&begun.upload).await {
            Ok(listed) => {
                self.retain(&listed);
                Ok(CheckpointFound::Continues)
            }
            Err(error) if error.kind == ErrorKind::NoSuchUpload => {
                if !self.is_noted() {
                    context.journal.ended(&begun.upload);
                }
                self.end(&begun.upload);
                Ok(CheckpointFound::Gone)
            }
            Err(error) if error.kind.is_retryable() => Err(failed(error)),
            Err(error) => {
                let key = &begun.upload.key;
                tracing::info!(%key, "all parts of an upload are sent again: {error}");
                self.retain(&[]);
                Ok(CheckpointFound::Continues)
            }
        }
    }

    /// Forgets parts that are not `listed` as they were sent.
    fn retain(&self, listed: &[Part]) {
        let listed: BTreeMap<_, _> = listed.iter().map(|part| (part.number, part)).collect();
        if let Some(unfinished) = &mut *self.state.lock() {
            unfinished.parts.retain(|number, known| {
                listed.get(number).is_some_and(|there| {
                    there.etag.matches(&known.part.etag) && there.size == known.part.size
                })
            });
        }
    }

    /// Notes a new upload. Returns whether a later process will find it.
    pub(in crate::write) async fn begin(&self, begun: BegunUpload) -> bool {
        let noted = self.store.begun(&begun);
        *self.state.lock() = Some(Unfinished {
            begun,
            parts: BTreeMap::new(),
            is_noted: false,
        });
        let is_noted = noted.await;
        if let Some(unfinished) = &mut *self.state.lock() {
            unfinished.is_noted = is_noted;
        }
        is_noted
    }

    /// Whether a later process will find the upload.
    pub(in crate::write) fn is_noted(&self) -> bool {
        let state = self.state.lock();
        state.as_ref().is_some_and(|unfinished| unfinished.is_noted)
    }

    /// The part `number` of `len` bytes with this content, if S3 has it.
    pub(in crate::write) fn known(
        &self,
        number: PartNumber,
        len: u64,
        content: &PartContent,
    ) -> Option<Part> {
        let state = self.state.lock();
        let known = state.as_ref()?.parts.get(&number)?;
        let is_equal = known.part.size == len && known.content == *content;
        is_equal.then(|| known.part.clone())
    }

    /// Part `number` is being sent: S3 may have either content until it is answered.
    pub(in crate::write) fn sending(&self, number: PartNumber) {
        if let Some(unfinished) = &mut *self.state.lock() {
            unfinished.parts.remove(&number);
        }
    }

    /// S3 has a part of `upload`.
    pub(in crate::write) fn finished(&self, upload: &Upload, part: FinishedPart) {
        {
            let mut state = self.state.lock();
            let unfinished = state.as_mut();
            let Some(unfinished) = unfinished.filter(|it| it.begun.upload == *upload) else {
                return;
            };
            unfinished.parts.insert(part.part.number, part.clone());
        }
        self.store.finished(&part);
    }

    /// The upload is completed, or gone.
    pub(in crate::write) fn end(&self, upload: &Upload) {
        {
            let mut state = self.state.lock();
            let ended = state.take_if(|unfinished| unfinished.begun.upload == *upload);
            if ended.is_none() {
                return;
            }
        }
        self.store.ended(upload);
    }

    /// Aborts the upload, if there is one: no attempt will continue it. An attempt that runs ends
    /// first, because S3 may keep a part that arrives behind an abort. An upload that cannot be
    /// aborted stays noted.
    ///
    /// # Errors
    /// S3 refused it, or is away.
    pub(in crate::write) async fn abort(&self, context: &SendContext) -> Result<(), FsError> {
        let _turn = self.turn().await;
        self.abort_now(context).await
    }

    /// As [`Self::abort`], for a caller that has the turn.
    pub(in crate::write) async fn abort_now(&self, context: &SendContext) -> Result<(), FsError> {
        let Some(unfinished) = self.state.lock().take() else {
            return Ok(());
        };
        let upload = &unfinished.begun.upload;
        let aborted = context.client.abort_upload(upload).await;
        match aborted {
            Err(error) if error.kind != ErrorKind::NoSuchUpload => {
                self.state.lock().get_or_insert(unfinished);
                Err(failed(error))
            }
            _ => {
                if !unfinished.is_noted {
                    context.journal.ended(&unfinished.begun.upload);
                }
                self.store.ended(&unfinished.begun.upload);
                Ok(())
            }
        }
    }
}

impl BegunUpload {
    /// Whether an upload of `key` with these headers may be continued by it. Each attempt has a
    /// change time and a token of its own, and the object keeps the first ones. An upload without
    /// checksums has none because of its copies, or because of the server.
    pub(in crate::write) fn is_for(
        &self,
        key: &Key,
        headers: &ObjectHeaders,
        checksum: Option<ChecksumAlgorithm>,
    ) -> bool {
        let has_checksum = self.checksum.is_none() || self.checksum == checksum;
        let with_metadata = |metadata| ObjectHeaders {
            metadata,
            token: self.headers.token.clone(),
            ..headers.clone()
        };
        let known = &self.headers.metadata;
        let has_headers = self.headers == with_metadata(known.clone())
            && PosixAttributes::are_equal_but_for_change(known, &headers.metadata);
        self.upload.key == *key && has_headers && has_checksum
    }
}

impl PartContent {
    /// The content of a part with these bytes.
    pub(in crate::write) fn of_bytes(bytes: &Bytes, checksum: Option<Checksum>) -> Self {
        if let Some(Checksum::Crc64Nvme(sum)) = checksum {
            return Self::Bytes(sum);
        }
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        digest.update(bytes);
        Self::Bytes(digest.finalize())
    }

    /// The content of a part that is a copy.
    pub(in crate::write) fn of_copy(copied: &CopiedRange) -> Self {
        Self::Copy {
            key: copied.key.clone(),
            etag: copied.etag.clone(),
            range: copied.range.clone(),
        }
    }
}

/// Whether an upload may be continued after this error.
pub(in crate::write) fn may_continue(error: &FsError) -> bool {
    match error {
        FsError::Client(error) => {
            let is_passing = matches!(error.kind, ErrorKind::Credentials | ErrorKind::Cancelled);
            is_passing || error.kind.is_retryable()
        }
        FsError::Denied(_)
        | FsError::Busy(_)
        | FsError::InMotion(_)
        | FsError::Interrupted
        | FsError::Local(_)
        | FsError::NoSpace(_) => true,
        _ => false,
    }
}

/// Keeps nothing: the journal of the mount names the upload, so that the next mount aborts it.
struct Forgets;

impl CheckpointStore for Forgets {
    fn begun(&self, _: &BegunUpload) -> BoxFuture<'static, bool> {
        ready(false).boxed()
    }

    fn finished(&self, _: &FinishedPart) {}

    fn ended(&self, _: &Upload) {}
}

impl fmt::Debug for UploadCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadCheckpoint")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
