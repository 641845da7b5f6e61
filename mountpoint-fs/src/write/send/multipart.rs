//! One multipart upload: begun, filled part by part in any order, and completed or aborted.
//!
//! Each step runs in the background from its request on; parts are sent in parallel. Invariants:
//! only whole files are completed; an upload ends once; an upload is aborted only after all its
//! parts were answered, because S3 may keep a part that arrives behind an abort.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mountpoint_client::types::{
    Checksum, ChecksumAlgorithm, ETag, Key, ObjectHeaders, Part, PartNumber, PutCondition,
    Upload as OpenUpload,
};
use mountpoint_client::{ClientError, ErrorKind};

use super::ambiguous_outcome;
use super::context::SendContext;
use super::copied_range::{CopiedRange, copy_failed};
use super::features::{Storing, Uses};
use super::optimistic_create::ask_first;
use crate::mutate::completion_tags::Completed;
use crate::mutate::fault::Doubt;
use crate::mutate::lost_upload::IntendedObject;
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
    /// Parts in their order. The lock is a leaf.
    parts: Mutex<Vec<SharedOutcome<Result<Part, FsError>>>>,
    /// The failure of a copy: no more copies are made.
    broken: OnceLock<FsError>,
    is_ended: AtomicBool,
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
}

impl Upload {
    /// Begins an upload, which reports its failures to `failure`. An upload with `copies` of other
    /// objects has no checksums: S3 demands those of all parts or none, and some servers return
    /// none for copies.
    pub(in crate::write) fn begin(
        context: &Arc<SendContext>,
        key: &Key,
        failure: &Arc<Failure>,
        copies: bool,
        headers: ObjectHeaders,
    ) -> Arc<Self> {
        let upload = Arc::new(Self {
            context: Arc::clone(context),
            key: key.clone(),
            failure: Arc::clone(failure),
            begun: SharedOutcome::new(),
            parts: Mutex::default(),
            broken: OnceLock::new(),
            is_ended: AtomicBool::new(false),
        });
        let (this, pending) = (Arc::clone(&upload), context.begin());
        background::run(async move {
            let begun = this.create(copies, headers).await;
            match &begun {
                Ok(begun) => this.context.journal.begun(&begun.upload).await,
                Err(error) => {
                    this.context.permission.failed(&this.key, error);
                    this.failure.set(error);
                }
            }
            this.begun.settle(begun);
            drop(pending);
        });
        upload
    }

    async fn create(&self, copies: bool, headers: ObjectHeaders) -> Result<Begun, FsError> {
        let context = &self.context;
        let wanted = context.features.reduce(Uses {
            condition: PutCondition::None,
            checksum: None,
            algorithm: context.config.checksum.filter(|_| !copies),
        });
        let mut uses = wanted.clone();
        loop {
            let since = context.clock.now();
            let created = context
                .client
                .create_upload(&self.key, headers.clone(), uses.algorithm);
            match created.await {
                Ok(upload) => {
                    context.parts.upload_begun(context.clock.now() - since);
                    context.features.learn(&wanted, &uses);
                    return Ok(Begun {
                        upload,
                        checksum: uses.algorithm,
                    });
                }
                Err(error) => match context.features.without(&uses, &error) {
                    Some(reduced) => uses = reduced,
                    None => return Err(failed(error)),
                },
            }
        }
    }

    /// Sends the next part.
    pub(in crate::write) fn put(self: &Arc<Self>, body: Bytes, checksum: Option<Checksum>) {
        self.add(Source::Bytes(body, checksum), FailureOwner::File);
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
        let (this, pending) = (Arc::clone(self), self.context.begin());
        // A copy on the server takes neither memory nor network.
        let in_flight = match &source {
            Source::Bytes(..) => {
                Some((self.context.parts.enter(), self.context.pressure.sending()))
            }
            Source::Object(_) => None,
        };
        let outcome = settled.clone();
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
            if failed.is_some() {
                this.abort().await;
            }
            drop(pending);
        });
        outcome
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
        }
    }

    /// Makes the object of the parts, when S3 has all of them. A failure leaves nothing. `old` is
    /// the replaced version, if it is known.
    pub(in crate::write) async fn complete(
        &self,
        condition: PutCondition,
        old: Option<ETag>,
    ) -> Result<Stored, FsError> {
        let outcome = self.try_complete(condition, old).await;
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

    async fn try_complete(
        &self,
        condition: PutCondition,
        old: Option<ETag>,
    ) -> Result<Stored, FsError> {
        let begun = self.begun.wait().await?;
        let parts = self.sent_parts().await?;
        if condition == PutCondition::Absent {
            // Some servers ignore the condition of a completion.
            let asked = ask_first(&self.context, &self.key, Storing::InParts);
            asked.await?;
        }
        let features = &self.context.features;
        let wanted = features.reduce(Uses::condition(condition));
        let mut uses = wanted.clone();
        loop {
            let condition = uses.condition.clone();
            let client = &self.context.client;
            let completed = client.complete_upload(&begun.upload, parts.clone(), condition);
            match completed.await {
                Ok(output) => {
                    features.learn(&wanted, &uses);
                    return Ok(self.completed(output.etag, &parts, old.as_ref()).await);
                }
                Err(error) => match features.without(&uses, &error) {
                    Some(reduced) => uses = reduced,
                    None => {
                        features.refused(Storing::InParts, &uses, &error);
                        let made = self.ambiguous(&begun.upload, &parts, old.as_ref(), &error);
                        if let Some(stored) = made.await? {
                            return Ok(stored);
                        }
                        let error = explain(error, &parts);
                        return Err(not_made(error, &uses.condition, &self.key));
                    }
                },
            }
        }
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

    /// The version that an answered completion made.
    async fn completed(&self, etag: ETag, parts: &[Part], old: Option<&ETag>) -> Stored {
        let completed = Completed {
            key: &self.key,
            etag,
            parts,
            old,
        };
        let tags = &self.context.mutator.completion_tags;
        let etag = tags.known_by(&*self.context.client, completed).await;
        let size = size_of(parts);
        Stored { etag, size }
    }

    /// The object, if the completion that failed with `error` has made it nevertheless.
    async fn ambiguous(
        &self,
        upload: &OpenUpload,
        parts: &[Part],
        old: Option<&ETag>,
        error: &ClientError,
    ) -> Result<Option<Stored>, FsError> {
        let Some(doubt) = self.doubt(error) else {
            return Ok(None);
        };
        let wanted = IntendedObject {
            size: size_of(parts),
            parts,
            old,
            doubt,
        };
        let client = &*self.context.client;
        let stored = ambiguous_outcome::of_complete(client, upload, wanted, error).await;
        Ok(stored?)
    }

    /// The reason why a completion with this failure may have been done nevertheless; `None` if the
    /// upload is gone because this mount has aborted it.
    fn doubt(&self, error: &ClientError) -> Option<Doubt> {
        let is_unreadable = error.kind == ErrorKind::InvalidResponse;
        let doubt = Doubt::of(error).or_else(|| is_unreadable.then_some(Doubt::Lost));
        doubt.filter(|_| !self.is_ended.load(Ordering::Acquire))
    }

    /// Aborts the upload when all its parts were answered; once, and not after its completion.
    pub(in crate::write) async fn abort(&self) {
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
