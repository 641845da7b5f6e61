//! One multipart upload: begun, filled part by part in any order, and completed or aborted.
//!
//! Each step runs in the background from the moment it is asked for; parts are sent in parallel. Invariants: S3 is told
//! to complete only what is whole; an upload is ended once; it is aborted only after its parts have come to rest,
//! because S3 may keep a part that arrives behind an abort.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use mountpoint_client::ErrorKind;
use mountpoint_client::types::{
    Checksum, ChecksumAlgorithm, Key, ObjectHeaders, Part, PartNumber, PutCondition,
    Upload as OpenUpload,
};

use super::abilities::Uses;
use super::background::{self, Settled};
use super::context::{WriteContext, failed};
use super::copied::{Copied, copy_failed};
use super::lost_answer;
use super::writer::{Failure, Stored};
use crate::operation::FsError;
use crate::sync::Mutex;

/// An upload.
#[derive(Debug)]
pub(super) struct Upload {
    context: Arc<WriteContext>,
    key: Key,
    failure: Arc<Failure>,
    begun: Settled<Result<Begun, FsError>>,
    /// Parts in their order. The lock is a leaf.
    parts: Mutex<Vec<Settled<Result<Part, FsError>>>>,
    is_ended: AtomicBool,
}

/// Where a part's bytes come from.
enum Source {
    Bytes(Bytes, Option<Checksum>),
    Object(Copied),
}

impl Source {
    /// Bytes that are sent.
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(body, _) => body.len() as u64,
            Self::Object(..) => 0,
        }
    }
}

/// An upload that S3 knows.
#[derive(Clone, Debug)]
struct Begun {
    upload: OpenUpload,
    checksum: Option<ChecksumAlgorithm>,
}

impl Upload {
    /// Begins one. What fails in it is told to `failure`. One with `copies` of other objects has no checksums: not every
    /// server tells that of a copy, and S3 wants all parts' or none's.
    pub(super) fn begin(
        context: &Arc<WriteContext>,
        key: &Key,
        failure: &Arc<Failure>,
        copies: bool,
        headers: ObjectHeaders,
    ) -> Arc<Self> {
        let upload = Arc::new(Self {
            context: Arc::clone(context),
            key: key.clone(),
            failure: Arc::clone(failure),
            begun: Settled::new(),
            parts: Mutex::default(),
            is_ended: AtomicBool::new(false),
        });
        context.register(&upload);
        let (this, pending) = (Arc::clone(&upload), context.begin());
        background::run(async move {
            let begun = this.create(copies, headers).await;
            match &begun {
                Ok(begun) => this.context.journal.begun(&begun.upload),
                Err(error) => this.failure.set(error),
            }
            this.begun.settle(begun);
            drop(pending);
        });
        upload
    }

    async fn create(&self, copies: bool, headers: ObjectHeaders) -> Result<Begun, FsError> {
        let context = &self.context;
        let wanted = context.abilities.reduce(Uses {
            condition: PutCondition::None,
            checksum: None,
            algorithm: context.config.checksum.filter(|_| !copies),
        });
        let mut uses = wanted.clone();
        loop {
            let created = context
                .client
                .create_upload(&self.key, headers.clone(), uses.algorithm);
            match created.await {
                Ok(upload) => {
                    context.abilities.learn(&wanted, &uses);
                    return Ok(Begun {
                        upload,
                        checksum: uses.algorithm,
                    });
                }
                Err(error) => match context.abilities.without(&uses, &error) {
                    Some(reduced) => uses = reduced,
                    None => return Err(failed(error)),
                },
            }
        }
    }

    /// Sends the next part.
    pub(super) fn put(self: &Arc<Self>, body: Bytes, checksum: Option<Checksum>) {
        self.add(Source::Bytes(body, checksum));
    }

    /// Has S3 copy a range of an object into the next part.
    pub(super) fn copy(self: &Arc<Self>, source: Copied) {
        self.add(Source::Object(source));
    }

    fn add(self: &Arc<Self>, source: Source) {
        let settled = Settled::new();
        let number = {
            let mut parts = self.parts.lock();
            parts.push(settled.clone());
            PartNumber(u16::try_from(parts.len()).expect("the plan ends at 10,000 parts"))
        };
        let (this, pending) = (Arc::clone(self), self.context.begin());
        let in_flight = self.context.parts.enter(source.len());
        background::run(async move {
            let sent = this.send(number, source).await;
            drop(in_flight);
            if let Err(error) = &sent {
                this.failure.set(error);
            }
            let has_failed = sent.is_err();
            settled.settle(sent);
            if has_failed {
                this.abort().await;
            }
            drop(pending);
        });
    }

    async fn send(&self, number: PartNumber, source: Source) -> Result<Part, FsError> {
        let begun = self.begun.wait().await?;
        let client = &self.context.client;
        match source {
            Source::Bytes(body, checksum) => {
                let checksum = begun.checksum.and(checksum);
                let sent = client.put_part(&begun.upload, number, body, checksum);
                sent.await.map_err(failed)
            }
            Source::Object(copied) => {
                let leave = self.context.copies.acquire().await;
                let (source, range) = (copied.source(), copied.range.clone());
                let sent = client.copy_part(&begun.upload, number, source, range);
                let sent = sent.await.map_err(|error| copy_failed(error, &copied));
                drop(leave);
                sent
            }
        }
    }

    /// Makes the object of the parts, when all are there. On failure nothing is left.
    pub(super) async fn complete(&self, condition: PutCondition) -> Result<Stored, FsError> {
        let outcome = self.try_complete(condition).await;
        match &outcome {
            Ok(_) => {
                self.is_ended.store(true, Ordering::Release);
                if let Some(Ok(begun)) = self.begun.get() {
                    self.context.journal.ended(&begun.upload);
                }
            }
            Err(_) => self.abort().await,
        }
        outcome
    }

    async fn try_complete(&self, condition: PutCondition) -> Result<Stored, FsError> {
        let begun = self.begun.wait().await?;
        let settled: Vec<_> = self.parts.lock().clone();
        let mut parts = Vec::with_capacity(settled.len());
        for part in settled {
            parts.push(part.wait().await?);
        }
        let size = parts.iter().map(|part| part.size).sum();
        let abilities = &self.context.abilities;
        let wanted = abilities.reduce(Uses::condition(condition));
        let mut uses = wanted.clone();
        loop {
            let condition = uses.condition.clone();
            let client = &self.context.client;
            let completed = client.complete_upload(&begun.upload, parts.clone(), condition);
            match completed.await {
                Ok(output) => {
                    abilities.learn(&wanted, &uses);
                    let etag = output.etag;
                    return Ok(Stored { etag, size });
                }
                Err(error) => match abilities.without(&uses, &error) {
                    Some(reduced) => uses = reduced,
                    None if error.answer_was_lost => {
                        let client = &*self.context.client;
                        let stored = lost_answer::of_complete(client, &begun.upload, size).await;
                        return stored.ok_or_else(|| failed(error));
                    }
                    None => return Err(failed(error)),
                },
            }
        }
    }

    /// Has S3 forget it, as soon as its parts have come to rest; once, and not after it was completed.
    pub(super) async fn abort(&self) {
        if self.is_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let Ok(begun) = self.begun.wait().await else {
            return;
        };
        let mut next = 0;
        loop {
            let part = self.parts.lock().get(next).cloned();
            let Some(part) = part else { break };
            part.wait().await.ok();
            next += 1;
        }
        match self.context.client.abort_upload(&begun.upload).await {
            Ok(()) => self.context.journal.ended(&begun.upload),
            Err(error) if error.kind == ErrorKind::NoSuchUpload => {
                self.context.journal.ended(&begun.upload);
            }
            Err(error) => {
                tracing::warn!(key = %self.key, "an unfinished upload stays in the bucket: {error}");
            }
        }
    }
}
