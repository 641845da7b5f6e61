//! A store that may begin before its file is whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mountpoint_client::types::{ObjectHeaders, WriteToken};

use super::feed::Feed;
use crate::operation::FsError;
use crate::staging::context::StagingContext;
use crate::write::{Adopts, ObjectUpload, Outcome, UploadCheckpoint, UploadTarget};

/// A store whose first bytes are sent, and the rest later.
#[derive(Debug)]
pub(in crate::staging) struct EarlyStore {
    /// The object to make, but for its token.
    target: UploadTarget,
    upload: ObjectUpload,
    /// Bytes that the upload has.
    sent: AtomicU64,
    /// The file has other bytes than those that were sent, or its store has ended.
    is_void: AtomicBool,
}

impl EarlyStore {
    /// Begins a store whose object carries `token`, and continues the upload of `checkpoint`. Sends
    /// nothing.
    pub(super) fn begin(
        context: &StagingContext,
        (target, token): (UploadTarget, WriteToken),
        adopts: Adopts,
        checkpoint: &Arc<UploadCheckpoint>,
        has_copies: bool,
    ) -> Arc<Self> {
        let object = UploadTarget {
            headers: ObjectHeaders {
                token: Some(token),
                ..target.headers.clone()
            },
            ..target.clone()
        };
        let upload = ObjectUpload::new(&context.writing, object, adopts, checkpoint, has_copies);
        Arc::new(Self {
            target,
            upload,
            sent: AtomicU64::new(0),
            is_void: AtomicBool::new(false),
        })
    }

    /// Whether a store of `size` bytes to `target` may go on with it: once.
    pub(super) fn can_go_on(&self, target: &UploadTarget, size: u64) -> bool {
        let is_same = self.upload.failure().is_none()
            && self.target == *target
            && self.sent.load(Ordering::Acquire) <= size;
        is_same && !self.is_void.swap(true, Ordering::AcqRel)
    }

    /// Notes that bytes which were sent have changed.
    pub(in crate::staging) fn make_void(&self) {
        self.is_void.store(true, Ordering::Release);
    }

    /// Sends the parts that were not sent of the bytes before `end`. One call at a time.
    pub(in crate::staging) async fn send_parts(
        &self,
        context: &Arc<StagingContext>,
        feed: &Feed,
        end: u64,
    ) -> Result<(), FsError> {
        let sent = self.sent.load(Ordering::Acquire);
        let sent = feed.bring_parts(context, &self.upload, sent, end).await?;
        self.sent.store(sent, Ordering::Release);
        Ok(())
    }

    /// Sends all that was not sent. Returns when S3 has all parts of a long object, or has refused
    /// one.
    pub(super) async fn send_rest(
        &self,
        context: &Arc<StagingContext>,
        feed: &Feed,
    ) -> Result<(), FsError> {
        let sent = self.sent.load(Ordering::Acquire);
        feed.bring_rest(context, &self.upload, sent).await?;
        self.upload.arrived().await;
        Ok(())
    }

    /// Makes the object, when all bytes were sent.
    pub(super) async fn finish(&self) -> Result<Outcome, FsError> {
        self.upload.finish().await
    }

    /// Ends the attempt. Its upload is aborted, unless another attempt may continue it after
    /// `error`.
    pub(in crate::staging) async fn give_up(&self, error: &FsError) {
        self.upload.give_up(error).await;
    }
}
