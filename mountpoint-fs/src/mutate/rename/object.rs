//! Renaming one object: natively where the server can, else by copy and deletion.
//!
//! Between copy and deletion the object has both names. Only the version that was copied is deleted
//! under the old name, so a version that another client writes meanwhile is moved as well, or
//! stays.

use futures::future;
use mountpoint_client::types::{ETag, Key, ObjectDetails, PutCondition};
use mountpoint_client::{ClientError, ErrorKind};

use super::super::Mutator;
use super::super::fault::{COPY, failed};
use crate::operation::{FsError, Stop};

/// The required state of the new name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// No object has the name, and the rename must make sure of that.
    Absent,
    /// An object of that name is replaced.
    Any,
}

impl Target {
    fn condition(&self) -> PutCondition {
        match self {
            Self::Absent => PutCondition::Absent,
            Self::Any => PutCondition::None,
        }
    }
}

/// A renamed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its version under the old name; `None` where the server moved the current version.
    pub source: Option<ETag>,
    /// Its version under the new name; `None` if unchanged.
    pub etag: Option<ETag>,
    /// Its size.
    pub size: Option<u64>,
}

impl Mutator {
    /// Renames the object `from` to `to`.
    pub async fn rename(
        &self,
        from: &Key,
        to: &Key,
        target: &Target,
        stop: &Stop,
    ) -> Result<Moved, FsError> {
        let moved = Moved {
            source: None,
            etag: None,
            size: None,
        };
        match self.client.rename(from, to, target.condition()).await {
            Ok(()) => Ok(moved),
            Err(error) if error.kind == ErrorKind::Unsupported => {
                self.permit_copy(from)?;
                self.rename_by_copy(from, to, target, stop).await
            }
            // The client has repeated a request whose answer was lost, by the same client token: S3
            // says of a rename that was done that it is, and a refusal is one.
            Err(error) if error.kind == ErrorKind::PreconditionFailed => Err(FsError::Exists),
            Err(error) => Err(renaming_failed(error)),
        }
    }

    /// Whether a rename may be a copy and a deletion.
    ///
    /// Without the flag the application gets the error that makes it copy and delete by itself, if
    /// it may delete.
    pub(super) fn permit_copy(&self, from: &Key) -> Result<(), FsError> {
        if self.allow_rename {
            return Ok(());
        }
        let what = format!(
            "{from} is not renamed: this bucket cannot rename, and a copy on the server needs --allow-changes, or \
             --allow-rename alone"
        );
        if self.allow_delete {
            Err(FsError::NeedsCopy(format!(
                "{what}; `mv` copies through this machine instead"
            )))
        } else {
            Err(FsError::NotPermitted(what))
        }
    }

    async fn rename_by_copy(
        &self,
        from: &Key,
        to: &Key,
        target: &Target,
        stop: &Stop,
    ) -> Result<Moved, FsError> {
        let mut condition = target.condition();
        // Some servers ignore the condition of a copy, so the destination is checked as well.
        let absent = async {
            match target {
                Target::Absent => self.require_absent(to).await,
                Target::Any => Ok(()),
            }
        };
        let describe = async || {
            let described = self.client.head_details(from).await;
            described.map_err(renaming_failed)
        };
        let mut first = Some(future::try_join(describe(), absent).await?.0);
        for _ in 0..COPY_ATTEMPTS_MAX {
            let source = match first.take() {
                Some(source) => source,
                None => describe().await?,
            };
            let etag = match self.copy(&source, to, condition.clone(), stop).await {
                Err(FsError::Stale(_)) => {
                    stop.check()?;
                    continue;
                }
                copied => copied?,
            };
            let (key, version) = (&source.info.key, &source.info.etag);
            if self.deleter.delete_version(key, version).await? {
                return Ok(Moved {
                    source: Some(source.info.etag),
                    etag: Some(etag),
                    size: Some(source.info.size),
                });
            }
            // Our own copy is the version that a newer copy replaces.
            condition = PutCondition::Match(etag);
        }
        Err(FsError::Busy(format!(
            "{from} was replaced repeatedly while it was renamed; it keeps its old name"
        )))
    }

    /// Copies the object `from` to `to`, a key that no object has. Returns what was copied, and the
    /// copy's ETag.
    ///
    /// [`FsError::Exists`] if there is an object `to`: of two hosts that link to one name, the one
    /// whose copy comes second is told so.
    pub async fn link(
        &self,
        from: &Key,
        to: &Key,
        stop: &Stop,
    ) -> Result<(ObjectDetails, ETag), FsError> {
        let describe = async || {
            let described = self.client.head_details(from).await;
            described.map_err(|error| failed(error, COPY))
        };
        // Some servers ignore the condition of a copy, so the name is checked as well.
        let absent = self.require_absent(to);
        let (mut source, ()) = future::try_join(describe(), absent).await?;
        for _ in 0..COPY_ATTEMPTS_MAX {
            match self.copy(&source, to, PutCondition::Absent, stop).await {
                Err(FsError::Stale(_)) => {
                    stop.check()?;
                    source = describe().await?;
                }
                copied => return Ok((source, copied?)),
            }
        }
        Err(FsError::Busy(format!(
            "{from} was replaced repeatedly while it was linked"
        )))
    }

    async fn require_absent(&self, key: &Key) -> Result<(), FsError> {
        if self.deleter.is_gone(key).await? {
            Ok(())
        } else {
            Err(FsError::Exists)
        }
    }
}

pub(super) fn renaming_failed(error: ClientError) -> FsError {
    failed(error, "s3:GetObject, s3:PutObject and s3:DeleteObject")
}

/// Attempts to rename or link a file whose object is replaced meanwhile.
const COPY_ATTEMPTS_MAX: u32 = 3;
