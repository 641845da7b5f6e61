//! Renaming one object: by the server where it can, else by a copy and a deletion.
//!
//! Between copy and deletion the object has both names. It is deleted under the old name only in the version that was
//! copied, so a version that somebody else writes meanwhile is moved as well, or stays.

use futures::future;
use mountpoint_client::types::{ETag, Key, PutCondition};
use mountpoint_client::{ClientError, ErrorKind};

use super::Mutator;
use super::fault::{DELETE, failed, seen};
use crate::config::limits::RENAME_ATTEMPTS_MAX;
use crate::operation::{FsError, Stop};

/// What the new name is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing has it, and that is to be sure.
    Absent,
    /// Whatever has it is replaced.
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
    /// Which version it was under the old name; `None` where the server moved whatever was there.
    pub source: Option<ETag>,
    /// Its version under the new name; `None` where it is the same.
    pub etag: Option<ETag>,
    /// Its size.
    pub size: Option<u64>,
}

impl Mutator {
    /// Renames the object `from`, which was the version `etag` when it was seen, to `to`.
    pub async fn rename(
        &self,
        (from, etag): (&Key, &ETag),
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
            Err(error) => match self.was_renamed(&error, (from, etag), to).await {
                Ok(true) => Ok(moved),
                Ok(false) if error.kind == ErrorKind::PreconditionFailed => Err(FsError::Exists),
                Ok(false) => Err(renaming_failed(error)),
                Err(unknown) => Err(renaming_failed(unknown)),
            },
        }
    }

    /// Whether a native rename that failed so was done, and its answer lost: what was seen has the new name, and nothing the
    /// old one. An error if nobody can tell.
    pub(super) async fn was_renamed(
        &self,
        error: &ClientError,
        (from, etag): (&Key, &ETag),
        to: &Key,
    ) -> Result<bool, ClientError> {
        let is_in_the_way = matches!(
            error.kind,
            ErrorKind::NotFound | ErrorKind::PreconditionFailed
        );
        if !is_in_the_way || !error.answer_was_lost {
            return Ok(false);
        }
        let there = seen(self.client.head(to).await, error)?;
        if !there.is_some_and(|there| there.etag.matches(etag)) {
            return Ok(false);
        }
        Ok(seen(self.client.head(from).await, error)?.is_none())
    }

    /// Whether a rename may be a copy and a deletion. Without the flag the application is told what makes it copy and
    /// delete itself, if it may delete.
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
        // Some servers ignore the condition of a copy: it is asked for as well.
        let absent = async {
            match target {
                Target::Absent => self.require_absent(to).await,
                Target::Any => Ok(()),
            }
        };
        let describe = async {
            self.client
                .head_details(from)
                .await
                .map_err(renaming_failed)
        };
        let mut first = Some(future::try_join(describe, absent).await?.0);
        for _ in 0..RENAME_ATTEMPTS_MAX {
            let source = match first.take() {
                Some(source) => source,
                None => self
                    .client
                    .head_details(from)
                    .await
                    .map_err(renaming_failed)?,
            };
            let etag = match self.copy(&source, to, condition.clone(), stop).await {
                Err(FsError::Stale(_)) => {
                    stop.check()?;
                    continue;
                }
                copied => copied?,
            };
            if self
                .delete_copied(&source.info.key, &source.info.etag)
                .await?
            {
                return Ok(Moved {
                    source: Some(source.info.etag),
                    etag: Some(etag),
                    size: Some(source.info.size),
                });
            }
            // The copy is ours, and is to be replaced by a newer one.
            condition = PutCondition::Match(etag);
        }
        Err(FsError::Busy(format!(
            "{from} was replaced again and again while it was renamed; it is still there"
        )))
    }

    pub(super) async fn is_gone(&self, key: &Key) -> Result<bool, FsError> {
        match self.client.head(key).await {
            Ok(_) => Ok(false),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    async fn require_absent(&self, key: &Key) -> Result<(), FsError> {
        if self.is_gone(key).await? {
            Ok(())
        } else {
            Err(FsError::Exists)
        }
    }

    /// For a server that takes no conditions of copies: asks whether `condition` holds.
    pub(super) async fn require(&self, key: &Key, condition: &PutCondition) -> Result<(), FsError> {
        match condition {
            PutCondition::None => Ok(()),
            PutCondition::Absent => self.require_absent(key).await,
            PutCondition::Match(etag) => match self.client.head(key).await {
                Ok(there) if there.etag.matches(etag) => Ok(()),
                Ok(_) => Err(FsError::Busy(format!(
                    "{key} was replaced by somebody else while another object was renamed to it"
                ))),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Deletes the version that was copied. `false` if there is another one by now.
    pub(super) async fn delete_copied(&self, key: &Key, etag: &ETag) -> Result<bool, FsError> {
        match self.client.delete(key, Some(etag.clone())).await {
            Ok(()) => Ok(true),
            Err(error) => match error.kind {
                // Somebody else deleted it: it is not there any more, as it should be. Or it is gone already, and the answer
                // to that was lost.
                ErrorKind::NotFound | ErrorKind::PreconditionFailed => self.is_gone(key).await,
                ErrorKind::Unsupported | ErrorKind::InvalidRequest => {
                    self.delete_unless_replaced(key, etag).await
                }
                _ => Err(failed(error, DELETE)),
            },
        }
    }

    /// For a server that knows no conditional deletion: asks first.
    async fn delete_unless_replaced(&self, key: &Key, etag: &ETag) -> Result<bool, FsError> {
        match self.client.head(key).await {
            Ok(now) if !now.etag.matches(etag) => Ok(false),
            Ok(_) => self.delete(key).await.map(|()| true),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn renaming_failed(error: ClientError) -> FsError {
    failed(error, "s3:GetObject, s3:PutObject and s3:DeleteObject")
}
