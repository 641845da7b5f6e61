//! The parts of a staged file, which its operations share.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mountpoint_client::types::Key;
use tokio::sync::{Mutex as AsyncMutex, Notify, RwLock as AsyncRwLock};

use super::file_state::FileState;
use crate::file::context::StagingContext;
use crate::file::local::{DataFiles, RoomHolder};
use crate::file::store::{EarlyStore, FoundCheckpoint, StoreStop, checkpoint};
use crate::operation::{FsError, Progress};
use crate::read::ReadContext;
use crate::sync::{Mutex, RwLock};
use crate::write::{UploadCheckpoint, background};

/// The parts of a staged file that is in use.
///
/// Locks: `storing` for the length of a store, then the gate, then `giving_back`, then the state,
/// which is a leaf.
pub(in crate::file::life) struct FileParts {
    pub(in crate::file::life) context: Arc<StagingContext>,
    pub(in crate::file::life) files: Arc<DataFiles>,
    pub(in crate::file::life) progress: Arc<Progress>,
    pub(in crate::file::life) state: Mutex<FileState>,
    /// Shared by writes, exclusive for what changes the file as a whole, and for commits.
    pub(in crate::file::life) gate: Arc<AsyncRwLock<()>>,
    /// Shared by each write to a data file until it is noted, exclusive while disk space is given
    /// back: a range that a write has just filled is never given back.
    pub(in crate::file::life) giving_back: RwLock<()>,
    /// The upload that a store has begun and the next one continues.
    pub(in crate::file::life) checkpoint: Arc<UploadCheckpoint>,
    /// Whether the next process continues it as well.
    is_durable: bool,
    /// Held as long as a store runs.
    pub(in crate::file::life) storing: Arc<AsyncMutex<()>>,
    /// Has a store end for a caller that waits for `storing`.
    pub(in crate::file::life) stop: Arc<StoreStop>,
    /// The permission to store the file is proven, or was not in doubt.
    pub(in crate::file::life) is_permitted: AtomicBool,
    /// S3 has one more part, or the sending has ended.
    pub(in crate::file::life) moved: Notify,
    /// The order of its last write among those of all files, and the time.
    last_write: (AtomicU64, AtomicU64),
}

impl FileParts {
    pub(in crate::file::life) fn new(
        context: &Arc<StagingContext>,
        files: DataFiles,
        (state, left): (FileState, Option<FoundCheckpoint>),
        progress: Arc<Progress>,
    ) -> Arc<Self> {
        let is_durable = context.committing().is_some() || files.is_recorded();
        let name = files.name();
        let parts = Arc::new(Self {
            checkpoint: match is_durable {
                true => checkpoint(context, name, left),
                false => UploadCheckpoint::in_memory(),
            },
            is_durable,
            context: Arc::clone(context),
            files: Arc::new(files),
            progress,
            state: Mutex::new(state),
            gate: Arc::default(),
            giving_back: RwLock::new(()),
            storing: Arc::default(),
            stop: Arc::default(),
            is_permitted: AtomicBool::new(false),
            moved: Notify::new(),
            last_write: (
                AtomicU64::new(0),
                AtomicU64::new(millis(context.clock.now())),
            ),
        });
        if !parts.files.have_no_disk() {
            let holder: Weak<dyn RoomHolder> = Arc::downgrade(&(Arc::clone(&parts) as _));
            context.room_holders.add(name, holder);
        }
        parts
    }

    /// Whether its changes are made durable on the local disk, and uploaded later.
    pub(in crate::file::life) fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Notes a write of `len` bytes.
    pub(in crate::file::life) fn written_last(&self, len: usize) {
        let (order, when) = &self.last_write;
        let written = self.context.writing.wrote(len as u64);
        order.store(written, Ordering::Relaxed);
        when.store(millis(self.context.clock.now()), Ordering::Relaxed);
    }

    /// The order of the last write among those of all files, and the time.
    pub(in crate::file::life) fn last_write(&self) -> (u64, Duration) {
        let (order, when) = &self.last_write;
        let when = Duration::from_millis(when.load(Ordering::Relaxed));
        (order.load(Ordering::Relaxed), when)
    }

    /// The upload that a store goes on with, and what ends the store.
    pub(in crate::file::life) fn ways(&self) -> (&Arc<UploadCheckpoint>, &Arc<StoreStop>) {
        (&self.checkpoint, &self.stop)
    }

    /// What has the bytes: the data files, and the reader of objects.
    pub(in crate::file::life) fn places(&self) -> (&Arc<DataFiles>, &ReadContext) {
        (&self.files, &self.context.reading)
    }

    /// The key of its object.
    pub(in crate::file::life) fn key(&self) -> Key {
        self.state.lock().key.clone()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Drop for FileParts {
    /// Leaves no upload to the bucket that nobody continues.
    fn drop(&mut self) {
        let this = std::ptr::from_ref(self).cast();
        self.context.room_holders.remove(self.files.name(), this);
        if !self.is_durable {
            let early = self.state.get_mut().ahead.end();
            abort_unfinished(
                &self.context,
                &self.checkpoint,
                early.map(|(early, _)| early),
            );
        }
    }
}

/// Gives up what a store has begun and no other one continues.
pub(in crate::file::life) fn abort_unfinished(
    context: &Arc<StagingContext>,
    checkpoint: &Arc<UploadCheckpoint>,
    early: Option<Arc<EarlyStore>>,
) {
    if early.is_none() && !checkpoint.is_in_use() {
        return;
    }
    let writing = Arc::clone(&context.writing);
    let (checkpoint, work) = (Arc::clone(checkpoint), writing.begin_work());
    background::run(async move {
        if let Some(early) = early {
            early.give_up(&FsError::NotFound).await;
        }
        if let Err(error) = writing.abort(&checkpoint).await {
            tracing::warn!("an unfinished upload stays until the next mount: {error}");
        }
        drop(work);
    });
}

impl fmt::Debug for FileParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileParts")
            .field("state", &*self.state.lock())
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
