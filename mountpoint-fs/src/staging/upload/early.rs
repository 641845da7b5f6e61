//! A store that may begin before its file is whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mountpoint_client::types::{Key, ObjectHeaders, WriteToken};

use super::feed::Feed;
use crate::operation::{FsError, Progress};
use crate::staging::context::StagingContext;
use crate::write::{Adopts, Beginning, Replaced, Stored, UploadCheckpoint, WriteObserver, Writer};

/// The object to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::staging) struct StoreTarget {
    pub(in crate::staging) key: Key,
    pub(in crate::staging) replaced: Replaced,
    pub(in crate::staging) headers: ObjectHeaders,
}

/// A store whose first bytes are sent, and the rest later.
#[derive(Debug)]
pub(in crate::staging) struct EarlyStore {
    target: StoreTarget,
    writer: Arc<Writer>,
    notes: Arc<StoreNotes>,
    /// Bytes that the writer has.
    sent: AtomicU64,
    /// The file has other bytes than those that were sent, or its store has ended.
    is_void: AtomicBool,
}

impl EarlyStore {
    /// Begins a store whose object carries `token`, and continues the upload of `checkpoint`. Sends
    /// nothing.
    pub(super) fn begin(
        context: &StagingContext,
        (target, token): (StoreTarget, WriteToken),
        adopts: Adopts,
        checkpoint: &Arc<UploadCheckpoint>,
        has_copies: bool,
    ) -> Arc<Self> {
        let notes = Arc::new(StoreNotes::default());
        let beginning = Beginning::Whole {
            replaced: target.replaced.clone(),
            has_copies,
        };
        let progress = Arc::new(Progress::new(0, context.clock.wall()));
        let observer = Arc::clone(&notes) as Arc<dyn WriteObserver>;
        let key = target.key.clone();
        let writer = Writer::new(&context.writing, key, beginning, progress, observer);
        writer.set_headers(ObjectHeaders {
            token: Some(token),
            ..target.headers.clone()
        });
        writer.may_adopt(adopts);
        writer.continues(Arc::clone(checkpoint));
        Arc::new(Self {
            target,
            writer,
            notes,
            sent: AtomicU64::new(0),
            is_void: AtomicBool::new(false),
        })
    }

    /// Whether a store of `size` bytes to `target` may go on with it: once.
    pub(super) fn can_go_on(&self, target: &StoreTarget, size: u64) -> bool {
        let is_same = self.writer.failure().is_none()
            && self.target == *target
            && self.sent.load(Ordering::Acquire) <= size;
        is_same && !self.is_void.swap(true, Ordering::AcqRel)
    }

    /// Notes that bytes which were sent have changed.
    pub(in crate::staging) fn make_void(&self) {
        self.is_void.store(true, Ordering::Release);
    }

    /// Sends what was not sent of the bytes before `end`. One call at a time.
    pub(in crate::staging) async fn send(
        &self,
        context: &Arc<StagingContext>,
        feed: &Feed,
        end: u64,
    ) -> Result<(), FsError> {
        let sent = self.sent.load(Ordering::Acquire);
        feed.bring(context, &self.writer, sent..end).await?;
        self.sent.store(end, Ordering::Release);
        Ok(())
    }

    /// Returns when S3 has all parts of a long object, or has refused one. All bytes were sent.
    pub(super) async fn arrived(&self) {
        self.writer.parts_arrived().await;
    }

    /// Makes the object, when all bytes were sent.
    pub(super) async fn finish(&self) -> Result<Stored, FsError> {
        self.writer.store().await
    }

    /// Whether another host's object stands for the file.
    pub(super) fn is_adopted(&self) -> bool {
        self.notes.is_adopted.load(Ordering::Acquire)
    }

    /// Ends the attempt. Its upload is aborted, unless another attempt may continue it after
    /// `error`.
    pub(in crate::staging) async fn give_up(&self, error: &FsError) {
        self.writer.abandon(error).await;
    }
}

/// Notes of what the writer told.
#[derive(Debug, Default)]
struct StoreNotes {
    is_adopted: AtomicBool,
}

impl WriteObserver for StoreNotes {
    fn resumed(&self) -> Result<(), FsError> {
        Ok(())
    }

    fn stored(&self, _: &Stored) {}

    fn adopted(&self) {
        self.is_adopted.store(true, Ordering::Release);
    }

    fn failed(&self, _: &FsError) {}
}
