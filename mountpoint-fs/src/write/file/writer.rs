//! One open file during its writing.
//!
//! `intake` takes bytes one after the other into a buffer, `store` hands full parts to the
//! [`Sink`] and makes the object when the file is closed or synchronised. Invariants: a write is
//! taken as a whole, so that a write that is given up while it waits has changed nothing; the first
//! failure is final; the object has all bytes that were taken.
//!
//! A stored file may continue: a small file is stored again as a whole, a large one as a copy of
//! itself on the server and the new bytes.
//!
//! [`Sink`]: super::sink::Sink

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use mountpoint_client::types::{Key, ObjectHeaders};
use tokio::sync::Mutex as AsyncMutex;

use super::buffer::Buffer;
use super::reordering::Reordering;
use super::sink::Sink;
use super::state::{FileState, Replaces, Stage};
use crate::operation::{FsError, Progress, ReadData};
use crate::sync::Mutex;
use crate::write::background;
use crate::write::checksum::RunningChecksum;
use crate::write::context::WriteContext;
use crate::write::failure::Failure;
use crate::write::memory::pressure::Reclaim;
use crate::write::send::multipart::Upload;
use crate::write::send::put::Adopts;
use crate::write::types::{Beginning, UploadMode, WriteObserver};

/// An open file.
pub struct Writer {
    pub(in crate::write) context: Arc<WriteContext>,
    pub(in crate::write) key: Key,
    /// Whether the file was created without asking S3.
    pub(in crate::write) is_unasked: bool,
    /// The way of full parts, unless an upload has begun.
    pub(in crate::write) mode: UploadMode,
    pub(in crate::write) progress: Arc<Progress>,
    pub(in crate::write) observer: Arc<dyn WriteObserver>,
    pub(in crate::write) failure: Arc<Failure>,
    /// The metadata of the object. The lock is a leaf.
    pub(in crate::write) headers: Mutex<ObjectHeaders>,
    pub(in crate::write) reordering: Reordering,
    /// The permission to store the file is proven, or was not in doubt.
    pub(in crate::write) is_permitted: AtomicBool,
    /// Lock H of the order H, I, T; the only lock that is held during waits.
    pub(in crate::write) state: AsyncMutex<FileState>,
}

impl Writer {
    /// A file at `key`. Nothing is sent until a part is full or the file is closed.
    pub fn new(
        context: &Arc<WriteContext>,
        key: Key,
        beginning: Beginning,
        progress: Arc<Progress>,
        observer: Arc<dyn WriteObserver>,
    ) -> Arc<Self> {
        let is_unasked = matches!(beginning, Beginning::NewUnasked);
        let mode = match &beginning {
            Beginning::Grow(..) => UploadMode::Append,
            Beginning::Extend(_) | Beginning::Fill(_) => context.mode_behind(),
            _ => context.mode_of_new(),
        };
        let state = FileState::new(beginning, &key, context.clock.now());
        let writer = Arc::new(Self {
            context: Arc::clone(context),
            headers: Mutex::new(context.headers(&key)),
            key,
            is_unasked,
            mode,
            progress,
            failure: Arc::new(Failure::new(&observer)),
            observer,
            reordering: Reordering::default(),
            is_permitted: AtomicBool::new(false),
            state: AsyncMutex::new(state),
        });
        let reclaim: Weak<dyn Reclaim> = Arc::downgrade(&(Arc::clone(&writer) as Arc<dyn Reclaim>));
        context.pressure.register(reclaim);
        writer
    }

    /// The size and time that other processes see.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The key of its object.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Sets the objects of other hosts that may stand for the new file. Called before the first
    /// write.
    pub fn may_adopt(&self, adopts: Adopts) {
        if let Ok(mut state) = self.state.try_lock()
            && let Some(known) = &mut state.adopts
        {
            *known = adopts;
        }
    }

    /// Whether the bucket does not hold all taken bytes, or nothing was stored yet.
    pub async fn is_open(&self) -> bool {
        let mut state = self.state.lock().await;
        self.look(&mut state);
        let is_whole = state.extent.end >= state.extent.len_set;
        let is_stored = matches!(state.stage, Stage::Stored(_)) && is_whole;
        !is_stored && self.failure.get().is_none()
    }

    /// The object in the bucket if the last bytes are not stored, for the log.
    pub async fn what_stays(&self) -> &'static str {
        let mut state = self.state.lock().await;
        self.look(&mut state);
        state.what_stays()
    }

    /// The bytes of the file from `offset` on that were not sent yet, at most `size` of them.
    ///
    /// `None` if the byte at `offset` was sent, or belongs to zeros that the close will write. An
    /// error if the file has failed.
    pub async fn unsent(&self, offset: u64, size: u32) -> Result<Option<ReadData>, FsError> {
        let state = self.state.lock().await;
        if let Some(error) = self.failure.get() {
            return Err(error);
        }
        if offset >= state.extent.len() {
            return Ok(Some(ReadData::default()));
        }
        // The buffer holds the file's last bytes.
        let begin = state.extent.end - state.buffer.len() as u64;
        let bytes = state.buffer.bytes();
        let Some(bytes) = bytes.filter(|_| (begin..state.extent.end).contains(&offset)) else {
            return Ok(None);
        };
        let skipped = usize::try_from(offset - begin).expect("it is within the buffer");
        let start = bytes.start + skipped;
        let end = bytes.end.min(start + size as usize);
        let mut unsent = ReadData::default();
        unsent.slices.push((bytes.block, start..end));
        Ok(Some(unsent))
    }

    /// Whether the bucket has a beginning of the file, which is no older version of it.
    pub async fn has_stored_beginning(&self) -> bool {
        let mut state = self.state.lock().await;
        self.look(&mut state);
        matches!(state.stage, Stage::Stored(_)) || matches!(state.replaces, Replaces::Version(_))
    }

    /// The first failure, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<FsError> {
        self.failure.get()
    }

    /// Returns when no request of the file is in flight: each was answered, or has failed.
    pub async fn arrived(&self) {
        let in_flight = {
            let mut state = self.state.lock().await;
            self.look(&mut state);
            match (&state.stage, &state.sink) {
                (Stage::Storing(outcome), _) => Some(outcome.clone()),
                (_, Sink::Append { upload, .. }) => upload.last(),
                _ => None,
            }
        };
        if let Some(outcome) = in_flight {
            drop(outcome.wait().await);
        }
    }

    /// Gives the file up: no object appears, unless it was stored before.
    pub async fn abandon(&self, error: &FsError) {
        self.failure.set(error);
        let upload = self.state.lock().await.sink.take_upload();
        if let Some(upload) = upload {
            upload.give_up(error).await;
        }
    }

    /// Ends the upload of a failed file in the background.
    pub(in crate::write) fn fail(&self, state: &mut FileState, error: &FsError) {
        self.failure.set(error);
        self.reordering.release_all();
        // Other writers may wait for the memory.
        state.buffer = Buffer::Empty;
        if let Some(upload) = state.sink.take_upload() {
            let (pending, error) = (self.context.send.begin(), error.clone());
            background::run(async move {
                upload.give_up(&error).await;
                drop(pending);
            });
        }
    }

    /// Aborts `upload` in the background.
    pub(in crate::write) fn abort(&self, upload: Arc<Upload>) {
        let pending = self.context.send.begin();
        background::run(async move {
            upload.abort().await;
            drop(pending);
        });
    }

    /// Returns when no object is being made; an error if the file has failed.
    pub(in crate::write) async fn settled(&self, state: &mut FileState) -> Result<(), FsError> {
        loop {
            if let Some(error) = self.failure.get() {
                return Err(error);
            }
            self.look(state);
            let Stage::Storing(outcome) = &state.stage else {
                return Ok(());
            };
            let outcome = outcome.clone();
            drop(outcome.wait().await);
        }
    }

    /// Continues the stored file.
    pub(in crate::write) fn resume(&self, state: &mut FileState) -> Result<(), FsError> {
        if let Stage::Stored(stored) = &state.stage {
            if let Err(error) = self.observer.resumed() {
                // Readers block this only temporarily; a stale name is fatal.
                if matches!(error, FsError::Stale(_)) {
                    self.fail(state, &error);
                }
                return Err(error);
            }
            state.replaces = Replaces::Version(stored.etag.clone());
            state.stage = Stage::Open;
        }
        self.untime(state);
        Ok(())
    }

    /// Notices that the object was made.
    pub(in crate::write) fn look(&self, state: &mut FileState) {
        state.look(&self.key, self.context.send.config.checksum, self.mode);
    }

    /// The checksum of the next part, over no bytes yet.
    pub(in crate::write) fn running_checksum(&self, state: &FileState) -> RunningChecksum {
        RunningChecksum::new(state.sink.algorithm(self.context.send.config.checksum))
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("key", &self.key)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
