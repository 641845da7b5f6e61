//! Removals and renames of staged files, and of directories above them.
//!
//! No store runs meanwhile: a store is of one name, and a rename takes along what the bucket has.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::parts::Parts;
use crate::file::{StagedFile, StoresHeld};
use crate::handle::OpenStaged;
use crate::operation::{FsError, InodeNo, Stop};

/// A staged file whose stores are held while its name changes.
pub(super) struct HeldFile {
    pub(super) open: Arc<OpenStaged>,
    /// Whether an application has it open.
    is_open: bool,
    _held: StoresHeld,
}

impl HeldFile {
    /// Whether its bytes are still to be kept.
    fn is_alive(&self) -> bool {
        self.open.file.failure().is_none() && !self.open.file.is_removed()
    }

    /// Whether the bucket has to have the newest bytes before the name changes: requests move an
    /// object, and what waits for its upload goes to the old name if the process is killed between.
    fn must_be_stored(&self) -> bool {
        let file = &self.open.file;
        let is_newer = file.is_recorded() || file.base().is_none();
        self.is_alive() && (file.has_sent() || is_newer && file.may_have_object())
    }

    /// Whether the file is in the journal alone, so that a rename of it is one record there.
    fn is_renamed_in_journal(&self) -> bool {
        self.open.file.is_recorded() && !self.open.file.may_have_object()
    }

    /// Whether the journal has a version of it.
    fn is_waiting(&self) -> bool {
        self.open.file.is_recorded() && self.is_alive()
    }

    /// Fetches the bytes that only the object has, which is about to be removed or replaced.
    /// Handles that are open go on to read them.
    pub(super) async fn outlive_object(&self) {
        if self.is_open
            && let Err(error) = self.open.file.fetch_base(REMOVED_FETCH_MAX).await
        {
            let key = self.open.file.key();
            tracing::debug!(%key, "an open file loses its object, which was not fetched: {error}");
        }
    }

    /// Notes that the name, of which the bucket has nothing more, means nothing or another file,
    /// whatever becomes of the note in the journal.
    pub(super) async fn removed(&self) -> Result<(), FsError> {
        self.open.file.removed();
        self.open.file.remove().await
    }

    /// Notes that another file has the name.
    pub(super) async fn replaced(&self) {
        if let Err(error) = self.removed().await {
            // A newer record of the key hides this one.
            let key = self.open.file.key();
            tracing::warn!(%key, "a file that was replaced is still in the journal: {error}");
        }
    }
}

/// Holds the stores of the inode `ino`, if it is staged. A store in progress goes on to its
/// end, unless it is `vain`.
pub(super) async fn hold_staged(
    parts: &Parts,
    ino: Option<InodeNo>,
    vain: impl FnOnce(&StagedFile) -> bool,
) -> Option<HeldFile> {
    let open = parts.staged.of(ino?)?;
    let held = match vain(&open.file) {
        true => open.file.stop_stores().await,
        false => open.file.hold_stores().await,
    };
    Some(HeldFile {
        is_open: parts.staged.is_open(&open) || parts.namespace.has_readers(open.ino),
        open,
        _held: held,
    })
}

/// Holds the stores of the inode `ino`, whose name is about to be changed by requests to S3.
/// A file that waits for its upload is stored before, if it `must_be`. A store in progress goes
/// on to its end, unless it is `vain`.
async fn hold_settled(
    parts: &Parts,
    ino: Option<InodeNo>,
    must_be: fn(&HeldFile) -> bool,
    vain: fn(&StagedFile) -> bool,
) -> Result<Option<HeldFile>, FsError> {
    for _ in 0..SETTLES_MAX {
        match hold_staged(parts, ino, vain).await {
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
async fn hold_moved(parts: &Parts, ino: Option<InodeNo>) -> Result<Option<HeldFile>, FsError> {
    hold_settled(parts, ino, HeldFile::must_be_stored, StagedFile::is_unsent).await
}

/// Holds the stores of two names of a rename. The wait ends when `stop` is asked for.
pub(super) async fn hold_both(
    parts: &Parts,
    (from, to): (Option<InodeNo>, Option<InodeNo>),
    stop: &Stop,
) -> Result<(Option<HeldFile>, Option<HeldFile>), FsError> {
    let held = async {
        let source = hold_moved(parts, from).await?;
        let to = to.filter(|to| Some(*to) != from);
        let is_one_record = source.as_ref().is_some_and(HeldFile::is_renamed_in_journal);
        let target = match is_one_record {
            true => hold_staged(parts, to, VAIN).await,
            // A kill behind the requests must not bring back what they have replaced, and one
            // before the close of a file that nobody has yet must not lose what it replaces.
            false => hold_settled(parts, to, HeldFile::is_waiting, |_| false).await?,
        };
        Ok((source, target))
    };
    stop.unless_asked(held).await
}

/// Holds the stores of all staged files below `directory`, which is about to be renamed.
pub(super) async fn hold_below(
    parts: &Parts,
    directory: InodeNo,
    stop: &Stop,
) -> Result<Vec<HeldFile>, FsError> {
    let below = parts.namespace.written_below(directory).into_iter();
    let holds = below.map(|(ino, _)| hold_moved(parts, Some(ino)));
    let held = stream::iter(holds).buffer_unordered(SETTLES_IN_FLIGHT_MAX);
    let held = stop.unless_asked(held.try_collect::<Vec<_>>()).await?;
    Ok(held.into_iter().flatten().collect())
}

/// The store of a file that loses its name is vain.
pub(super) const VAIN: fn(&StagedFile) -> bool = |_| true;

/// Most bytes that are fetched of an open file before its object is removed: what programs map and
/// keep open. Reads of a larger one fail behind its removal, but for what was read or written.
const REMOVED_FETCH_MAX: u64 = 1 << 30;

/// How often a file is stored before its rename, if it is written meanwhile.
const SETTLES_MAX: usize = 4;

/// Files and markers that are stored at a time before the rename of a directory.
pub(super) const SETTLES_IN_FLIGHT_MAX: usize = 64;
