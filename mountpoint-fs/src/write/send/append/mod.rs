//! An object that grows while its file is written: each part is appended to it, one after the
//! other.
//!
//! For directory buckets. The first part of a new file is a PutObject; each further one is put
//! behind the end of the object that the one before has made, on the condition that version and
//! length are unchanged. So the object is always the beginning of the file, and no bytes of another
//! client are ever replaced. Appended bytes carry no token, so that nothing tells whose they are:
//! if the answer to a part was lost, the file fails.
//!
//! Invariants: one part of a file is in flight at a time; after a failed part none is sent. Each
//! step runs in the background from its request on.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::ErrorKind;
use mountpoint_client::types::{
    AppendRequest, Checksum, ChecksumAlgorithm, Key, ObjectHeaders, PutCondition,
};

use super::context::SendContext;
use super::features::Uses;
use super::put::put;
use crate::mutate::fault::{Doubt, unknown};
use crate::operation::FsError;
use crate::write::background::{self, SharedOutcome};
use crate::write::failure::{Failure, failed, not_made};
use crate::write::types::{Stored, WriteObserver};

/// The growing object of a file.
#[derive(Debug)]
pub(in crate::write) struct AppendUpload {
    /// The version that the bucket holds, without `parts`; `None` before there is an object.
    stored: Option<Stored>,
    /// Parts that are in flight or wait, each with the object that it makes.
    parts: VecDeque<SharedOutcome<Result<Stored, FsError>>>,
    /// The checksum algorithm of the object, which every part must use.
    algorithm: Option<ChecksumAlgorithm>,
}

/// A part's object, and the observers of its outcome.
pub(in crate::write) struct AppendedPart {
    pub(in crate::write) context: Arc<SendContext>,
    pub(in crate::write) key: Key,
    pub(in crate::write) failure: Arc<Failure>,
    pub(in crate::write) observer: Arc<dyn WriteObserver>,
    /// For the part that makes the object.
    pub(in crate::write) condition: PutCondition,
    /// As `condition`.
    pub(in crate::write) headers: ObjectHeaders,
}

impl AppendUpload {
    /// The upload of an object that does not exist yet.
    pub(in crate::write) fn new(algorithm: Option<ChecksumAlgorithm>) -> Self {
        Self {
            stored: None,
            parts: VecDeque::new(),
            algorithm,
        }
    }

    /// The upload behind an existing object.
    pub(in crate::write) fn at(stored: Stored, algorithm: Option<ChecksumAlgorithm>) -> Self {
        Self {
            stored: Some(stored),
            ..Self::new(algorithm)
        }
    }

    /// The checksum algorithm that every part must use.
    pub(in crate::write) fn algorithm(&self) -> Option<ChecksumAlgorithm> {
        self.algorithm
    }

    /// The part that was added last, if it is in flight or has failed.
    pub(in crate::write) fn last(&self) -> Option<SharedOutcome<Result<Stored, FsError>>> {
        self.parts.back().cloned()
    }

    /// The part to wait for before another one is filled; `None` if there is room.
    pub(in crate::write) fn turn(&mut self) -> Option<SharedOutcome<Result<Stored, FsError>>> {
        self.look();
        let is_full = self.parts.len() >= GROWTH_PARTS_MAX;
        self.parts.front().filter(|_| is_full).cloned()
    }

    /// Appends `body`, which is not empty unless it makes the object.
    pub(in crate::write) fn add(
        &mut self,
        part: AppendedPart,
        body: Bytes,
        checksum: Option<Checksum>,
    ) {
        self.look();
        let settled = SharedOutcome::new();
        let (before, stored) = (self.parts.back().cloned(), self.stored.clone());
        self.parts.push_back(settled.clone());
        let pending = part.context.begin();
        let sending = part.context.pressure.sending();
        background::run(async move {
            let before = match before {
                Some(before) => before.wait().await.map(Some),
                None => Ok(stored),
            };
            let outcome = match before {
                Ok(before) => part.send(before, body, checksum).await,
                Err(error) => {
                    drop(body);
                    Err(error)
                }
            };
            drop(sending);
            match &outcome {
                Ok(stored) => part.observer.grown(stored),
                Err(error) => part.failure.set(error),
            }
            settled.settle(outcome);
            drop(pending);
        });
    }

    /// Waits for all parts. Returns the object.
    pub(in crate::write) fn all(&self) -> impl Future<Output = Result<Stored, FsError>> + use<> {
        let (last, stored) = (self.parts.back().cloned(), self.stored.clone());
        async move {
            match last {
                Some(last) => last.wait().await,
                None => Ok(stored.expect("a part was added")),
            }
        }
    }

    /// Notes that the bytes of the object have another version now.
    pub(in crate::write) fn metadata_replaced(&mut self, now: &Stored) {
        self.look();
        if self.parts.is_empty() {
            self.stored = Some(now.clone());
        }
    }

    /// Forgets stored parts. A failed part stays: the parts behind it must not be sent.
    fn look(&mut self) {
        while let Some(Ok(stored)) = self.parts.front().and_then(SharedOutcome::get) {
            self.stored = Some(stored);
            self.parts.pop_front();
        }
    }
}

impl AppendedPart {
    async fn send(
        &self,
        before: Option<Stored>,
        body: Bytes,
        checksum: Option<Checksum>,
    ) -> Result<Stored, FsError> {
        // The part may have waited for long.
        if let Some(error) = self.failure.get() {
            return Err(error);
        }
        let context = &self.context;
        let _in_flight = context.parts.enter();
        match before {
            Some(before) => append(context, &self.key, before, body, checksum).await,
            None => {
                let (condition, headers) = (self.condition.clone(), self.headers.clone());
                let body = (body, checksum);
                let put = put(context, &self.key, body, (condition, true), headers);
                put.await
            }
        }
    }
}

/// Puts `body` behind the end of the version `before` of the object.
async fn append(
    context: &SendContext,
    key: &Key,
    mut before: Stored,
    body: Bytes,
    checksum: Option<Checksum>,
) -> Result<Stored, FsError> {
    let size = before.size + body.len() as u64;
    let checksum = context.features.reduce(Uses::checksum(checksum)).checksum;
    let mut was_renewed = false;
    loop {
        let request = AppendRequest {
            key: key.clone(),
            offset: before.size,
            if_match: before.etag.clone(),
            body: body.clone(),
            checksum,
        };
        let error = match context.client.append(request).await {
            Ok(output) => {
                let etag = output.etag;
                return Ok(Stored { etag, size });
            }
            Err(error) => error,
        };
        if Doubt::of(&error) == Some(Doubt::Lost) {
            return Err(unknown(&error, NO_TOKEN).into());
        }
        if error.kind == ErrorKind::TooManyParts && !was_renewed {
            tracing::info!(%key, "it was appended to as often as S3 allows: the server copies it onto itself");
            before = renew(context, key, &before).await?;
            was_renewed = true;
            continue;
        }
        return Err(not_made(error, &PutCondition::Match(before.etag), key));
    }
}

/// Makes the object one of a single part, by a copy of it onto itself.
async fn renew(context: &SendContext, key: &Key, stored: &Stored) -> Result<Stored, FsError> {
    let largest = context.config.copy_limits.whole_max;
    if stored.size > largest {
        return Err(FsError::TooLarge(format!(
            "{key} was appended to as often as S3 allows, and is larger than the {} GiB that it copies onto itself \
             at once: copy the file, and append to the copy",
            largest >> 30
        )));
    }
    let details = context.client.head_details(key).await.map_err(failed)?;
    if !details.info.etag.matches(&stored.etag) {
        return Err(FsError::Stale(format!(
            "{key} was replaced while it was appended to"
        )));
    }
    let seen = (&stored.etag, stored.size);
    let etag = context.mutator.replace_headers(key, seen, details.headers);
    Ok(Stored {
        etag: etag.await?,
        size: stored.size,
    })
}

/// Why nothing tells whether bytes were appended.
const NO_TOKEN: &str = "another client may have appended the same bytes";

/// Parts of one file that are being appended to its object or wait for that. One in flight, one
/// behind it.
///
/// Appends are sequential, so more parts would only hold memory.
const GROWTH_PARTS_MAX: usize = 2;
