//! Files that begin to be written: a new name, an existing file, one that an earlier process left.
//!
//! An inode has one [`StagedFile`](crate::file::StagedFile) from its first open for writing on.
//! All handles read and write it, also those that were opened for reading before.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::SystemTime;

use mountpoint_client::types::{Key, ObjectDetails, ObjectHeaders, StoredChecksum};

use crate::file::{ObservedFile, RecoveredFile, StagedBase};
use crate::fs::attributes::{describe_version, headers_of_replaced};
use crate::fs::held::{VAIN, hold_staged};
use crate::fs::parts::Parts;
use crate::fs::written::release;
use crate::handle::OpenStaged;
use crate::namespace::{Namespace, Version};
use crate::operation::{Entry, FileKind, FsError, InodeNo, PosixAttributes, Progress};
use crate::write::Stored;

/// A handle that was counted and is not there yet.
pub(in crate::fs) struct Opening<'a> {
    parts: &'a Parts,
    open: Option<Arc<OpenStaged>>,
}

impl Opening<'_> {
    /// The file.
    pub(in crate::fs) fn open(&self) -> &Arc<OpenStaged> {
        self.open.as_ref().expect("it is taken by value")
    }

    pub(super) fn take(mut self) -> Arc<OpenStaged> {
        self.open.take().expect("it is taken once")
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            let Parts {
                staged, namespace, ..
            } = self.parts;
            release((staged, namespace), open, false);
        }
    }
}

/// Shows a file that an earlier process committed and the bucket lacks, as long as it does.
pub(in crate::fs) fn adopt(parts: &Parts, found: RecoveredFile) {
    let RecoveredFile {
        key,
        modified,
        base,
        file,
    } = found;
    let version = base.map(|base| Version::new(base.size, base.etag, modified));
    let adopted = parts
        .namespace
        .adopt(&key, file.progress(), version.as_ref());
    let Some(ino) = adopted else {
        tracing::info!(%key, "a file of an earlier mount is uploaded, and not shown by this one");
        return;
    };
    if parts.config.posix_metadata {
        let posix = PosixAttributes::of(&file.headers().metadata);
        parts.namespace.set_posix(ino, posix);
    }
    parts
        .staged
        .adopt(Arc::new(OpenStaged::new(ino, file.clone(), false)));
    let observer = parts.staged.observer();
    file.observe(Arc::clone(&observer), ino);
    let progress = file.progress();
    let observed = ObservedFile { ino, progress };
    // Its upload may have ended before it was observed.
    if let Some(failure) = file.failure() {
        observer.failed(&observed, &failure);
    } else if let Some(stored) = file.base().filter(|_| !file.is_changed()) {
        observer.stored(&observed, &stored);
    }
}

/// A new staged file or symbolic link with these attributes, if any, and one handle.
pub(in crate::fs) fn begin_new<'a>(
    parts: &'a Parts,
    (parent, name): (InodeNo, &OsStr),
    (kind, posix): (FileKind, Option<PosixAttributes>),
) -> Result<(Entry, Opening<'a>), FsError> {
    let files = &parts.staged;
    let progress = Arc::new(Progress::new(0, parts.wall_now()));
    let (mut entry, open) = files.add(|| {
        let created = parts.namespace.create(parent, name, &progress)?;
        let ino = created.entry.attributes.ino;
        let base = match created.is_unasked {
            true => StagedBase::Unasked,
            false => StagedBase::None,
        };
        let mut headers = match kind {
            FileKind::File => files.staging().headers_of_new(&created.key),
            FileKind::Directory | FileKind::SymbolicLink | FileKind::Pipe | FileKind::Socket => {
                ObjectHeaders::default()
            }
        };
        if let Some(posix) = posix {
            posix.store(kind, parts.wall_now(), &mut headers.metadata);
        }
        let observer = (files.observer(), ino);
        let progress = Arc::clone(&progress);
        let file = files
            .staging()
            .file(created.key, base, headers, progress, observer);
        Ok::<_, FsError>((created.entry, OpenStaged::new(ino, file, true)))
    })?;
    if let Some(posix) = posix {
        parts.namespace.set_posix(open.ino, posix);
        posix.show(&mut entry.attributes);
    }
    let opening = Opening {
        parts,
        open: Some(open),
    };
    Ok((entry, opening))
}

/// Takes the name of the staged file `ino` away, which was made and could not be stored, unless
/// the bucket may have it. Its maker is told of a failure, and looks it up no more.
pub(in crate::fs) async fn unmake(parts: &Parts, (parent, name): (InodeNo, &OsStr), ino: InodeNo) {
    if let Ok(change) = parts.namespace.removal(parent, name)
        && change.known().is_some_and(|(known, _)| *known == ino)
        && let Some(file) = hold_staged(parts, Some(ino), VAIN).await
        && !file.open.file.may_have_object()
    {
        // It has no record that a kill would bring back, or one that was refused.
        if let Err(error) = file.removed().await {
            tracing::debug!(?name, "a file that could not be made: {error}");
        }
        change.removed();
    }
    parts.namespace.forget(ino, 1);
}

/// A handle more of a file that is staged already.
///
/// # Errors
/// [`FsError::Stale`] if the name means another version than the file, which is unchanged here.
pub(in crate::fs) async fn share(
    parts: &Parts,
    ino: InodeNo,
) -> Result<Option<Opening<'_>>, FsError> {
    let Some(open) = parts.staged.share(ino) else {
        return Ok(None);
    };
    let opening = Opening {
        parts,
        open: Some(open),
    };
    let file = &opening.open().file;
    if let Some(failure) = file.failure() {
        return Err(failure);
    }
    let unchanged = || {
        file.base()
            .filter(|_| !file.is_changed() && !file.is_removed())
    };
    if let Some(base) = unchanged() {
        let key = file.key();
        let newest = parts.mutator.describe(&key).await;
        let is_same = match &newest {
            Ok(newest) => newest.info.etag.matches(&base.etag),
            Err(FsError::NotFound) => false,
            Err(error) => return Err(error.clone()),
        };
        // A store or a rename of this mount may have been faster than the answer.
        let is_known = file.key() == key && unchanged().as_ref() == Some(&base);
        if !is_same && is_known {
            parts.namespace.is_replaced(ino);
            return Err(FsError::Stale(format!("{key} was replaced in the bucket")));
        }
    }
    Ok(Some(opening))
}

/// The staged file of the existing file `ino`, with one handle more. Sends a HEAD, for the
/// headers that the next version is to have, unless all bytes are to be dropped.
pub(in crate::fs) async fn begin(
    parts: &Parts,
    ino: InodeNo,
    is_cut: bool,
) -> Result<Opening<'_>, FsError> {
    let gone = || FsError::Stale("the file is not there any more".to_owned());
    let (key, version) = parts.namespace.stored_version(ino).ok_or_else(gone)?;
    let (headers, checksum) = match is_cut {
        true => (
            headers_of_replaced(parts, ino).await?,
            StoredChecksum::Other,
        ),
        false => {
            let details = details_of(parts, &key, &version).await;
            let details = distrust_stale(&parts.namespace, ino, details)?;
            (Some(details.headers), details.checksum)
        }
    };
    let headers = headers.unwrap_or_else(|| parts.staged.staging().headers_of_new(&key));
    let mtime = parts.namespace.known_mtime(ino).unwrap_or(version.mtime);
    let opening = begin_over(parts, ino, (key, version), (headers, mtime), false)?;
    opening.open().file.set_checksum(checksum);
    Ok(opening)
}

/// The staged file of `ino`, which is `version` of `key` with these headers, with one handle
/// more.
pub(super) fn begin_over(
    parts: &Parts,
    ino: InodeNo,
    (key, version): (Key, Version),
    (headers, mtime): (ObjectHeaders, SystemTime),
    is_new: bool,
) -> Result<Opening<'_>, FsError> {
    let files = &parts.staged;
    let open = files.share_or_make(ino, || {
        let progress = Arc::new(Progress::new(version.size, mtime));
        let begun = parts.namespace.begin_writing(ino, &progress);
        let (its_key, known) = begun?;
        if its_key != key || !known.is_same(&version) {
            parts.namespace.unchanged(ino, &progress);
            parts.namespace.close_writer(ino);
            return Err(FsError::Stale(format!("{key} was replaced just now")));
        }
        let Version { etag, size, .. } = version;
        let base = StagedBase::Version(Stored { etag, size });
        let observer = (files.observer(), ino);
        let file = files.staging().file(key, base, headers, progress, observer);
        Ok(OpenStaged::new(ino, file, is_new))
    })?;
    Ok(Opening {
        parts,
        open: Some(open),
    })
}

/// The details of an object whose next version keeps its headers.
async fn details_of(parts: &Parts, key: &Key, version: &Version) -> Result<ObjectDetails, FsError> {
    let details = describe_version(&parts.mutator, key, version).await?;
    if Version::from(&details.info).is_archived {
        return Err(FsError::Denied(format!(
            "{key} is archived; restore it to write it"
        )));
    }
    Ok(details)
}

/// Passes `outcome` on. After a stale version the next look-up of the file asks S3.
pub(super) fn distrust_stale<T>(
    namespace: &Namespace,
    ino: InodeNo,
    outcome: Result<T, FsError>,
) -> Result<T, FsError> {
    if matches!(outcome, Err(FsError::Stale(_))) {
        namespace.distrust(ino);
    }
    outcome
}
