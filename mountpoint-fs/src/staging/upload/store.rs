//! Making the object of a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::{Key, ObjectHeaders};

use super::feed::{Feed, copied_min};
use crate::operation::{FsError, Progress};
use crate::staging::contents::Snapshot;
use crate::staging::context::StagingContext;
use crate::staging::record::SentVersion;
use crate::staging::sources::ByteSources;
use crate::write::{Adopts, Beginning, Replaced, Stored, WriteObserver, Writer};

/// An object to be made.
#[derive(Clone, Debug)]
pub(in crate::staging) struct StoreRequest {
    pub(in crate::staging) key: Key,
    pub(in crate::staging) snapshot: Arc<Snapshot>,
    pub(in crate::staging) sources: ByteSources,
    pub(in crate::staging) replaced: Replaced,
    pub(in crate::staging) headers: ObjectHeaders,
    /// The objects of other hosts that may stand for a new file without bytes.
    pub(in crate::staging) adopts: Adopts,
    /// The file is of an earlier process, which may have sent it.
    pub(in crate::staging) recovered: Option<RecoveredFrom>,
}

/// What an earlier process may have sent of a file.
#[derive(Clone, Debug, Default)]
pub(in crate::staging) struct RecoveredFrom {
    /// Versions before the one that it committed last.
    pub(in crate::staging) sent: Vec<SentVersion>,
    /// That version; `None` once it is in `sent`.
    pub(in crate::staging) whole: Option<Arc<Snapshot>>,
}

/// The outcome of a store that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The bucket has the version.
    Stored(Stored),
    /// Another host's object stands for the file.
    Adopted,
}

/// Stores a snapshot. Returns when the bucket has it.
///
/// [`FsError::Exists`] and [`FsError::Stale`] mean that another client changed the object.
pub(super) async fn store(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
) -> Result<Outcome, FsError> {
    let copies = request.has_copies() && context.writing.copies_parts() != Some(false);
    let outcome = attempt(context, request, copies).await;
    match outcome {
        // The first copies of the mount were refused: the server has none.
        Err(_) if copies && context.writing.copies_parts() == Some(false) => {
            attempt(context, request, false).await
        }
        outcome => outcome,
    }
}

async fn attempt(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
    has_copies: bool,
) -> Result<Outcome, FsError> {
    let told = Arc::new(Told::default());
    let beginning = Beginning::Whole {
        replaced: request.replaced.clone(),
        has_copies,
    };
    let progress = Arc::new(Progress::new(0, context.clock.wall()));
    let observer = Arc::clone(&told) as Arc<dyn WriteObserver>;
    let key = request.key.clone();
    let writer = Writer::new(&context.writing, key, beginning, progress, observer);
    writer.set_headers(request.headers.clone());
    writer.may_adopt(request.adopts);
    let feed = Feed {
        snapshot: Arc::clone(&request.snapshot),
        sources: request.sources.clone(),
        copies: has_copies,
    };
    if let Err(error) = feed.bring(context, &writer).await {
        writer.abandon(&error).await;
        return Err(error);
    }
    let stored = writer.store().await?;
    Ok(match told.is_adopted.load(Ordering::Acquire) {
        true => Outcome::Adopted,
        false => Outcome::Stored(stored),
    })
}

impl StoreRequest {
    /// Whether a range of the base is long enough for a copy.
    fn has_copies(&self) -> bool {
        let size = self.snapshot.size();
        let copied = self
            .snapshot
            .next_in_base(0, size, copied_min(&self.snapshot));
        self.sources.base.is_some() && copied.is_some()
    }
}

/// The writer's notes.
#[derive(Debug, Default)]
struct Told {
    is_adopted: AtomicBool,
}

impl WriteObserver for Told {
    fn resumed(&self) -> Result<(), FsError> {
        Ok(())
    }

    fn stored(&self, _: &Stored) {}

    fn adopted(&self) {
        self.is_adopted.store(true, Ordering::Release);
    }

    fn failed(&self, _: &FsError) {}
}
