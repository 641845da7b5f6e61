//! The state that the writers of one mount share: memory, settings, and the context of requests.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use mountpoint_client::ObjectClient;
use mountpoint_client::types::{Key, ObjectHeaders, PutCondition};
use tokio::sync::Semaphore;

use super::content_type;
use super::failure::failed;
use super::memory::buffers::{Grant, MemorySource, WriteMemory, least, stage};
use super::memory::pending::PendingWrite;
use super::memory::pressure::{MemoryPressure, Reclaim};
use super::send::checkpoint::{CheckpointFound, UploadCheckpoint};
use super::send::context::{PendingWork, SendContext};
use super::send::features::ServerFeatures;
use super::send::multipart::Upload;
use super::send::parts::part_sizes::PartPlan;
use super::send::parts::parts_in_flight::PartsInFlight;
use super::send::permission::{Permission, Proof};
use super::send::permission_probe::probe_permission;
use crate::clock::Clock;
use crate::config::WriteConfig;
use crate::config::limits::{COPIES_IN_FLIGHT_MAX, UPLOAD_PART_MIN, WRITE_SIZE_MAX};
use crate::memory::BufferRequest;
use crate::mutate::Mutator;
use crate::mutate::conditions::{Conditional, look};
use crate::operation::FsError;
use crate::sync::Mutex;

/// The shared state of all writers of a mount. Made once per mount.
pub struct WriteContext {
    pub(super) send: Arc<SendContext>,
    pub(super) clock: Clock,
    pub(super) memory: Arc<WriteMemory>,
    pub(super) pressure: Arc<MemoryPressure>,
    pub(super) plan: PartPlan,
    /// Multipart uploads in progress. The lock is a leaf.
    uploads: Mutex<Vec<Weak<Upload>>>,
}

impl WriteContext {
    /// The context of a mount with `config`.
    #[must_use]
    pub fn new(
        client: Arc<dyn ObjectClient>,
        config: WriteConfig,
        clock: Clock,
        memory: MemorySource,
        mutator: Arc<Mutator>,
    ) -> Arc<Self> {
        let fixed = config.part_size.map(|size| fitting(size, &memory));
        let plan = PartPlan::new(fixed, memory.part_max());
        let part = plan.first() + WRITE_SIZE_MAX as u64;
        let memory = WriteMemory::new(memory, part, clock.clone());
        let pressure = MemoryPressure::new(Arc::clone(&memory), clock.clone());
        let send = SendContext {
            journal: Arc::clone(mutator.journal()),
            mutator,
            parts: PartsInFlight::new(client.parts_in_flight()),
            copies: Semaphore::new(COPIES_IN_FLIGHT_MAX),
            client,
            config,
            clock: clock.clone(),
            pressure: Arc::clone(&pressure),
            features: ServerFeatures::default(),
            permission: Permission::default(),
            tally: Arc::default(),
        };
        Arc::new(Self {
            send: Arc::new(send),
            clock,
            memory,
            pressure,
            plan,
            uploads: Mutex::default(),
        })
    }

    /// Skips the permission probe and the trial of copies, for tests of later files.
    #[cfg(test)]
    pub(crate) fn believe(&self) {
        self.send.mutator.believe(true);
        self.send
            .permission
            .stored(&Key::parse("believed").expect("it is a key"));
    }

    /// Helps writers that wait for memory, once. Returns whether any waits.
    #[cfg(test)]
    pub(crate) fn relieve_once(&self) -> bool {
        self.pressure.look()
    }

    /// The permissions of the mount.
    #[must_use]
    pub fn config(&self) -> &WriteConfig {
        &self.send.config
    }

    /// [`FsError::Exists`] if an object has the key, of which S3 was not asked just before, unless
    /// the server is known to refuse a second one.
    pub(crate) async fn check_absent(&self, key: &Key) -> Result<(), FsError> {
        let (conditions, absent) = (self.send.mutator.conditions(), PutCondition::Absent);
        if conditions.keeps(Conditional::Put, &absent) {
            return Ok(());
        }
        let seen = look(&*self.send.client, key, &absent).await;
        seen.map_err(failed)
    }

    /// Bytes of memory that hold written data that S3 does not have yet.
    #[must_use]
    pub fn bytes_held(&self) -> u64 {
        self.memory.used()
    }

    /// Multipart uploads in progress.
    #[must_use]
    pub fn uploads(&self) -> usize {
        let uploads = self.uploads.lock();
        uploads.iter().filter(|it| it.strong_count() > 0).count()
    }

    /// Uploads and renames of which the journal does not know that they are done.
    #[must_use]
    pub fn journal_entries(&self) -> usize {
        self.send.journal.open_entries()
    }

    /// Notes that `thread` has `len` bytes to write.
    pub fn thread_writes(&self, thread: u64, len: usize) {
        self.memory.writes(thread, len);
    }

    /// Keeps the bytes of a WRITE that has to wait.
    #[must_use]
    pub fn hold(&self, data: &[u8]) -> PendingWrite {
        PendingWrite::new(&self.memory, data)
    }

    /// Aborts uploads that mounts of the same bucket left when they were killed.
    pub async fn recover(&self) {
        let aborted = self
            .send
            .journal
            .recover(&*self.send.client, self.clock.wall())
            .await;
        if aborted > 0 {
            tracing::info!("{aborted} uploads of mounts that were killed are aborted");
        }
    }

    /// Asks S3 for the upload of `checkpoint` and its parts. What the answer does not have is sent
    /// again.
    ///
    /// # Errors
    /// S3 may answer later.
    pub async fn confirm(&self, checkpoint: &UploadCheckpoint) -> Result<CheckpointFound, FsError> {
        checkpoint.confirm(&self.send).await
    }

    /// Aborts the upload of `checkpoint`, if there is one: nobody will continue it. One that cannot
    /// be aborted stays noted.
    ///
    /// # Errors
    /// S3 refused it, or is away.
    pub async fn abort(&self, checkpoint: &UploadCheckpoint) -> Result<(), FsError> {
        checkpoint.abort(&self.send).await
    }

    /// Returns when every request in the background has ended, with or without success.
    pub async fn drained(&self) {
        self.send.tally.empty().await;
    }

    /// Counts background work, for which [`Self::drained`] waits until the guard is dropped.
    #[must_use]
    pub fn begin_work(&self) -> PendingWork {
        self.send.begin()
    }

    /// Largest file that can be stored, in bytes.
    #[must_use]
    pub fn file_size_max(&self) -> u64 {
        self.plan.total()
    }

    /// The bytes of the part that has the one at `offset`, where a file is sent in whole parts;
    /// `None` behind the longest file.
    #[must_use]
    pub fn part_at(&self, offset: u64) -> Option<Range<u64>> {
        self.plan.range_at(offset)
    }

    /// A request for memory for `needed` bytes of a part of `whole` bytes that has `held` bytes of
    /// memory. With `is_large`, all of the part is likely to be written.
    #[must_use]
    pub fn request(
        &self,
        (held, needed): (usize, usize),
        whole: usize,
        is_large: bool,
    ) -> BufferRequest {
        let shortest = match self.plan.is_fixed() {
            true => whole as u64,
            false => UPLOAD_PART_MIN.min(whole as u64),
        };
        BufferRequest {
            held: held as u64,
            len: stage(needed, whole) as u64,
            least: least(needed, whole) as u64,
            whole: whole as u64,
            shortest,
            is_large,
        }
    }

    /// Memory at once, or `None`.
    #[must_use]
    pub fn try_memory(&self, request: BufferRequest) -> Option<Grant> {
        self.memory.try_take(request)
    }

    /// Waits for memory for the file `key`, of which `written` bytes were taken. Other files give
    /// some back meanwhile.
    ///
    /// # Errors
    /// There will be none.
    pub async fn memory_for(
        &self,
        key: &Key,
        request: BufferRequest,
        written: u64,
    ) -> Result<Grant, FsError> {
        self.pressure.memory_for(key, request, written).await
    }

    /// Whether writers wait for memory.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.memory.is_short(0)
    }

    /// Counts `bytes` that were written to a file. Returns the count before, which orders files.
    pub fn wrote(&self, bytes: u64) -> u64 {
        self.pressure.written(bytes)
    }

    /// Adds a file that may give memory back.
    pub fn add_file(&self, file: Weak<dyn Reclaim>) {
        self.pressure.register(file);
    }

    /// Whether it is in doubt that `key` may be stored.
    #[must_use]
    pub fn is_doubted(&self, key: &Key) -> bool {
        self.send.permission.is_doubted(key)
    }

    /// Tries whether an object `key` with `headers` may be stored, if that is in doubt.
    ///
    /// # Errors
    /// S3 refuses it, or is away.
    pub async fn prove(&self, key: &Key, headers: &ObjectHeaders) -> Result<(), FsError> {
        while self.is_doubted(key) {
            match self.send.permission.proof(key) {
                Proof::Nothing => return Ok(()),
                Proof::Wait(first) => {
                    // The outcome for another file may not hold for this one.
                    first.wait().await.ok();
                }
                Proof::Own(own) => {
                    let send = Arc::clone(&self.send);
                    probe_permission(send, key.clone(), headers.clone(), own.clone());
                    return own.wait().await;
                }
            }
        }
        Ok(())
    }

    /// Whether every part but the last one has the chosen size.
    #[must_use]
    pub fn has_fixed_parts(&self) -> bool {
        self.plan.is_fixed()
    }

    /// Bytes of part `number` of an upload to `key`.
    ///
    /// # Errors
    /// S3 takes no such part.
    pub(super) fn part_size(&self, key: &Key, number: u16) -> Result<u64, FsError> {
        self.plan.size(number).ok_or_else(|| {
            FsError::TooLarge(format!(
                "{key}: an upload has 10,000 parts at most, which is {} GiB here; a larger --write-part-size or \
                 --memory-target allows more",
                self.plan.total() >> 30
            ))
        })
    }

    /// Whether the server copies parts of objects; `None` before the first copy.
    #[must_use]
    pub fn copies_parts(&self) -> Option<bool> {
        self.send.features.copies_parts()
    }

    /// The client of the mount.
    #[must_use]
    pub fn client(&self) -> &Arc<dyn ObjectClient> {
        &self.send.client
    }

    /// Fails all writers that wait for memory, now and later: each holds the lock of its file while
    /// it waits. For the end of the mount.
    pub fn end_waiting(&self) {
        self.memory.fail_all();
    }

    /// Helps writers that wait for memory, for as long as the context lives. A task of a tokio
    /// runtime.
    pub async fn relieve(context: Weak<Self>) {
        loop {
            let Some(this) = context.upgrade() else {
                return;
            };
            let pressure = Arc::clone(&this.pressure);
            drop(this);
            pressure.relieve().await;
        }
    }

    /// Aborts every upload that is neither completed nor continued by the next mount. For the end
    /// of the mount.
    pub async fn abort_all(&self) {
        let uploads: Vec<_> = self
            .uploads
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for upload in uploads {
            upload.end_with_mount().await;
        }
    }

    /// Whether existing objects can be appended to. Not where objects store attributes that change
    /// with their bytes.
    #[must_use]
    pub fn appends(&self) -> bool {
        self.send.config.allow_append
            && !self.send.config.posix_metadata
            && self.send.client.appends()
    }

    /// Whether a new file begins as an object of its first part, to which the others are appended.
    #[must_use]
    pub fn begins_by_part(&self) -> bool {
        self.send.config.incremental_upload && self.appends()
    }

    pub(super) fn register(&self, upload: &Arc<Upload>) {
        let mut uploads = self.uploads.lock();
        uploads.retain(|known| known.strong_count() > 0);
        uploads.push(Arc::downgrade(upload));
    }

    /// The headers of a new object at `key`.
    #[must_use]
    pub fn headers(&self, key: &Key) -> ObjectHeaders {
        let content_type = self
            .send
            .config
            .infer_content_type
            .then(|| content_type::of(key.as_str()))
            .flatten();
        ObjectHeaders {
            content_type: content_type.map(str::to_owned),
            storage_class: self.send.config.storage_class.clone(),
            metadata: Vec::new(),
            ..ObjectHeaders::default()
        }
    }
}

impl fmt::Debug for WriteContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteContext")
            .field("config", &self.send.config)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// The size of parts if the user asks for `size`: no more than memory holds.
fn fitting(size: u64, memory: &MemorySource) -> u64 {
    let max = memory.fixed_part_max().max(UPLOAD_PART_MIN);
    if size > max {
        tracing::warn!(
            "parts of --write-part-size {size} do not fit into the memory for data: they have {max} bytes; a larger \
             --memory-target allows more"
        );
    }
    size.min(max)
}
