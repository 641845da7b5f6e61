//! Markers of new directories that wait for their upload.
//!
//! With write-back, a `mkdir` below a directory that this mount has just made sends nothing, nor
//! does one elsewhere without `--directory-markers`: the marker is a staged file without bytes,
//! durable in the journal before the call returns. Its upload waits for a while, so that the mode
//! and the time that programs set next go with it, and a directory that is removed at once was
//! never sent. Where `mkdir` makes no marker, the first change of the new directory's attributes
//! makes one in the same way.
//!
//! A marker is here from then on until the bucket has it and the journal has released it. Until
//! the bucket has it the directory is a kept one, and what the marker says of it counts.

use std::sync::{Arc, Weak};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use mountpoint_client::types::ObjectHeaders;

use super::held::SETTLES_IN_FLIGHT_MAX;
use super::parts::Parts;
use crate::file::{
    ObservedFile, RecoveredFile, StagedBase, StagedFile, StagedObserver, StoresHeld,
};
use crate::handle::StagedMarkers;
use crate::mutate::marker;
use crate::namespace::{DirectoryMarker, NameChange, Namespace};
use crate::operation::{
    Attributes, Entry, FileKind, FsError, InodeNo, PosixAttributes, Progress, Stop,
};
use crate::write::{Adopts, Stored};

/// A marker whose stores are held while its directory is removed, or its headers change.
pub(super) struct HeldMarker {
    file: StagedFile,
    held: StoresHeld,
}

impl HeldMarker {
    /// Changes the headers: durable when this returns.
    pub(super) async fn change_headers(
        self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        self.file.change_unstored_headers(change)?;
        // The commit may wait for room, which a store makes.
        drop(self.held);
        self.file.commit_headers().await
    }
}

/// Whether a marker that `may_wait` is uploaded later.
pub(super) fn waits(parts: &Parts, may_wait: bool) -> bool {
    let has_room = || parts.markers.has_room() && parts.namespace.may_keep();
    may_wait && parts.staged.commits() && has_room()
}

/// Makes the directory `name`. Its marker, with these headers and what they say of it, is
/// durable on the local disk when this returns. Another host's marker stands for it if it
/// `adopts` that.
pub(super) async fn make_directory(
    parts: &Parts,
    name: NameChange<'_>,
    (headers, carried): (ObjectHeaders, Option<PosixAttributes>),
    adopts: Adopts,
) -> Result<Entry, FsError> {
    let prefix = name.prefix()?;
    let file = new_marker(parts, &prefix, headers)?;
    file.may_adopt(adopts);
    file.commit().await?;
    match name.made_directory(DirectoryMarker::Pending, carried) {
        Ok((entry, held)) => {
            // A rename of the directory above finds the marker.
            add_marker(parts, prefix, entry.attributes.ino, file);
            drop(held);
            Ok(entry)
        }
        Err(error) => {
            file.removed();
            file.remove().await?;
            Err(error)
        }
    }
}

/// Makes the marker of the directory `name`, which has none, with the headers of `change`.
/// Durable on the local disk when this returns.
pub(super) async fn stage_marker(
    parts: &Parts,
    name: &NameChange<'_>,
    change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError>,
) -> Result<(), FsError> {
    let (prefix, (directory, _)) = (name.prefix()?, name.known().ok_or(FsError::NotFound)?);
    let file = new_marker(parts, &prefix, ObjectHeaders::default())?;
    file.change_unstored_headers(change)?;
    parts.namespace.keep_directory(*directory);
    // The next change finds it, even if nobody waits for this one.
    add_marker(parts, prefix.clone(), *directory, file.clone());
    let committed = file.commit().await;
    if committed.is_err() {
        file.removed();
        parts.markers.remove(&prefix, &file);
    }
    committed
}

fn new_marker(parts: &Parts, prefix: &str, headers: ObjectHeaders) -> Result<StagedFile, FsError> {
    let progress = Arc::new(Progress::new(0, parts.wall_now()));
    // S3 was not asked: it is before the upload, for servers that ignore conditions.
    let base = StagedBase::Unasked;
    let observer = (marker_observer(parts, prefix), InodeNo::ROOT);
    let staging = parts.staged.staging();
    Ok(staging.file(marker(prefix)?, base, headers, progress, observer))
}

fn marker_observer(parts: &Parts, prefix: &str) -> Arc<dyn StagedObserver> {
    Arc::new(MarkerName {
        markers: Arc::downgrade(&parts.markers),
        namespace: Arc::clone(&parts.namespace),
        prefix: prefix.to_owned(),
        is_posix: parts.config.posix_metadata,
    })
}

fn add_marker(parts: &Parts, prefix: String, directory: InodeNo, file: StagedFile) {
    parts.markers.insert(prefix.clone(), file.clone());
    // Its upload may have ended before.
    if file.base().is_some() {
        parts.namespace.marked(directory);
    }
    parts.markers.end(&prefix);
}

/// Shows a directory that an earlier process made and the bucket lacks, as long as it does.
pub(super) fn adopt(parts: &Parts, found: RecoveredFile) {
    let RecoveredFile { key, file, .. } = found;
    let Some(directory) = parts.namespace.adopt_directory(&key) else {
        tracing::info!(%key, "a directory of an earlier mount is uploaded, and not shown by this one");
        return;
    };
    if parts.config.posix_metadata {
        let posix = PosixAttributes::of(&file.headers().metadata);
        parts.namespace.set_posix(directory, posix);
    }
    file.observe(marker_observer(parts, key.as_str()), InodeNo::ROOT);
    add_marker(parts, key.as_str().to_owned(), directory, file);
}

/// The marker of the directory `ino`, if the bucket lacks it.
pub(super) fn staged_marker(parts: &Parts, ino: InodeNo) -> Option<StagedFile> {
    if parts.markers.is_empty() {
        return None;
    }
    let prefix = parts.namespace.prefix_of(ino).ok()?;
    let file = parts.markers.of(&prefix)?;
    file.is_changed().then_some(file)
}

/// Shows what the marker of a directory says of it, if the bucket lacks it and so could not.
pub(super) fn show_staged_marker(parts: &Parts, attributes: &mut Attributes) {
    if attributes.kind == FileKind::Directory
        && parts.config.posix_metadata
        && let Some(file) = staged_marker(parts, attributes.ino)
    {
        PosixAttributes::of(&file.headers().metadata).show(attributes);
        parts.namespace.show_changes(attributes);
    }
}

/// The marker `prefix`, to change its headers, if the bucket lacks it and this mount commits.
/// `None` if the bucket alone has the marker, if anybody has.
pub(super) async fn hold_pending_marker(
    parts: &Parts,
    prefix: &str,
) -> Result<Option<HeldMarker>, FsError> {
    let Some(marker) = hold_marker(parts, prefix).await else {
        return Ok(None);
    };
    if parts.staged.commits() && marker.file.is_changed() {
        return Ok(Some(marker));
    }
    let HeldMarker { file, held } = marker;
    drop(held);
    if file.failure().is_none() {
        // A record that a kill brings back has the headers of before.
        file.settle().await?;
    }
    parts.markers.end(prefix);
    Ok(None)
}

/// Holds the stores of the marker of a directory that is about to be removed, if the bucket
/// lacks it.
pub(super) async fn hold_marker(parts: &Parts, prefix: &str) -> Option<HeldMarker> {
    let file = parts.markers.of(prefix)?;
    let held = file.hold_stores().await;
    Some(HeldMarker { file, held })
}

/// Notes that the directory of `marker`, of which the bucket has nothing more, is gone. The
/// marker is never uploaded, not after a kill either.
pub(super) async fn removed_marker(
    parts: &Parts,
    prefix: &str,
    marker: &HeldMarker,
) -> Result<(), FsError> {
    marker.file.removed();
    let noted = marker.file.remove().await;
    parts.markers.remove(prefix, &marker.file);
    noted
}

/// Has the bucket alone have the markers of the directory `prefix` and of those below it, whose
/// names are about to be changed by requests to S3.
pub(super) async fn settle_markers(
    parts: &Parts,
    prefix: &str,
    stop: &Stop,
) -> Result<(), FsError> {
    let settles = parts.markers.below(prefix).into_iter();
    let settles = settles.map(|file| async move {
        file.settle().await?;
        parts.markers.end(file.key().as_str());
        Ok::<(), FsError>(())
    });
    let settled = stream::iter(settles).buffer_unordered(SETTLES_IN_FLIGHT_MAX);
    let settled = stop.unless_asked(settled.try_collect::<Vec<()>>());
    settled.await.map(drop)
}

/// The directory of a marker, which follows its store.
struct MarkerName {
    markers: Weak<StagedMarkers>,
    namespace: Arc<Namespace>,
    prefix: String,
    is_posix: bool,
}

impl MarkerName {
    fn end(&self) {
        if let Some(markers) = self.markers.upgrade() {
            markers.end(&self.prefix);
        }
    }

    /// The bucket has the marker, which `is_ours` or another host's.
    fn is_there(&self, is_ours: bool) {
        let marker = self.markers.upgrade().and_then(|it| it.of(&self.prefix));
        // Its inode may be another one than at first: one that a listing has shown is not kept.
        if let Some(file) = marker.filter(|file| !file.is_changed())
            && let Some(directory) = self.namespace.known_directory(&self.prefix)
        {
            if is_ours && self.is_posix {
                // An answer from before that had none.
                let posix = PosixAttributes::of(&file.headers().metadata);
                self.namespace.set_posix(directory, posix);
            }
            self.namespace.marked(directory);
        }
        self.end();
    }
}

impl StagedObserver for MarkerName {
    fn stored(&self, _: &ObservedFile<'_>, _: &Stored) {
        self.is_there(true);
    }

    fn adopted(&self, _: &ObservedFile<'_>) {
        self.is_there(false);
    }

    fn failed(&self, _: &ObservedFile<'_>, _: &FsError) {
        self.end();
    }

    fn released(&self, _: &ObservedFile<'_>) {
        self.end();
    }
}
