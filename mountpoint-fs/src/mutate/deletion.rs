//! Deleting objects only in the versions that were copied.
//!
//! Some servers ignore the version that a deletion names, and so would delete what another host has
//! written meanwhile. Therefore the first deletion of a mount names a version that no object has,
//! once for DeleteObject and once for DeleteObjects: a server that compares versions refuses. Where
//! a server does not, each object is checked by a HEAD just before its deletion.
//!
//! The trial follows such a HEAD as well, so it risks no more than each later deletion does.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mountpoint_client::types::{ETag, Key};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::fault::{DELETE, failed};
use super::parallel::in_parallel;
use crate::config::limits::COPIES_IN_FLIGHT_MAX;
use crate::operation::{FsError, Stop};

/// An object, and the version in which it may be deleted: any version if `None`.
pub(super) type Version = (Key, Option<ETag>);

/// Deletes versions, and remembers for the mount which deletions the server compares them in.
#[derive(Debug)]
pub(super) struct Deleter {
    client: Arc<dyn ObjectClient>,
    /// Of DeleteObject and of DeleteObjects.
    comparisons: [AtomicU8; 2],
}

/// A request that deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    DeleteObject,
    DeleteObjects,
}

/// Whether the server compares the version that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Unknown,
    Compares,
    /// Ignores or refuses it.
    Lacking,
}

/// The object after a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// The trial has removed it.
    Removed,
    /// An answer said that it is not there, which the next answer has to confirm.
    Missing,
    /// Another host has written another version.
    Replaced,
    /// Still to be deleted.
    There,
}

impl Deleter {
    pub(super) fn new(client: Arc<dyn ObjectClient>) -> Self {
        Self {
            client,
            comparisons: [Comparison::Unknown, Comparison::Unknown]
                .map(|unknown| AtomicU8::new(unknown as u8)),
        }
    }

    /// Deletes the object whatever its version.
    pub(super) async fn delete(&self, key: &Key) -> Result<(), FsError> {
        let deleted = self.client.delete(key, None).await;
        deleted.map_err(|error| failed(error, DELETE))
    }

    /// Deletes the version `etag`. `false` if the object has another version by now.
    pub(super) async fn delete_version(&self, key: &Key, etag: &ETag) -> Result<bool, FsError> {
        if self.comparison(Deletion::DeleteObject) == Comparison::Unknown {
            match self.probe(Deletion::DeleteObject, key, etag).await? {
                Trial::Removed => return Ok(true),
                Trial::Replaced => return Ok(false),
                Trial::Missing | Trial::There => {}
            }
        }
        match self.comparison(Deletion::DeleteObject) {
            Comparison::Compares => self.delete_if_match(key, etag).await,
            Comparison::Unknown | Comparison::Lacking => {
                self.delete_unless_replaced(key, etag).await
            }
        }
    }

    /// Deletes each object in its version. Returns how many stay, in other versions.
    ///
    /// [`FsError::Interrupted`] if `stop` was asked for before all were sent.
    pub(super) async fn delete_versions(
        &self,
        versions: &[Version],
        stop: &Stop,
    ) -> Result<usize, FsError> {
        let (rest, mut left) = self.probe_lists(versions, stop).await?;
        let failed_keys = match self.comparison(Deletion::DeleteObjects) {
            Comparison::Compares if !rest.is_empty() => self.delete_list(rest).await?,
            _ => rest.iter().map(|(key, _)| key.clone()).collect(),
        };
        let failed = |(key, _): &&Version| failed_keys.contains(key);
        let mut rest: VecDeque<&Version> = rest.iter().filter(failed).collect();
        // Each failed key is tried by itself: a server may accept a version there that it rejects
        // in a list. The first ones show whether it compares them.
        while self.comparison(Deletion::DeleteObject) == Comparison::Unknown
            && let Some(version) = rest.pop_front()
        {
            stop.check()?;
            left += usize::from(!self.delete_one(version).await?);
        }
        let delete = |index: usize| self.delete_one(rest[index]);
        let done = |is_deleted: bool| left += usize::from(!is_deleted);
        match in_parallel(COPIES_IN_FLIGHT_MAX, 0..rest.len(), stop, delete, done).await? {
            true => Ok(left),
            false => Err(FsError::Interrupted),
        }
    }

    async fn delete_one(&self, (key, etag): &Version) -> Result<bool, FsError> {
        match etag {
            Some(etag) => self.delete_version(key, etag).await,
            None => self.delete(key).await.map(|()| true),
        }
    }

    /// Learns from the first of `versions` whether the server compares versions in lists.
    ///
    /// Returns those that are still to be deleted, and how many of the others stay.
    async fn probe_lists<'a>(
        &self,
        mut versions: &'a [Version],
        stop: &Stop,
    ) -> Result<(&'a [Version], usize), FsError> {
        let mut left = 0;
        while self.comparison(Deletion::DeleteObjects) == Comparison::Unknown
            && let [(key, etag), rest @ ..] = versions
        {
            stop.check()?;
            match etag {
                None => self.delete(key).await?,
                Some(etag) => match self.probe(Deletion::DeleteObjects, key, etag).await? {
                    Trial::Removed => {}
                    Trial::Missing => left += usize::from(!self.delete_version(key, etag).await?),
                    Trial::Replaced => left += 1,
                    Trial::There => break,
                },
            }
            versions = rest;
        }
        Ok((versions, left))
    }

    /// Names a version that no object has, to learn whether the server compares versions.
    async fn probe(&self, request: Deletion, key: &Key, etag: &ETag) -> Result<Trial, FsError> {
        match self.client.head(key).await {
            Ok(now) if !now.etag.matches(etag) => return Ok(Trial::Replaced),
            Ok(_) => {}
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(Trial::Missing),
            Err(error) => return Err(error.into()),
        }
        let absent = Some(absent_version());
        let deleted = match request {
            Deletion::DeleteObject => self.client.delete(key, absent).await,
            Deletion::DeleteObjects => {
                let listed = self.client.delete_many(vec![(key.clone(), absent)]).await;
                listed.and_then(|failures| match failures.into_iter().next() {
                    Some(failure) => Err(failure.error),
                    None => Ok(()),
                })
            }
        };
        match deleted.map_err(|error| (error.kind.clone(), error)) {
            Ok(()) => {
                self.learn(request, Comparison::Lacking);
                tracing::warn!(
                    ?request,
                    "the server ignores the version that a deletion names: each object is looked at before its \
                     deletion, and a version that another host writes in between is lost"
                );
                Ok(Trial::Removed)
            }
            Err((ErrorKind::PreconditionFailed, _)) => {
                self.learn(request, Comparison::Compares);
                Ok(Trial::There)
            }
            Err((ErrorKind::NotFound, _)) => Ok(Trial::Missing),
            Err((ErrorKind::Unsupported, _)) => {
                self.learn(request, Comparison::Lacking);
                Ok(Trial::There)
            }
            // The refusal may concern this key alone.
            Err((ErrorKind::InvalidRequest, _)) => Ok(Trial::There),
            Err((_, error)) => Err(failed(error, DELETE)),
        }
    }

    /// Deletes a list of versions in one request. Returns the keys that it did not delete.
    async fn delete_list(&self, versions: &[Version]) -> Result<HashSet<Key>, FsError> {
        match self.client.delete_many(versions.to_vec()).await {
            Ok(failures) => Ok(failures.into_iter().map(|failure| failure.key).collect()),
            Err(error) if is_refused(&error) => {
                Ok(versions.iter().map(|(key, _)| key.clone()).collect())
            }
            Err(error) => Err(failed(error, DELETE)),
        }
    }

    async fn delete_if_match(&self, key: &Key, etag: &ETag) -> Result<bool, FsError> {
        match self.client.delete(key, Some(etag.clone())).await {
            Ok(()) => Ok(true),
            // Either another client has deleted the object, which is the intended state, or this
            // request has and its answer was lost.
            Err(error)
                if matches!(
                    error.kind,
                    ErrorKind::NotFound | ErrorKind::PreconditionFailed
                ) =>
            {
                self.is_gone(key).await
            }
            Err(error) if is_refused(&error) => self.delete_unless_replaced(key, etag).await,
            Err(error) => Err(failed(error, DELETE)),
        }
    }

    /// Checks the version before a deletion, for a server without conditional deletion.
    async fn delete_unless_replaced(&self, key: &Key, etag: &ETag) -> Result<bool, FsError> {
        match self.client.head(key).await {
            Ok(now) if !now.etag.matches(etag) => Ok(false),
            Ok(_) => self.delete(key).await.map(|()| true),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether no object has the key.
    pub(super) async fn is_gone(&self, key: &Key) -> Result<bool, FsError> {
        match self.client.head(key).await {
            Ok(_) => Ok(false),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn comparison(&self, request: Deletion) -> Comparison {
        let known = self.comparisons[request as usize].load(Ordering::Relaxed);
        let all = [Comparison::Compares, Comparison::Lacking];
        let found = all.into_iter().find(|one| *one as u8 == known);
        found.unwrap_or(Comparison::Unknown)
    }

    fn learn(&self, request: Deletion, comparison: Comparison) {
        self.comparisons[request as usize].store(comparison as u8, Ordering::Relaxed);
    }
}

/// Whether the server takes no such request, or none with versions.
fn is_refused(error: &ClientError) -> bool {
    matches!(
        error.kind,
        ErrorKind::Unsupported | ErrorKind::InvalidRequest
    )
}

/// A version that no object has.
pub(crate) fn absent_version() -> ETag {
    ETag::from_header("\"00000000000000000000000000000000-mountpoint\"")
}
