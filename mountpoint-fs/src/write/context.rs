//! What the writers of one mount share: client, memory, settings, and what is still to be sent.

use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use bytes::Bytes;
use mountpoint_client::types::{Checksum, Key, ObjectHeaders, PutCondition, PutRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};
use tokio::sync::Semaphore;

use super::memory::buffers::{MemorySource, WriteMemory};
use super::memory::pending::PendingWrite;
use super::memory::pressure::MemoryPressure;
use super::send::ambiguous_outcome;
use super::send::content_type;
use super::send::features::{ServerFeatures, Storing, Uses};
use super::send::multipart::Upload;
use super::send::part_sizes::PartPlan;
use super::send::parts_in_flight::PartsInFlight;
use super::send::permission::Permission;
use super::types::{Stored, UploadMode};
use crate::clock::Clock;
use crate::config::WriteConfig;
use crate::config::limits::{COPIES_IN_FLIGHT_MAX, UPLOAD_PART_MIN, WRITE_SIZE_MAX};
use crate::journal::Journal;
use crate::mutate::Mutator;
use crate::operation::FsError;
use crate::sync::Mutex;

/// What all writers of a mount share. Made once per mount.
pub struct WriteContext {
    pub(super) client: Arc<dyn ObjectClient>,
    pub(super) config: WriteConfig,
    pub(super) clock: Clock,
    pub(super) memory: Arc<WriteMemory>,
    pub(super) parts: Arc<PartsInFlight>,
    pub(super) plan: PartPlan,
    pub(super) pressure: MemoryPressure,
    pub(super) features: ServerFeatures,
    pub(super) permission: Permission,
    pub(super) journal: Arc<Journal>,
    /// Changes what an object carries.
    pub(super) mutator: Arc<Mutator>,
    /// Leave to have the server copy a part.
    pub(super) copies: Semaphore,
    tally: Arc<Tally>,
    /// Multipart uploads that were begun. The lock is a leaf.
    uploads: Mutex<Vec<Weak<Upload>>>,
}

impl WriteContext {
    /// For a mount with `config`.
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
        Arc::new(Self {
            journal: Arc::clone(mutator.journal()),
            mutator,
            parts: PartsInFlight::new(client.parts_in_flight(), clock.clone()),
            copies: Semaphore::new(COPIES_IN_FLIGHT_MAX),
            client,
            config,
            clock,
            memory,
            plan,
            pressure: MemoryPressure::default(),
            features: ServerFeatures::default(),
            permission: Permission::default(),
            tally: Arc::default(),
            uploads: Mutex::default(),
        })
    }

    /// For tests of what comes behind the first file: that files may be stored was shown.
    #[cfg(test)]
    pub(crate) fn believe(&self) {
        self.permission
            .stored(&Key::parse("believed").expect("it is a key"));
    }

    /// What the mount may change.
    #[must_use]
    pub fn config(&self) -> &WriteConfig {
        &self.config
    }

    /// Bytes that were written and that S3 has not got yet, as far as memory is held for them.
    #[must_use]
    pub fn bytes_held(&self) -> u64 {
        self.memory.used()
    }

    /// `thread` has `len` bytes to write.
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
        let aborted = self.journal.recover(&*self.client, self.clock.wall()).await;
        if aborted > 0 {
            tracing::info!("{aborted} uploads of mounts that were killed are aborted");
        }
    }

    /// Returns when everything that was to be completed has been, well or not.
    pub async fn drained(&self) {
        self.tally.empty().await;
    }

    /// Makes those fail that wait for memory, now or later: each holds its file meanwhile. For the
    /// end of the mount.
    pub fn end_waiting(&self) {
        self.memory.fail_all();
    }

    /// Aborts every upload that is not completed. For the end of the mount.
    pub async fn abort_all(&self) {
        let uploads: Vec<_> = self
            .uploads
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for upload in uploads {
            upload.abort().await;
        }
    }

    /// Whether existing objects can be appended to. Not where objects carry what changes with their
    /// bytes.
    #[must_use]
    pub fn appends(&self) -> bool {
        self.config.allow_append && !self.config.posix_metadata && self.client.appends()
    }

    /// How new files are made.
    pub(super) fn mode_of_new(&self) -> UploadMode {
        if self.config.incremental_upload {
            self.mode_behind()
        } else {
            UploadMode::Upload
        }
    }

    /// How bytes come behind an object.
    pub(super) fn mode_behind(&self) -> UploadMode {
        if self.appends() {
            UploadMode::Append
        } else {
            UploadMode::Upload
        }
    }

    /// Something is to be completed, until the guard is dropped.
    pub(super) fn begin(&self) -> Pending {
        self.tally.0.lock().count += 1;
        Pending(Arc::clone(&self.tally))
    }

    pub(super) fn register(&self, upload: &Arc<Upload>) {
        let mut uploads = self.uploads.lock();
        uploads.retain(|known| known.strong_count() > 0);
        uploads.push(Arc::downgrade(upload));
    }

    /// What a new object at `key` carries.
    pub(super) fn headers(&self, key: &Key) -> ObjectHeaders {
        let content_type = self
            .config
            .infer_content_type
            .then(|| content_type::of(key.as_str()))
            .flatten();
        ObjectHeaders {
            content_type: content_type.map(str::to_owned),
            storage_class: self.config.storage_class.clone(),
            metadata: Vec::new(),
            ..ObjectHeaders::default()
        }
    }

    /// A whole object in one request.
    pub(super) async fn put(
        &self,
        key: &Key,
        body: Bytes,
        checksum: Option<Checksum>,
        condition: PutCondition,
        headers: ObjectHeaders,
    ) -> Result<Stored, FsError> {
        let size = body.len() as u64;
        let wanted = self.features.reduce(Uses {
            condition,
            checksum,
            algorithm: None,
        });
        let mut uses = wanted.clone();
        loop {
            let request = PutRequest {
                key: key.clone(),
                body: body.clone(),
                condition: uses.condition.clone(),
                checksum: uses.checksum,
                headers: headers.clone(),
            };
            match self.client.put(request).await {
                Ok(output) => {
                    self.features.learn(&wanted, &uses);
                    let etag = output.etag;
                    return Ok(Stored { etag, size });
                }
                Err(error) => match self.features.without(&uses, &error) {
                    Some(reduced) => uses = reduced,
                    None => {
                        self.features.refused(Storing::Whole, &uses, &error);
                        let (client, pool) = (&*self.client, self.memory.pool());
                        let stored =
                            ambiguous_outcome::of_object(client, pool, key, &body, &error).await;
                        let not_made = || not_made(error, &uses.condition, key);
                        return stored.map_err(FsError::from)?.ok_or_else(not_made);
                    }
                },
            }
        }
    }
}

impl fmt::Debug for WriteContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteContext")
            .field("config", &self.config)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// The size of parts where `size` is asked for: no more than memory holds.
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

/// What the application is told of an object that was not made under `condition`.
pub(super) fn not_made(error: ClientError, condition: &PutCondition, key: &Key) -> FsError {
    match (condition, &error.kind) {
        (PutCondition::Match(_), ErrorKind::PreconditionFailed | ErrorKind::NotFound) => {
            FsError::Stale(format!(
                "{key} was changed by somebody else while it was written: {error}"
            ))
        }
        _ => failed(error),
    }
}

/// What the application is told of a failed upload, and the log of what would change it.
pub(super) fn failed(error: ClientError) -> FsError {
    match error.kind {
        ErrorKind::PreconditionFailed => FsError::Exists,
        ErrorKind::NotFound => FsError::Stale(error.to_string()),
        ErrorKind::Denied => FsError::Denied(format!(
            "{error}; writing needs s3:PutObject and s3:AbortMultipartUpload on the bucket's objects, and \
             kms:GenerateDataKey where they are encrypted with a KMS key"
        )),
        _ => FsError::from(error),
    }
}

/// How much is still to be completed, and who waits for the end of it. The lock is a leaf.
#[derive(Debug, Default)]
struct Tally(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    count: usize,
    wakers: Vec<Waker>,
}

impl Tally {
    async fn empty(&self) {
        std::future::poll_fn(|cx| {
            let mut count = self.0.lock();
            if count.count == 0 {
                return Poll::Ready(());
            }
            count.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// One thing that is to be completed.
#[derive(Debug)]
pub(super) struct Pending(Arc<Tally>);

impl Drop for Pending {
    fn drop(&mut self) {
        let wakers = {
            let mut count = self.0.0.lock();
            count.count -= 1;
            if count.count == 0 {
                std::mem::take(&mut count.wakers)
            } else {
                Vec::new()
            }
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
