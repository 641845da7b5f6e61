//! The state that the staged files of one mount share.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use mountpoint_crt_sys::block::{Block, BlockFill, BlockPool};

use super::directory::StagingDirectory;
use super::journal::Journal;
use super::local::{FileMemory, RoomHolders, StoredFiles};
use super::uploads::UploadQueue;
use crate::clock::Clock;
use crate::config::StagingConfig;
use crate::config::limits::WRITE_SIZE_MAX;
use crate::disk_threads::DiskThreads;
use crate::memory::Budget;
use crate::metrics::trace::{WaitCause, waits};
use crate::operation::FsError;
use crate::read::{MemoryHolder, ReadContext};
use crate::write::WriteContext;

/// The shared state of all staged files of a mount. Made once per mount.
pub(in crate::staging) struct StagingContext {
    pub(in crate::staging) config: StagingConfig,
    pub(in crate::staging) directory: Arc<StagingDirectory>,
    pub(in crate::staging) reading: Arc<ReadContext>,
    pub(in crate::staging) writing: Arc<WriteContext>,
    pub(in crate::staging) clock: Clock,
    pub(in crate::staging) threads: DiskThreads,
    /// Makes versions durable and uploads them later; `None` without write-back, and without files
    /// that an earlier mount has left.
    pub(in crate::staging) write_back: Option<WriteBack>,
    /// For the bytes of small files.
    pub(in crate::staging) file_memory: Arc<FileMemory>,
    /// For the reads of small files behind their stores.
    pub(in crate::staging) stored_files: Arc<StoredFiles>,
    /// For writes that find the disk full.
    pub(in crate::staging) room_holders: RoomHolders,
    /// Files that came to rest, since somebody asked.
    pub(in crate::staging) rested: AtomicU64,
    memory: ReadMemory,
    zeros: Block,
}

/// The journal of committed versions, and the queue of their uploads.
#[derive(Debug)]
pub(in crate::staging) struct WriteBack {
    pub(in crate::staging) journal: Journal,
    pub(in crate::staging) queue: Arc<UploadQueue>,
}

/// The mount's memory for blocks.
struct ReadMemory {
    budget: Arc<Budget>,
    pool: BlockPool,
    make_room: Arc<dyn Fn() + Send + Sync>,
}

impl StagingContext {
    pub(in crate::staging) fn new(
        config: &StagingConfig,
        (directory, file_memory): (Arc<StagingDirectory>, Arc<FileMemory>),
        write_back: Option<WriteBack>,
        (reading, writing): (&Arc<ReadContext>, &Arc<WriteContext>),
        clock: Clock,
    ) -> std::io::Result<Arc<Self>> {
        let (budget, pool, make_room) = reading.memory();
        let stored_files = StoredFiles::new(&budget, clock.clone());
        let holder: Weak<dyn MemoryHolder> = Arc::downgrade(&(Arc::clone(&stored_files) as _));
        reading.add_memory_holder(holder);
        let mut zeros = pool.allocate(ZEROS_LEN);
        zeros.append(&[0; ZEROS_LEN]);
        Ok(Arc::new(Self {
            config: config.clone(),
            directory,
            reading: Arc::clone(reading),
            writing: Arc::clone(writing),
            threads: DiskThreads::start("staging", DISK_THREADS, &clock)?,
            clock,
            write_back,
            file_memory,
            stored_files,
            room_holders: RoomHolders::default(),
            rested: AtomicU64::new(0),
            memory: ReadMemory {
                budget,
                pool,
                make_room,
            },
            zeros: zeros.block(),
        }))
    }

    /// Runs `job` on a thread that may wait for the disk. A job whose caller stops waiting runs all
    /// the same.
    pub(in crate::staging) async fn on_disk<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, FsError> + Send + 'static,
    ) -> Result<T, FsError> {
        let answer = waits(WaitCause::Disk, self.threads.answer(job), |_| ()).await;
        let failed = || {
            Err(FsError::Local(
                "a thread of the local disk failed".to_owned(),
            ))
        };
        answer.unwrap_or_else(failed)
    }

    /// The committer of versions; `None` if a close stores them in the bucket.
    pub(in crate::staging) fn committing(&self) -> Option<&WriteBack> {
        let write_back = self.write_back.as_ref();
        write_back.filter(|_| self.config.write_back.is_some())
    }

    /// A block for `len` bytes, when there is memory for it.
    pub(in crate::staging) async fn block(&self, len: u64) -> BlockFill {
        let turn = self.memory.budget.reserve(len);
        (self.memory.make_room)();
        let memory = waits(WaitCause::Memory, turn, |_| ()).await;
        let len = usize::try_from(len).expect("it is a part of one read");
        self.memory.pool.allocate_guarded(len, memory)
    }

    /// A block of [`ZEROS_LEN`] zeros.
    pub(in crate::staging) fn zeros(&self) -> Block {
        self.zeros.clone()
    }
}

impl fmt::Debug for StagingContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagingContext")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Zeros that replies share: those of the largest READ and WRITE.
pub(in crate::staging) const ZEROS_LEN: usize = WRITE_SIZE_MAX;

/// Threads that wait for the disk of staged bytes. An NVMe disk needs a queue of that depth for its
/// full number of small reads; they sleep otherwise.
const DISK_THREADS: usize = 8;
