//! The state that the staged files of one mount share.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mountpoint_crt_sys::block::{Block, BlockFill, BlockPool};

use super::directory::{DataFileName, StagingDirectory};
use super::journal::Journal;
use super::local::{DataFiles, FileMemory, RoomHolders, StoredFiles, disk_error};
use super::queue::UploadQueue;
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
pub(in crate::file) struct StagingContext {
    pub(in crate::file) config: StagingConfig,
    /// `None` if files are in memory alone.
    pub(in crate::file) directory: Option<Arc<StagingDirectory>>,
    pub(in crate::file) reading: Arc<ReadContext>,
    pub(in crate::file) writing: Arc<WriteContext>,
    pub(in crate::file) clock: Clock,
    threads: OnceLock<DiskThreads>,
    /// Makes versions durable and uploads them later; `None` without write-back, and without files
    /// that an earlier mount has left.
    pub(in crate::file) write_back: Option<WriteBack>,
    /// For the bytes of small files.
    pub(in crate::file) file_memory: Arc<FileMemory>,
    /// For the reads of small files behind their stores.
    pub(in crate::file) stored_files: Arc<StoredFiles>,
    /// For writes that find the disk full.
    pub(in crate::file) room_holders: RoomHolders,
    /// Files that came to rest, since somebody asked.
    pub(in crate::file) rested: AtomicU64,
    memory: ReadMemory,
    zeros: OnceLock<Block>,
    /// The names of files that are in memory alone.
    next_name: AtomicU64,
}

/// The journal of committed versions, and the queue of their uploads.
#[derive(Debug)]
pub(in crate::file) struct WriteBack {
    pub(in crate::file) journal: Journal,
    pub(in crate::file) queue: Arc<UploadQueue>,
}

/// The mount's memory for blocks.
struct ReadMemory {
    budget: Arc<Budget>,
    pool: BlockPool,
    make_room: Arc<dyn Fn() + Send + Sync>,
}

impl StagingContext {
    pub(in crate::file) fn new(
        config: &StagingConfig,
        (directory, file_memory): (Option<Arc<StagingDirectory>>, Arc<FileMemory>),
        write_back: Option<WriteBack>,
        (reading, writing): (&Arc<ReadContext>, &Arc<WriteContext>),
        clock: Clock,
    ) -> Arc<Self> {
        let (budget, pool, make_room) = reading.memory();
        let stored_files = StoredFiles::new(&budget, clock.clone());
        let holder: Weak<dyn MemoryHolder> = Arc::downgrade(&(Arc::clone(&stored_files) as _));
        reading.add_memory_holder(holder);
        Arc::new(Self {
            config: config.clone(),
            directory,
            reading: Arc::clone(reading),
            writing: Arc::clone(writing),
            threads: OnceLock::new(),
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
            zeros: OnceLock::new(),
            next_name: AtomicU64::new(0),
        })
    }

    /// The staging directory.
    ///
    /// # Errors
    /// There is none.
    pub(in crate::file) fn directory(&self) -> Result<&Arc<StagingDirectory>, FsError> {
        let directory = self.directory.as_ref();
        directory.ok_or_else(|| FsError::Local("the mount has no --staging".to_owned()))
    }

    /// The application's error for a failure of the local disk.
    pub(in crate::file) fn disk_error(&self, error: &std::io::Error) -> FsError {
        match self.directory() {
            Ok(directory) => disk_error(directory, error),
            Err(error) => error,
        }
    }

    /// The data files of a new file.
    pub(in crate::file) fn new_files(&self) -> DataFiles {
        match &self.directory {
            Some(directory) => {
                let are_summed = self.committing().is_some();
                DataFiles::new(directory, &self.file_memory, are_summed)
            }
            None => {
                let name = DataFileName(self.next_name.fetch_add(1, Ordering::Relaxed));
                DataFiles::in_memory(name, &self.writing)
            }
        }
    }

    fn threads(&self) -> Result<&DiskThreads, FsError> {
        if let Some(threads) = self.threads.get() {
            return Ok(threads);
        }
        let started = DiskThreads::start("staging", DISK_THREADS, &self.clock);
        let started = started.map_err(|error| {
            FsError::Local(format!(
                "a thread of the local disk cannot be started: {error}"
            ))
        })?;
        Ok(self.threads.get_or_init(|| started))
    }

    /// The time of a change. Without a disk it is one that an object has: in whole seconds.
    pub(in crate::file) fn wall_now(&self) -> SystemTime {
        let now = self.clock.wall();
        match self.directory.is_some() {
            true => now,
            false => {
                let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
                UNIX_EPOCH + Duration::from_secs(since.as_secs())
            }
        }
    }

    /// Runs `job` on a thread that may wait for the disk. A job whose caller stops waiting runs all
    /// the same.
    pub(in crate::file) async fn on_disk<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, FsError> + Send + 'static,
    ) -> Result<T, FsError> {
        let answer = waits(WaitCause::Disk, self.threads()?.answer(job), |_| ()).await;
        let failed = || {
            Err(FsError::Local(
                "a thread of the local disk failed".to_owned(),
            ))
        };
        answer.unwrap_or_else(failed)
    }

    /// The committer of versions; `None` if a close stores them in the bucket.
    pub(in crate::file) fn committing(&self) -> Option<&WriteBack> {
        let write_back = self.write_back.as_ref();
        write_back.filter(|_| self.config.write_back.is_some())
    }

    /// A block for `len` bytes, when there is memory for it.
    pub(in crate::file) async fn block(&self, len: u64) -> BlockFill {
        let turn = self.memory.budget.reserve(len);
        (self.memory.make_room)();
        let memory = waits(WaitCause::Memory, turn, |_| ()).await;
        let len = usize::try_from(len).expect("it is a part of one read");
        self.memory.pool.allocate_guarded(len, memory)
    }

    /// A block of [`ZEROS_LEN`] zeros.
    pub(in crate::file) fn zeros(&self) -> Block {
        let make = || {
            let mut zeros = self.memory.pool.allocate(ZEROS_LEN);
            zeros.append(&[0; ZEROS_LEN]);
            zeros.block()
        };
        self.zeros.get_or_init(make).clone()
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
pub(in crate::file) const ZEROS_LEN: usize = WRITE_SIZE_MAX;

/// Threads that wait for the disk of staged bytes. An NVMe disk needs a queue of that depth for its
/// full number of small reads; they sleep otherwise.
const DISK_THREADS: usize = 8;
