//! One multipart upload: begun, filled part by part in any order, and completed or aborted.
//!
//! Each step runs in the background from its request on; parts are sent in parallel. Invariants:
//! only whole files are completed; an upload ends once; an upload is aborted only after all its
//! parts were answered, because S3 may keep a part that arrives behind an abort.
//!
//! An upload with a checkpoint outlives its attempt: the next one continues it, and sends no part
//! that S3 has already.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mountpoint_client::types::{
    Checksum, ChecksumAlgorithm, ETag, Key, ObjectHeaders, Part, PartNumber, PutCondition,
    Upload as OpenUpload, WriteToken,
};
use mountpoint_client::{ClientError, ErrorKind};
use tokio::sync::watch;

use super::checkpoint::{
    AttemptTurn, BegunUpload, FinishedPart, PartContent, UploadCheckpoint, may_continue,
};
use super::context::SendContext;
use super::copied_range::{CopiedRange, copy_failed};
use super::features::Uses;
use crate::mutate::completion_tags::Completed;
use crate::mutate::conditions::{Conditional, Proof};
use crate::mutate::fault::{Doubt, unknown};
use crate::mutate::own_write::{abandon, made_by};
use crate::operation::FsError;
use crate::sync::Mutex;
use crate::write::background::{self, SharedOutcome};
use crate::write::failure::{Failure, failed, not_made};
use crate::write::types::Stored;

/// An upload.
#[derive(Debug)]
pub(in crate::write) struct Upload {
    context: Arc<SendContext>,
    key: Key,
    failure: Arc<Failure>,
    begun: SharedOutcome<Result<Begun, FsError>>,
    /// The place where a later attempt finds the upload; without it, a failure aborts the upload.
    checkpoint: Option<Arc<UploadCheckpoint>>,
    /// The turn, held from the beginning until all parts were answered: no other attempt of the
    /// checkpoint sends parts meanwhile. The lock is a leaf.
    turn: Mutex<Option<AttemptTurn>>,
    /// Parts in their order. The lock is a leaf.
    parts: Mutex<Vec<SharedOutcome<Result<Part, FsError>>>>,
    /// The failure of a copy: no more copies are made.
    broken: OnceLock<FsError>,
    is_ended: AtomicBool,
    /// Whether its end is done: S3 has answered.
    is_over: watch::Sender<bool>,
}

/// The source of a part's bytes.
enum Source {
    Bytes(Bytes, Option<Checksum>),
    Object(CopiedRange),
}

/// The party that handles the failure of a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FailureOwner {
    /// The file fails, and the upload is aborted.
    File,
    /// The caller waits for the part and decides what its failure means.
    Caller,
}

/// An upload that S3 knows.
#[derive(Clone, Debug)]
struct Begun {
    upload: OpenUpload,
    checksum: Option<ChecksumAlgorithm>,
    /// The token of its object.
    token: Option<WriteToken>,
    /// Whether the mount's journal names it, so that the next mount aborts it.
    is_journaled: bool,
}

impl Upload {
    /// Begins an upload, which reports its failures to `failure`. An upload with `copies` of other
    /// objects has no checksums: S3 demands those of all parts or none, and some servers return
    /// none for copies.
    pub(in crate::write) fn begin(
        context: &Arc<SendContext>,
        key: &Key,
        failure: &Arc<Failure>,
        (copies, headers): (bool, ObjectHeaders),
        checkpoint: Option<Arc<UploadCheckpoint>>,
    ) -> Arc<Self> {
        let upload = Arc::new(Self {
            context: Arc::clone(context),
            key: key.clone(),
            failure: Arc::clone(failure),
            begun: SharedOutcome::new(),
            checkpoint,
            turn: Mutex::default(),
            parts: Mutex::default(),
            broken: OnceLock::new(),
            is_ended: AtomicBool::new(false),
            is_over: watch::Sender::new(false),
        });
        let (this, pending) = (Arc::clone(&upload), context.begin());
        background::run(async move {
            let begun = this.open(copies, headers).await;
            if let Err(error) = &begun {
                this.context.permission.failed(&this.key, error);
                this.failure.set(error);
            }
            this.begun.settle(begun);
            drop(pending);
        });
        upload
    }

    /// Continues the upload of the checkpoint, or creates one that the next process will find.
    async fn open(&self, copies: bool, headers: ObjectHeaders) -> Result<Begun, FsError> {
        let headers = headers.with_token();
        let algorithm = self.context.config.checksum.filter(|_| !copies);
        let wanted = self.context.features.reduce(Uses::algorithm(algorithm));
        if let Some(checkpoint) = &self.checkpoint {
            *self.turn.lock() = Some(checkpoint.turn().await);
        }
        let continued = self.continued(&headers, wanted.algorithm).await?;
        if let Some(begun) = continued {
            return Ok(begun);
        }
        let token = headers.token.clone();
        let (upload, checksum) = self.create(wanted, headers.clone()).await?;
        let is_noted = match &self.checkpoint {
            Some(checkpoint) => {
                let upload = upload.clone();
                let begun = BegunUpload {
                    upload,
                    headers,
                    checksum,
                };
                checkpoint.begin(begun).await
            }
            None => false,
        };
        if !is_noted {
            self.context.journal.begun(&upload).await;
        }
        Ok(Begun {
            upload,
            checksum,
            token,
            is_journaled: !is_noted,
        })
    }

    /// The upload of the checkpoint, if it is one of this file. Another one is aborted.
    async fn continued(
        &self,
        headers: &ObjectHeaders,
        checksum: Option<ChecksumAlgorithm>,
    ) -> Result<Option<Begun>, FsError> {
        let Some(checkpoint) = &self.checkpoint else {
            return Ok(None);
        };
        let Some(found) = checkpoint.begun() else {
            return Ok(None);
        };
        if found.is_for(&self.key, headers, checksum) {
            return Ok(Some(Begun {
                upload: found.upload,
                checksum: found.checksum,
                token: found.headers.token,
                is_journaled: !checkpoint.is_noted(),
            }));
        }
        match checkpoint.abort_now(&self.context).await {
            Err(error) if may_continue(&error) => Err(error),
            Err(error) => {
                let key = &found.upload.key;
                tracing::warn!(%key, "an unfinished upload stays in the bucket: {error}");
                checkpoint.end(&found.upload);
                Ok(None)
            }
            Ok(()) => Ok(None),
        }
    }

    /// Creates an upload. Returns it with the checksum of its parts.
    async fn create(
        &self,
        wanted: Uses,
        headers: ObjectHeaders,
    ) -> Result<(OpenUpload, Option<ChecksumAlgorithm>), FsError> {
        let context = &self.context;
        let mut uses = wanted;
        loop {
            let since = context.clock.now();
            let created = context
                .client
                .create_upload(&self.key, headers.clone(), uses.algorithm);
            match created.await {
                Ok(upload) => {
                    context.parts.upload_begun(context.clock.now() - since);
                    context.features.learn(wanted, uses);
                    return Ok((upload, uses.algorithm));
                }
                Err(error) => match context.features.without(uses, &error) {
                    Some(reduced) => uses = reduced,
                    None => return Err(failed(error)),
                },
            }
        }
    }

    /// Sends the next part.
    pub(in crate::write) fn put(
        self: &Arc<Self>,
        body: Bytes,
        checksum: Option<Checksum>,
    ) -> SharedOutcome<Result<Part, FsError>> {
        self.add(Source::Bytes(body, checksum), FailureOwner::File)
    }

    /// Sends part `number` once more, in the place of the one that S3 has.
    pub(in crate::write) fn put_again(
        self: &Arc<Self>,
        number: u16,
        body: Bytes,
        checksum: Option<Checksum>,
    ) {
        let settled = SharedOutcome::new();
        self.parts.lock()[usize::from(number) - 1] = settled.clone();
        let source = Source::Bytes(body, checksum);
        self.begin_part(PartNumber(number), source, FailureOwner::File, settled);
    }

    /// Forgets the parts behind the first `count`: S3 drops them at the completion.
    pub(in crate::write) fn cut(&self, count: u16) {
        self.parts.lock().truncate(usize::from(count));
    }

    /// Makes S3 copy a range of an object into the next part.
    pub(in crate::write) fn copy(self: &Arc<Self>, source: CopiedRange) {
        self.add(Source::Object(source), FailureOwner::File);
    }

    /// As [`Self::copy`], for a caller that waits for the outcome. The upload is not completed
    /// without the part.
    pub(in crate::write) fn copy_awaited(
        self: &Arc<Self>,
        source: CopiedRange,
    ) -> SharedOutcome<Result<Part, FsError>> {
        self.add(Source::Object(source), FailureOwner::Caller)
    }

    fn add(
        self: &Arc<Self>,
        source: Source,
        failure_owner: FailureOwner,
    ) -> SharedOutcome<Result<Part, FsError>> {
        let settled = SharedOutcome::new();
        let number = {
            let mut parts = self.parts.lock();
            parts.push(settled.clone());
            PartNumber(u16::try_from(parts.len()).expect("the plan ends at 10,000 parts"))
        };
        self.begin_part(number, source, failure_owner, settled.clone());
        settled
    }

    /// Sends a part in the background.
    fn begin_part(
        self: &Arc<Self>,
        number: PartNumber,
        source: Source,
        failure_owner: FailureOwner,
        settled: SharedOutcome<Result<Part, FsError>>,
    ) {
        let (this, pending) = (Arc::clone(self), self.context.begin());
        // A copy on the server takes neither memory nor network.
        let in_flight = match &source {
            Source::Bytes(..) => {
                Some((self.context.parts.enter(), self.context.pressure.sending()))
            }
            Source::Object(_) => None,
        };
        background::run(async move {
            let sent = this.send(number, source).await;
            drop(in_flight);
            let failed = sent
                .as_ref()
                .err()
                .filter(|_| failure_owner == FailureOwner::File)
                .cloned();
            if let Some(error) = &failed {
                this.context.permission.failed(&this.key, error);
                this.failure.set(error);
            }
            settled.settle(sent);
            if let Some(error) = &failed {
                this.give_up(error).await;
            }
            drop(pending);
        });
    }

    async fn send(&self, number: PartNumber, source: Source) -> Result<Part, FsError> {
        let begun = self.begun.wait().await?;
        let client = &self.context.client;
        let checkpoint = self.checkpoint.as_ref();
        let content = checkpoint.map(|_| source.content());
        if let (Some(checkpoint), Some(content)) = (checkpoint, &content) {
            if let Some(part) = checkpoint.known(number, source.len(), content) {
                return Ok(part);
            }
            checkpoint.sending(number);
        }
        let sent = match source {
            Source::Bytes(body, checksum) => {
                let checksum = begun.checksum.and(checksum);
                let sent = client.put_part(&begun.upload, number, body, checksum);
                sent.await.map_err(failed)
            }
            Source::Object(copied) => {
                let leave = self.context.copies.acquire().await;
                // The wait may have been long.
                if let Some(error) = self.broken.get().cloned().or_else(|| self.failure.get()) {
                    return Err(error);
                }
                let (source, range) = (copied.source(), copied.range.clone());
                let sent = client.copy_part(&begun.upload, number, source, range);
                let sent = sent.await.map_err(|error| copy_failed(error, &copied));
                if let Err(error) = &sent {
                    // Set before the next copy takes the permit.
                    self.broken.get_or_init(|| error.clone());
                }
                drop(leave);
                sent
            }
        };
        if let (Ok(part), Some(checkpoint), Some(content)) = (&sent, checkpoint, content) {
            let part = part.clone();
            checkpoint.finished(&begun.upload, FinishedPart { part, content });
        }
        sent
    }

    /// Makes the object of the parts, when S3 has all of them. A failure leaves nothing.
    pub(in crate::write) async fn complete(
        &self,
        condition: PutCondition,
    ) -> Result<Stored, FsError> {
        let outcome = self.try_complete(condition).await;
        match &outcome {
            Ok(_) => {
                self.is_ended.store(true, Ordering::Release);
                if let Some(Ok(begun)) = self.begun.get() {
                    self.ended(&begun);
                }
                self.end_turn();
            }
            Err(error) => self.give_up(error).await,
        }
        outcome
    }

    /// S3 has forgotten the upload.
    fn ended(&self, begun: &Begun) {
        if begun.is_journaled {
            self.context.journal.ended(&begun.upload);
        }
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.end(&begun.upload);
        }
    }

    /// The end is done: another attempt of the checkpoint may begin.
    fn end_turn(&self) {
        drop(self.turn.lock().take());
        self.is_over.send_replace(true);
    }

    async fn try_complete(&self, condition: PutCondition) -> Result<Stored, FsError> {
        let begun = self.begun.wait().await?;
        let parts = self.sent_parts().await?;
        let client = &*self.context.client;
        let complete = |condition| client.complete_upload(&begun.upload, parts.clone(), condition);
        // A completed upload cannot be completed again.
        let on = (Conditional::Complete, &self.key);
        let conditions = self.context.mutator.conditions();
        let completed = conditions.make(client, on, (&condition, Proof::Look), complete);
        let size = size_of(&parts);
        let error = match completed.await {
            Ok(output) => {
                let etag = self.completed(&begun, output.etag).await;
                return Ok(Stored { etag, size });
            }
            Err(error) => error,
        };
        if let Some(etag) = self.ambiguous(&begun, &error).await? {
            return Ok(Stored { etag, size });
        }
        let error = match self.stays_behind(&error) {
            true => error,
            false => explain(error, &parts),
        };
        Err(not_made(error, &condition, &self.key))
    }

    /// All parts in their order, when S3 has them.
    async fn sent_parts(&self) -> Result<Vec<Part>, FsError> {
        let outcomes: Vec<_> = self.parts.lock().clone();
        let mut parts = Vec::with_capacity(outcomes.len());
        for part in outcomes {
            parts.push(part.wait().await?);
        }
        Ok(parts)
    }

    /// The ETag of the object that an answered completion made.
    async fn completed(&self, begun: &Begun, etag: ETag) -> ETag {
        let completed = Completed {
            key: &self.key,
            etag,
            token: begun.token.as_ref(),
        };
        let tags = &self.context.mutator.completion_tags;
        tags.known_by(&*self.context.client, completed).await
    }

    /// The object's ETag, if the completion that failed with `error` has made it nevertheless. An
    /// upload without an object stays for the next attempt, if one may continue it.
    async fn ambiguous(&self, begun: &Begun, error: &ClientError) -> Result<Option<ETag>, FsError> {
        let doubt = Doubt::of(error);
        // This mount may have aborted it.
        if doubt.is_none() || self.is_ended.load(Ordering::Acquire) {
            return Ok(None);
        }
        let client = &*self.context.client;
        let abandoned = match self.stays_behind(error) {
            true => Ok(()),
            false => abandon(client, &begun.upload).await,
        };
        let made = made_by(client, &self.key, begun.token.as_ref(), error).await?;
        match (made, abandoned) {
            (Some(there), _) => Ok(Some(there.etag)),
            // The server may complete it yet.
            (None, Err(why)) if doubt == Some(Doubt::Lost) => Err(unknown(error, why).into()),
            (None, _) => Ok(None),
        }
    }

    /// Whether a later attempt may complete the upload, whose completion failed with `error`.
    fn stays_behind(&self, error: &ClientError) -> bool {
        self.checkpoint.is_some() && error.kind.is_retryable()
    }

    /// Ends this attempt behind `error`, when all its parts were answered. The upload is aborted
    /// unless a later attempt may continue it.
    pub(in crate::write) async fn give_up(&self, error: &FsError) {
        if self.checkpoint.is_some() && may_continue(error) {
            self.is_ended.store(true, Ordering::Release);
            self.begun.wait().await.ok();
            self.answered().await;
            self.end_turn();
        } else {
            self.abort().await;
        }
    }

    /// Ends this attempt at the end of the mount: an upload that the next mount continues stays.
    pub(in crate::write) async fn end_with_mount(&self) {
        let checkpoint = self.checkpoint.as_ref();
        if !checkpoint.is_some_and(|checkpoint| checkpoint.is_noted()) {
            self.abort().await;
        }
    }

    /// Aborts the upload when all its parts were answered; once, and not after its completion.
    /// Returns when its end is done, also if another caller has begun that.
    pub(in crate::write) async fn abort(&self) {
        if self.is_ended.swap(true, Ordering::AcqRel) {
            let mut is_over = self.is_over.subscribe();
            is_over.wait_for(|is_over| *is_over).await.ok();
            return;
        }
        let Ok(begun) = self.begun.wait().await else {
            self.end_turn();
            return;
        };
        self.answered().await;
        match self.context.client.abort_upload(&begun.upload).await {
            Ok(()) => self.ended(&begun),
            Err(error) if error.kind == ErrorKind::NoSuchUpload => self.ended(&begun),
            Err(error) => {
                tracing::warn!(key = %self.key, "an unfinished upload stays in the bucket: {error}");
            }
        }
        self.end_turn();
    }

    /// Returns when no part is in flight.
    pub(in crate::write) async fn answered(&self) {
        let mut next = 0;
        loop {
            let part = self.parts.lock().get(next).cloned();
            let Some(part) = part else { break };
            part.wait().await.ok();
            next += 1;
        }
    }
}

impl Source {
    /// Bytes of the part.
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(body, _) => body.len() as u64,
            Self::Object(copied) => copied.len(),
        }
    }

    /// The content of the part.
    fn content(&self) -> PartContent {
        match self {
            Self::Bytes(body, checksum) => PartContent::of_bytes(body, *checksum),
            Self::Object(copied) => PartContent::of_copy(copied),
        }
    }
}

/// The error of a refused completion, with a hint if the sizes of `parts` or another client may be
/// the reason.
fn explain(mut error: ClientError, parts: &[Part]) -> ClientError {
    if error.met_conflict && error.kind != ErrorKind::PreconditionFailed {
        error.message.push_str(
            "; another client changed the object just then, and the parts are not held any more: write the file again",
        );
    }
    if error.kind == ErrorKind::InvalidRequest && !are_equally_large(parts) {
        error.message.push_str(
            "; the parts of this file are not equally large, which some servers ask for: parts of a fixed \
             --write-part-size are, where nothing is copied on the server (appending, or going on after fsync)",
        );
    }
    error
}

/// Whether all parts but the last have one size, and the last is not larger.
fn are_equally_large(parts: &[Part]) -> bool {
    let Some((last, others)) = parts.split_last() else {
        return true;
    };
    let first = others.first().unwrap_or(last).size;
    last.size <= first && others.iter().all(|part| part.size == first)
}

/// Bytes of all `parts` together.
fn size_of(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_unequal_parts_names_the_flag() {
        let says = |kind: ErrorKind, sizes: &[u64]| {
            let parts = sizes.iter().zip(1..).map(|(size, number)| Part {
                number: PartNumber(number),
                etag: ETag::from_header("\"e\""),
                size: *size,
                checksum: None,
            });
            let parts: Vec<_> = parts.collect();
            explain(ClientError::new(kind, "InvalidPart"), &parts)
                .message
                .contains("--write-part-size")
        };
        let refused = || ErrorKind::InvalidRequest;
        for (sizes, expected) in [
            (&[][..], false),
            (&[7], false),
            (&[7, 7], false),
            (&[7, 7, 3], false),
            (&[7, 8], true),
            (&[7, 6, 7], true),
            (&[8, 7, 7], true),
        ] {
            assert_eq!(says(refused(), sizes), expected, "{sizes:?}");
        }
        assert!(!says(ErrorKind::Denied, &[7, 8]));
    }
}
