//! Removals and renames of staged files, and of directories above them.
//!
//! No store runs meanwhile: a store is of one name, and a rename takes along what the bucket has.

use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, join_all, select};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use mountpoint_client::types::{ETag, Key};

use crate::fs::FileSystem;
use crate::fs::staged_names::carried_time;
use crate::handle::OpenStaged;
use crate::mutate::Target;
use crate::namespace::{Found, NameChange, Version};
use crate::operation::{FsError, InodeNo, Stop};
use crate::staging::{StagedBase, StagedFile, StoresHeld};
use crate::write::Stored;

/// A staged file whose stores are held while its name changes.
pub(in crate::fs) struct HeldFile {
    pub(in crate::fs) open: Arc<OpenStaged>,
    /// Whether an application has it open.
    is_open: bool,
    _held: StoresHeld,
}

impl HeldFile {
    /// The version that the bucket has.
    pub(in crate::fs) fn base(&self) -> Option<Stored> {
        self.open.file.base()
    }

    /// Whether the bucket has, or may have, an object of the name.
    pub(in crate::fs) fn may_have_object(&self) -> bool {
        self.open.file.may_have_object()
    }

    /// Whether the bucket has to have the newest bytes before the name changes: requests move an
    /// object, and what waits for its upload goes to the old name if the process is killed between.
    fn must_be_stored(&self) -> bool {
        let file = &self.open.file;
        let is_newer = file.is_recorded() || file.base().is_none();
        let is_partly_sent = file.has_sent();
        if is_partly_sent && file.failure().is_none() && !file.is_removed() {
            return true;
        }
        is_newer && file.may_have_object() && file.failure().is_none() && !file.is_removed()
    }

    /// Whether the file is in the journal alone, so that a rename of it is one record there.
    fn is_renamed_in_journal(&self) -> bool {
        self.open.file.is_recorded() && !self.may_have_object()
    }

    /// Whether the journal has a version of it.
    fn is_waiting(&self) -> bool {
        let file = &self.open.file;
        file.is_recorded() && file.failure().is_none() && !file.is_removed()
    }

    /// Fetches the bytes that only the object has, which is about to be removed or replaced.
    /// Handles that are open go on to read them.
    pub(in crate::fs) async fn outlive_object(&self) {
        if self.is_open
            && let Err(error) = self.open.file.fetch_base(REMOVED_FETCH_MAX).await
        {
            let key = self.open.file.key();
            tracing::debug!(%key, "an open file loses its object, which was not fetched: {error}");
        }
    }

    /// Notes that the name means nothing. What waits for its upload is never uploaded, not after a
    /// kill either. A failure leaves the file.
    pub(in crate::fs) async fn remove(&self) -> Result<(), FsError> {
        self.open.file.remove().await
    }

    /// Notes that the name, of which the bucket has nothing more, means nothing or another file,
    /// whatever becomes of the note in the journal.
    pub(in crate::fs) async fn removed(&self) -> Result<(), FsError> {
        self.open.file.removed();
        self.open.file.remove().await
    }

    /// Notes that another file has the name.
    pub(in crate::fs) async fn replaced(&self) {
        if let Err(error) = self.removed().await {
            // A newer record of the key hides this one.
            let key = self.open.file.key();
            tracing::warn!(%key, "a file that was replaced is still in the journal: {error}");
        }
    }

    /// Ends a file that can be stored under no name. Changes are kept.
    pub(in crate::fs) async fn lost(&self, reason: &str) {
        self.open.file.lose_name(reason).await;
    }

    /// Notes the new name `key` of a file that the bucket has as `version` now.
    pub(in crate::fs) async fn renamed(&self, key: &Key, version: &Version) -> Result<(), FsError> {
        let version = Stored {
            etag: version.etag.clone(),
            size: version.size,
        };
        self.open.file.renamed(key.clone(), version).await
    }
}

impl FileSystem {
    /// Holds the stores of the inode `ino`, if it is staged. A store in progress goes on to its
    /// end, unless it is `vain`.
    pub(in crate::fs) async fn hold_staged(
        &self,
        ino: Option<InodeNo>,
        vain: impl FnOnce(&StagedFile) -> bool,
    ) -> Option<HeldFile> {
        let open = self.staged_file(ino?)?;
        let held = match vain(&open.file) {
            true => open.file.stop_stores().await,
            false => open.file.hold_stores().await,
        };
        Some(HeldFile {
            is_open: self.staged.is_open(&open) || self.namespace.has_readers(open.ino),
            open,
            _held: held,
        })
    }

    /// Holds the stores of the inode `ino`, whose name is about to be changed by requests to S3.
    /// A file that waits for its upload is stored before, if it `must_be`. A store in progress goes
    /// on to its end, unless it is `vain`.
    async fn hold_settled(
        &self,
        ino: Option<InodeNo>,
        must_be: fn(&HeldFile) -> bool,
        vain: fn(&StagedFile) -> bool,
    ) -> Result<Option<HeldFile>, FsError> {
        for _ in 0..SETTLES_MAX {
            match self.hold_staged(ino, vain).await {
                Some(held) if must_be(&held) => {
                    let open = Arc::clone(&held.open);
                    drop(held);
                    open.file.settle().await?;
                }
                held => return Ok(held),
            }
        }
        Err(FsError::Busy(
            "the file is written all the time: try again".to_owned(),
        ))
    }

    /// Holds the stores of the inode `ino`, whose object moves to another name: the bucket has its
    /// newest bytes then, or nothing of a new file, which is sent under the new name alone.
    async fn hold_moved(&self, ino: Option<InodeNo>) -> Result<Option<HeldFile>, FsError> {
        self.hold_settled(ino, HeldFile::must_be_stored, StagedFile::is_unsent)
            .await
    }

    /// Holds the stores of two names of a rename. The wait ends when `stop` is asked for.
    pub(in crate::fs) async fn hold_both(
        &self,
        (from, to): (Option<InodeNo>, Option<InodeNo>),
        stop: &Stop,
    ) -> Result<(Option<HeldFile>, Option<HeldFile>), FsError> {
        let held = pin!(async {
            let source = self.hold_moved(from).await?;
            let to = to.filter(|to| Some(*to) != from);
            let is_one_record = source.as_ref().is_some_and(HeldFile::is_renamed_in_journal);
            let target = match is_one_record {
                true => self.hold_staged(to, VAIN).await,
                // A kill behind the requests must not bring back what they have replaced, and one
                // before the close of a file that nobody has yet must not lose what it replaces.
                false => {
                    self.hold_settled(to, HeldFile::is_waiting, |_| false)
                        .await?
                }
            };
            Ok((source, target))
        });
        match select(held, pin!(stop.asked())).await {
            Either::Left((held, _)) => held,
            Either::Right(_) => Err(FsError::Interrupted),
        }
    }

    /// Holds the stores of all staged files below `directory`, which is about to be renamed.
    pub(in crate::fs) async fn hold_below(
        &self,
        directory: InodeNo,
        stop: &Stop,
    ) -> Result<Vec<HeldFile>, FsError> {
        let below = self.namespace.written_below(directory).into_iter();
        let holds = below.map(|(ino, _)| self.hold_moved(Some(ino)));
        let held = stream::iter(holds).buffer_unordered(SETTLES_IN_FLIGHT_MAX);
        let held = pin!(held.try_collect::<Vec<_>>());
        match select(held, pin!(stop.asked())).await {
            Either::Left((held, _)) => Ok(held?.into_iter().flatten().collect()),
            Either::Right(_) => Err(FsError::Interrupted),
        }
    }

    /// Renames a staged file of which the bucket has nothing. Its store will replace the object
    /// that the new name has now; what is known of that counts where S3 is away, or need not be
    /// asked.
    pub(in crate::fs) async fn rename_unstored(
        &self,
        file: &HeldFile,
        (to, target): (&NameChange<'_>, &Target),
        over: Option<&HeldFile>,
    ) -> Result<(), FsError> {
        let key = to.key();
        let is_recorded = file.open.file.is_recorded();
        // An upload of a file of that name may have reached the bucket.
        let is_known = to.is_own() && !over.is_some_and(HeldFile::may_have_object);
        let known = match to.known() {
            Some((_, Found::File(version))) => Some(version),
            Some((_, Found::Directory)) | None => None,
        };
        let known = known.filter(|version| !version.etag.as_str().is_empty());
        let as_known = || {
            known.map_or(StagedBase::Unasked, |version| {
                StagedBase::Version(Stored {
                    etag: version.etag.clone(),
                    size: version.size,
                })
            })
        };
        let asked = match is_recorded && is_known {
            true => None,
            false => Some(self.mutator.describe(key).await),
        };
        let replaced = match (asked, target) {
            (None, _) => as_known(),
            (Some(Ok(_)), Target::Absent) => return Err(FsError::Exists),
            (Some(Ok(object)), Target::Any) => StagedBase::Version(Stored {
                etag: object.info.etag,
                size: object.info.size,
            }),
            (Some(Err(FsError::NotFound)), _) => StagedBase::None,
            (Some(Err(FsError::Client(error))), Target::Any)
                if error.kind.is_retryable() && is_recorded =>
            {
                as_known()
            }
            (Some(Err(error)), _) => return Err(error),
        };
        // None of the bytes of that version show through: it only is what the store replaces.
        let over = over.map(|held| &held.open.file);
        file.open
            .file
            .rename_unstored(key.clone(), replaced, over)
            .await
    }

    /// Notes that the directory `old`, which `files` are below, is called `new`.
    ///
    /// A copy on the server may have another version. A file whose object is not found there is a
    /// conflict at its next store.
    ///
    /// With write-back the new names of files that wait for their upload are durable then.
    pub(in crate::fs) async fn renamed_above(
        &self,
        files: &[HeldFile],
        old: &str,
        new: &str,
    ) -> Result<(), FsError> {
        let moved = files.iter().map(async |file| {
            let Some(key) = renamed_key(&file.open.file.key(), old, new) else {
                return Ok(());
            };
            let Some(base) = file.base() else {
                let replaced = StagedBase::Unasked;
                return file.open.file.rename_unstored(key, replaced, None).await;
            };
            let etag: ETag = match self.mutator.describe(&key).await {
                Ok(object) if object.info.size == base.size => object.info.etag,
                Ok(_) | Err(_) => base.etag,
            };
            let base = Stored { etag, ..base };
            let progress = file.open.file.progress();
            let noted = file.open.file.renamed(key, base.clone()).await;
            let mtime = carried_time(&self.staged, progress);
            let version = (base.size, base.etag);
            self.namespace
                .stored_staged(file.open.ino, progress, version, mtime);
            noted
        });
        join_all(moved).await.into_iter().collect()
    }
}

/// The key of the file `key` when its directory `old` is called `new`; `None` if S3 takes none as
/// long.
pub(in crate::fs) fn renamed_key(key: &Key, old: &str, new: &str) -> Option<Key> {
    let rest = key.as_str().strip_prefix(old)?;
    Key::parse(&format!("{new}{rest}"))
}

/// The store of a file that loses its name is vain.
pub(in crate::fs) const VAIN: fn(&StagedFile) -> bool = |_| true;

/// Most bytes that are fetched of an open file before its object is removed: what programs map and
/// keep open. Reads of a larger one fail behind its removal, but for what was read or written.
const REMOVED_FETCH_MAX: u64 = 1 << 30;

/// How often a file is stored before its rename, if it is written meanwhile.
const SETTLES_MAX: usize = 4;

/// Files and markers that are stored at a time before the rename of a directory.
pub(super) const SETTLES_IN_FLIGHT_MAX: usize = 64;
