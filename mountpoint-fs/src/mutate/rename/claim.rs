//! The claim of a directory's new name: of several hosts that rename to it, one goes on.
//!
//! A claim is an object at the key of the directory's marker, made on the condition that nobody has
//! changed what was seen there, with bytes and a token of its own. So its ETag is that of no other
//! claim. It lasts until all is copied, and becomes the directory's marker, or is removed. A
//! host that finds the claim of another one leaves the name alone, for as long as that other host
//! may go on with its rename.

use std::time::SystemTime;

use bytes::Bytes;
use mountpoint_client::types::{
    CopyHeaders, CopySource, ETag, Key, ObjectDetails, ObjectHeaders, PutCondition, PutOutput,
    WriteToken,
};
use mountpoint_client::{ClientError, ErrorKind};

use super::super::Mutator;
use super::super::conditions::{Conditional, Proof};
use super::super::directory::marker;
use super::super::fault::{PUT, failed};
use super::super::own_write::settled;
use crate::clock::Clock;
use crate::journal::RENAME_REMEMBERED;
use crate::operation::FsError;

/// A claim of this host.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) key: Key,
    pub(super) etag: ETag,
    /// Whether no other object has its ETag, and no other host can take the place unseen.
    is_sure: bool,
    token: WriteToken,
    /// The headers of the marker that it has replaced.
    replaced: Option<ObjectHeaders>,
}

impl Claim {
    /// Claims the directory `to`, which has the marker `seen`, for the rename with `token`.
    ///
    /// [`FsError::NotEmpty`] if another host has claimed it, or is faster. `None` if the server
    /// takes no such object.
    pub(super) async fn make(
        mutator: &Mutator,
        to: &str,
        token: &WriteToken,
        seen: Option<ObjectDetails>,
    ) -> Result<Option<Self>, FsError> {
        let key = marker(to)?;
        if let Some(there) = seen.as_ref().filter(|there| is_claim(there)) {
            if there.token.as_ref() == Some(token) {
                return Ok(Some(Self {
                    key,
                    etag: there.info.etag.clone(),
                    is_sure: false,
                    token: token.clone(),
                    replaced: None,
                }));
            }
            refuse_claimed(&mutator.clock, there)?;
        }
        let wanted = condition_on(seen.as_ref());
        // Some servers take no bytes there.
        for body in [
            Bytes::copy_from_slice(token.as_str().as_bytes()),
            Bytes::new(),
        ] {
            let put = |condition| mutator.put(&key, body.clone(), condition, claim_headers(token));
            // Behind the claim it is looked at again.
            let on = (Conditional::Put, &key);
            let answer = mutator.on_condition(on, (&wanted, Proof::None), put).await;
            match settled(&*mutator.client, &key, Some(token), answer).await {
                Ok(etag) => {
                    let etag = prove_with(mutator, (&key, token), (etag, &wanted), put).await;
                    let keeps = mutator.conditions.keeps(Conditional::Put, &wanted);
                    return Ok(Some(Self {
                        etag,
                        key,
                        is_sure: !body.is_empty() && keeps,
                        token: token.clone(),
                        replaced: seen.map(|there| there.headers),
                    }));
                }
                Err(error) if is_taken(&error) => {
                    tracing::info!(to, "another host was faster to give a directory this name");
                    return Err(FsError::NotEmpty);
                }
                Err(error) => match error.kind {
                    ErrorKind::InvalidRequest | ErrorKind::Unsupported => {
                        tracing::info!(to, "the server takes no such claim: {error}");
                    }
                    _ => return Err(failed(error, PUT)),
                },
            }
        }
        Ok(None)
    }

    /// Checks that the name is still claimed where a request on a condition does not: the server
    /// keeps none, or the claim has the ETag of others.
    pub(super) async fn check(&self, mutator: &Mutator) -> Result<(), FsError> {
        match self.is_sure || self.is_held(mutator).await? {
            true => Ok(()),
            false => Err(FsError::NotEmpty),
        }
    }

    /// Whether the directory is still claimed by this claim.
    async fn is_held(&self, mutator: &Mutator) -> Result<bool, FsError> {
        let there = mutator.details(&self.key).await?;
        Ok(there.is_some_and(|there| there.token.as_ref() == Some(&self.token)))
    }

    /// The rename has succeeded: the marker that was there does not come back.
    pub(super) fn forget_replaced(&mut self) {
        self.replaced = None;
    }

    /// Gives the name back as it was, unless requests fail. Returns whether no claim is left.
    pub(super) async fn release(self, mutator: &Mutator) -> bool {
        let released = self.try_release(mutator).await;
        let released = released.inspect_err(|error| {
            tracing::warn!("the claim of a rename stays in the bucket: {error}");
        });
        released.is_ok()
    }

    /// Gives the name back as it was. Returns whether the claim was still there.
    pub(super) async fn try_release(self, mutator: &Mutator) -> Result<bool, FsError> {
        if !self.is_held(mutator).await? {
            return Ok(false);
        }
        let Some(headers) = self.replaced else {
            mutator.deleter.delete(&self.key).await?;
            return Ok(true);
        };
        let wanted = PutCondition::Match(self.etag);
        match put_marker(mutator, &self.key, headers, &wanted).await {
            Ok(()) => Ok(true),
            Err(FsError::NotEmpty) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Sees by the claim `key` whether the server keeps conditions: a claim holds nothing that a
/// trial could lose. Returns its version behind that.
async fn prove_with<F: Future<Output = Result<PutOutput, ClientError>>>(
    mutator: &Mutator,
    (key, token): (&Key, &WriteToken),
    (mut etag, wanted): (ETag, &PutCondition),
    put: impl Fn(PutCondition) -> F,
) -> ETag {
    // Without an answer the claim is looked at.
    let made = mutator
        .conditions
        .prove(Conditional::Put, wanted, put)
        .await;
    if let Ok(Some(made)) = made {
        etag = made.etag;
    }
    let copy = |condition| {
        let source = CopySource {
            key: key.clone(),
            if_match: None,
        };
        let headers = claim_headers(token);
        mutator
            .client
            .copy(source, key, condition, CopyHeaders::New(headers))
    };
    // A server that makes no such copy says so again for the first object.
    let absent = PutCondition::Absent;
    let made = mutator.conditions.prove(Conditional::Copy, &absent, copy);
    match made.await {
        Ok(Some(made)) => etag = made.etag,
        // The refusal was that of the condition: no version of a source was named.
        Ok(None) => mutator
            .conditions
            .believe_refusal(Conditional::Copy, &absent),
        Err(_) => {}
    }
    etag
}

/// Refuses the directory that a living rename of another host has claimed.
pub(super) fn refuse_claimed(clock: &Clock, there: &ObjectDetails) -> Result<(), FsError> {
    if !is_claim(there) {
        return Ok(());
    }
    let age = clock.wall().duration_since(there.info.last_modified);
    if age.is_ok_and(|age| age > RENAME_REMEMBERED) {
        return Ok(());
    }
    let (key, since) = (&there.info.key, there.info.last_modified);
    let since = since
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    tracing::warn!(
        %key,
        since = since.as_secs(),
        "another host renames a directory to this name; if that host is gone, rmdir frees the name"
    );
    Err(FsError::NotEmpty)
}

/// Stores the marker of a directory on the condition `wanted`. [`FsError::NotEmpty`] if that is
/// not met.
pub(super) async fn put_marker(
    mutator: &Mutator,
    key: &Key,
    headers: ObjectHeaders,
    wanted: &PutCondition,
) -> Result<(), FsError> {
    let condition = (wanted, Proof::Trial);
    match mutator
        .put_small(key, Bytes::new(), headers, condition)
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if is_taken(&error) => Err(FsError::NotEmpty),
        Err(error) => Err(failed(error, PUT)),
    }
}

/// Whether the object is not as it was seen.
pub(super) fn is_taken(error: &ClientError) -> bool {
    matches!(
        error.kind,
        ErrorKind::PreconditionFailed | ErrorKind::NotFound | ErrorKind::Conflict
    )
}

/// The condition that the marker is as it was `seen`.
pub(super) fn condition_on(seen: Option<&ObjectDetails>) -> PutCondition {
    match seen {
        None => PutCondition::Absent,
        // A directory of the server's own.
        Some(there) if there.info.etag.as_str().is_empty() => PutCondition::None,
        Some(there) => PutCondition::Match(there.info.etag.clone()),
    }
}

fn claim_headers(token: &WriteToken) -> ObjectHeaders {
    ObjectHeaders {
        metadata: vec![(CLAIM_MARK.to_owned(), "1".to_owned())],
        token: Some(token.clone()),
        ..ObjectHeaders::default()
    }
}

fn is_claim(marker: &ObjectDetails) -> bool {
    let mut metadata = marker.headers.metadata.iter();
    metadata.any(|(name, _)| name == CLAIM_MARK)
}

/// The metadata of claims. versitygw gives all markers one content type, and takes no bytes there.
const CLAIM_MARK: &str = "mount-s3-claim";
