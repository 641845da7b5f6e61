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
    CopyHeaders, CopySource, ETag, Key, ObjectDetails, ObjectHeaders, ObjectInfo, PutCondition,
    PutOutput, PutRequest, WriteToken,
};
use mountpoint_client::{ClientError, ErrorKind};

use super::super::Mutator;
use super::super::conditions::{Conditional, Proof};
use super::super::directory::marker;
use super::super::fault::{PUT, failed};
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

impl Mutator {
    /// The marker among the objects `there`, with its headers.
    pub(super) async fn marker_among(
        &self,
        there: &[ObjectInfo],
        prefix: &str,
    ) -> Result<Option<ObjectDetails>, FsError> {
        let Some(listed) = there.iter().find(|object| object.key.as_str() == prefix) else {
            return Ok(None);
        };
        match self.client.head_details(&listed.key).await {
            Ok(there) => Ok(Some(there)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error, "s3:GetObject")),
        }
    }

    /// Claims the directory `to`, which has the marker `seen`, for the rename with `token`.
    ///
    /// [`FsError::NotEmpty`] if another host has claimed it, or is faster. `None` if the server
    /// takes no such object.
    pub(super) async fn claim(
        &self,
        to: &str,
        token: &WriteToken,
        seen: Option<ObjectDetails>,
    ) -> Result<Option<Claim>, FsError> {
        let key = marker(to)?;
        if let Some(there) = seen.as_ref().filter(|there| is_claim(there)) {
            if there.token.as_ref() == Some(token) {
                return Ok(Some(Claim {
                    key,
                    etag: there.info.etag.clone(),
                    is_sure: false,
                    token: token.clone(),
                    replaced: None,
                }));
            }
            self.refuse_claimed(there)?;
        }
        let wanted = condition_on(seen.as_ref());
        // Some servers take no bytes there.
        for body in [
            Bytes::copy_from_slice(token.as_str().as_bytes()),
            Bytes::new(),
        ] {
            let put = |condition| {
                self.client.put(PutRequest {
                    key: key.clone(),
                    body: body.clone(),
                    condition,
                    checksum: None,
                    headers: claim_headers(token),
                })
            };
            // Behind the claim it is looked at again.
            let on = (Conditional::Put, &key);
            let answer = self.on_condition(on, (&wanted, Proof::None), put).await;
            match self.settled(&key, Some(token), answer).await {
                Ok(etag) => {
                    let etag = self.prove_with((&key, token), (etag, &wanted), put).await;
                    let keeps = self.conditions.keeps(Conditional::Put, &wanted);
                    let claim = Claim {
                        etag,
                        key,
                        is_sure: !body.is_empty() && keeps,
                        token: token.clone(),
                        replaced: seen.map(|there| there.headers),
                    };
                    return Ok(Some(claim));
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

    /// Sees by the claim `key` whether the server keeps conditions: a claim holds nothing that a
    /// trial could lose. Returns its version behind that.
    async fn prove_with<F: Future<Output = Result<PutOutput, ClientError>>>(
        &self,
        (key, token): (&Key, &WriteToken),
        (mut etag, wanted): (ETag, &PutCondition),
        put: impl Fn(PutCondition) -> F,
    ) -> ETag {
        // Without an answer the claim is looked at.
        let made = self.conditions.prove(Conditional::Put, wanted, put).await;
        if let Ok(Some(made)) = made {
            etag = made.etag;
        }
        let copy = |condition| {
            let source = CopySource {
                key: key.clone(),
                if_match: None,
            };
            let headers = claim_headers(token);
            self.client
                .copy(source, key, condition, CopyHeaders::New(headers))
        };
        // A server that makes no such copy says so again for the first object.
        let absent = PutCondition::Absent;
        let made = self.conditions.prove(Conditional::Copy, &absent, copy);
        match made.await {
            Ok(Some(made)) => etag = made.etag,
            // The refusal was that of the condition: no version of a source was named.
            Ok(None) => self.conditions.believe_refusal(Conditional::Copy, &absent),
            Err(_) => {}
        }
        etag
    }

    /// Refuses the directory that a living rename of another host has claimed.
    pub(super) fn refuse_claimed(&self, there: &ObjectDetails) -> Result<(), FsError> {
        if !is_claim(there) {
            return Ok(());
        }
        let age = self.clock.wall().duration_since(there.info.last_modified);
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

    /// Checks that the name is still claimed where a request on a condition does not: the server
    /// keeps none, or the claim has the ETag of others.
    pub(super) async fn check_claim(&self, claim: &Claim) -> Result<(), FsError> {
        match claim.is_sure || self.holds(claim).await? {
            true => Ok(()),
            false => Err(FsError::NotEmpty),
        }
    }

    /// Whether the directory is still claimed by `claim`.
    pub(super) async fn holds(&self, claim: &Claim) -> Result<bool, FsError> {
        match self.client.head_details(&claim.key).await {
            Ok(there) => Ok(there.token.as_ref() == Some(&claim.token)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(error, "s3:GetObject")),
        }
    }

    /// Gives the name back as it was, unless requests fail. Returns whether no claim is left.
    pub(super) async fn release(&self, claim: Claim) -> bool {
        let released = self.try_release(claim).await;
        let released = released.inspect_err(|error| {
            tracing::warn!("the claim of a rename stays in the bucket: {error}");
        });
        released.is_ok()
    }

    /// Gives the name back as it was. Returns whether the claim was still there.
    pub(super) async fn try_release(&self, claim: Claim) -> Result<bool, FsError> {
        if !self.holds(&claim).await? {
            return Ok(false);
        }
        let Some(headers) = claim.replaced else {
            self.deleter.delete(&claim.key).await?;
            return Ok(true);
        };
        let wanted = PutCondition::Match(claim.etag);
        match self.put_marker(&claim.key, headers, &wanted).await {
            Ok(()) => Ok(true),
            Err(FsError::NotEmpty) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Stores the marker of a directory on the condition `wanted`. [`FsError::NotEmpty`] if that is
    /// not met.
    pub(super) async fn put_marker(
        &self,
        key: &Key,
        headers: ObjectHeaders,
        wanted: &PutCondition,
    ) -> Result<(), FsError> {
        let condition = (wanted, Proof::Trial);
        match self.put_small(key, Bytes::new(), headers, condition).await {
            Ok(_) => Ok(()),
            Err(error) if is_taken(&error) => Err(FsError::NotEmpty),
            Err(error) => Err(failed(error, PUT)),
        }
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
