//! Removals and renames of staged files, and of directories above them.
//!
//! No store runs meanwhile: a store is of one name, and a rename takes along what the bucket has.

use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, join_all, select};
use mountpoint_client::types::{ETag, Key};

use crate::fs::FileSystem;
use crate::handle::OpenStaged;
use crate::mutate::Target;
use crate::namespace::Version;
use crate::operation::{FsError, InodeNo, Stop};
use crate::staging::StoresHeld;
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

    /// Notes that the name means nothing, or another file.
    pub(in crate::fs) fn removed(&self) {
        self.open.file.removed();
    }

    /// Keeps changes that can be stored under no name, and ends the file.
    pub(in crate::fs) async fn lost(&self, reason: &str) {
        self.open.file.keep_at_end(reason).await;
        self.removed();
    }

    /// Notes the new name `key` of a file that the bucket has as `version` now.
    pub(in crate::fs) fn renamed(&self, key: &Key, version: Option<&Version>) {
        let base = version.map(|version| Stored {
            etag: version.etag.clone(),
            size: version.size,
        });
        self.open.file.renamed(key.clone(), base);
    }
}

impl FileSystem {
    /// Holds the stores of the inode `ino`, if it is staged.
    pub(in crate::fs) async fn hold_staged(&self, ino: Option<InodeNo>) -> Option<HeldFile> {
        let open = self.staged_file(ino?)?;
        let held = open.file.hold_stores().await;
        let files = self.staged.as_ref()?;
        Some(HeldFile {
            is_open: files.is_open(&open) || self.namespace.has_readers(open.ino),
            open,
            _held: held,
        })
    }

    /// Holds the stores of two names of a rename. The wait ends when `stop` is asked for.
    pub(in crate::fs) async fn hold_both(
        &self,
        (from, to): (Option<InodeNo>, Option<InodeNo>),
        stop: &Stop,
    ) -> Result<(Option<HeldFile>, Option<HeldFile>), FsError> {
        if self.staged.is_none() {
            return Ok((None, None));
        }
        let held = pin!(async {
            let source = self.hold_staged(from).await;
            let target = self.hold_staged(to.filter(|to| Some(*to) != from)).await;
            (source, target)
        });
        match select(held, pin!(stop.asked())).await {
            Either::Left((held, _)) => Ok(held),
            Either::Right(_) => Err(FsError::Interrupted),
        }
    }

    /// Holds the stores of all staged files below `directory`.
    pub(in crate::fs) async fn hold_below(
        &self,
        directory: InodeNo,
        stop: &Stop,
    ) -> Result<Vec<HeldFile>, FsError> {
        let below = self.namespace.written_below(directory);
        let held = pin!(join_all(
            below.iter().map(|(ino, _)| self.hold_staged(Some(*ino)))
        ));
        match select(held, pin!(stop.asked())).await {
            Either::Left((held, _)) => Ok(held.into_iter().flatten().collect()),
            Either::Right(_) => Err(FsError::Interrupted),
        }
    }

    /// Renames a staged file that the bucket does not have. Its store will replace the object that
    /// the new name has now.
    pub(in crate::fs) async fn rename_unstored(
        &self,
        file: &HeldFile,
        key: &Key,
        target: &Target,
    ) -> Result<(), FsError> {
        let replaced = match (self.mutator.describe(key).await, target) {
            (Ok(_), Target::Absent) => return Err(FsError::Exists),
            (Ok(object), Target::Any) => Some(Stored {
                etag: object.info.etag,
                size: object.info.size,
            }),
            (Err(FsError::NotFound), _) => None,
            (Err(error), _) => return Err(error),
        };
        // None of the bytes of that version show through: it only is what the store replaces.
        file.open.file.renamed(key.clone(), replaced);
        Ok(())
    }

    /// Notes that the directory `old`, which `files` are below, is called `new`.
    ///
    /// A copy on the server may have another version. A file whose object is not found there is a
    /// conflict at its next store.
    pub(in crate::fs) async fn renamed_above(&self, files: &[HeldFile], old: &str, new: &str) {
        let moved = files.iter().map(async |file| {
            let key = file.open.file.key();
            let rest = key.as_str().strip_prefix(old);
            let Some(key) = rest.and_then(|rest| Key::parse(&format!("{new}{rest}"))) else {
                return;
            };
            let Some(base) = file.base() else {
                file.open.file.renamed(key, None);
                return;
            };
            let etag: ETag = match self.mutator.describe(&key).await {
                Ok(object) if object.info.size == base.size => object.info.etag,
                Ok(_) | Err(_) => base.etag,
            };
            let base = Stored { etag, ..base };
            let progress = file.open.file.progress();
            file.open.file.renamed(key, Some(base.clone()));
            self.namespace
                .stored_staged(file.open.ino, progress, base.size, base.etag);
        });
        join_all(moved).await;
    }
}

/// Most bytes that are fetched of an open file before its object is removed: what programs map and
/// keep open. Reads of a larger one fail behind its removal, but for what was read or written.
const REMOVED_FETCH_MAX: u64 = 1 << 30;
