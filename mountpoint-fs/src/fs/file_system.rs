//! The operations of a mounted bucket.
//!
//! Each is a few lines: [`Namespace`] owns the names, [`HandleTable`] the open files, [`Reader`]
//! the bytes. Knows no FUSE message and no errno. A future that is dropped while it waits has
//! changed nothing. Runs on any thread that polls it and never blocks that thread.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime};

use mountpoint_client::ObjectClient;
use mountpoint_crt_sys::block::trim_allocator;
use tokio::sync::Mutex as AsyncMutex;

use super::open_directory::OpenDirectory;
use super::staged_names::staged_files;
use crate::cache::Caches;
use crate::clock::Clock;
use crate::config::limits::NAME_LEN_MAX;
use crate::config::{FsConfig, WriteConfig};
use crate::handle::{HandleTable, OpenFile, StagedFiles, StagedMarkers};
use crate::mutate::Mutator;
use crate::namespace::{Namespace, WalkStats};
use crate::operation::{
    Attributes, DirectorySink, Entry, EvictionBatch, FsError, HandleNo, InodeNo, Looking, Purpose,
    ReadData, StaleName, StatFs,
};
use crate::read::mode::ReadModes;
use crate::read::{ReadContext, SiblingPrefetch, SiblingPrefetchStats};
use crate::staging::Staging;
use crate::sync::Mutex;
use crate::write::{MemorySource, WriteContext};

/// A mounted bucket. Shared as `Arc<FileSystem>`.
///
/// Every operation may be called from any thread and never blocks it: a wait for S3 or memory is a
/// future.
#[derive(Debug)]
pub struct FileSystem {
    pub(super) namespace: Arc<Namespace>,
    pub(super) reading: Arc<ReadContext>,
    pub(super) read_modes: ReadModes,
    /// Set where files are opened as they were last known.
    pub(super) sibling_prefetch: Option<SiblingPrefetch>,
    pub(super) writing: Arc<WriteContext>,
    pub(super) clock: Clock,
    pub(super) files: HandleTable<OpenFile>,
    pub(super) write: WriteConfig,
    pub(super) mutator: Arc<Mutator>,
    /// Owner of new files and directories.
    pub(super) owner: (u32, u32),
    /// Default permission bits of directories.
    pub(super) dir_mode: u16,
    /// Files that are written in place: in memory, or in the mount's directory for them.
    pub(super) staged: Arc<StagedFiles>,
    /// Markers of directories that the bucket lacks.
    pub(super) markers: Arc<StagedMarkers>,
    pub(super) directories: HandleTable<OpenDirectory>,
}

impl FileSystem {
    /// A file system over `client`'s bucket.
    #[must_use]
    pub fn new(client: Arc<dyn ObjectClient>, config: FsConfig, clock: Clock) -> Self {
        Self::with_caches(client, config, Caches::default(), clock)
    }

    /// A file system over `client`'s bucket that keeps what it reads in `caches`.
    #[must_use]
    pub fn with_caches(
        client: Arc<dyn ObjectClient>,
        config: FsConfig,
        caches: Caches,
        clock: Clock,
    ) -> Self {
        let saved = caches.disk.as_ref().and_then(|cache| cache.listings());
        let namespace = Namespace::new(
            Arc::clone(&client),
            &config,
            saved.cloned(),
            clock.clone(),
            clock.wall(),
        );
        let read_modes = ReadModes::new(config.read.mode, config.read.machine_memory);
        let reading = ReadContext::new(
            Arc::clone(&client),
            config.read,
            caches.clone(),
            clock.clone(),
        );
        let sibling_prefetch = config.names.opens_unasked;
        let sibling_prefetch = sibling_prefetch.then(|| SiblingPrefetch::new(Arc::clone(&reading)));
        let (budget, pool, make_room) = reading.memory();
        if let Some(cache) = caches.disk {
            cache.count_in(&budget);
            reading.set_local_files(cache);
        }
        let memory = MemorySource {
            budget,
            pool,
            make_room,
        };
        let mutator = Mutator::new(Arc::clone(&client), &config.write, clock.clone());
        let write = config.write.clone();
        let changes = Arc::clone(&mutator);
        let writing = WriteContext::new(client, config.write, clock.clone(), memory, changes);
        let namespace = Arc::new(namespace);
        let staging = Staging::in_memory(&reading, &writing, clock.clone());
        Self {
            write,
            mutator,
            owner: (config.uid, config.gid),
            dir_mode: config.dir_mode,
            staged: staged_files(staging, &namespace),
            namespace,
            reading,
            read_modes,
            sibling_prefetch,
            writing,
            clock,
            files: HandleTable::default(),
            markers: Arc::default(),
            directories: HandleTable::default(),
        }
    }

    /// Gives back memory that was idle for a while. The caller repeats this every
    /// [`READER_IDLE`](crate::config::limits::READER_IDLE).
    pub fn give_back_idle(&self) {
        self.namespace.give_back_idle();
        self.reading.give_back_idle();
        if let Some(sibling_prefetch) = &self.sibling_prefetch {
            sibling_prefetch.give_back_idle();
        }
        let has_rested_many = self.staged.staging().has_rested_many();
        if self.namespace.has_dropped_many() || has_rested_many {
            trim_allocator();
        }
    }

    /// Most bytes of the memory for data that were ever held at once.
    #[must_use]
    pub fn memory_peak(&self) -> u64 {
        self.reading.stats().budget_peak
    }

    /// Sends second GETs for late ones, for as long as the file system lives. A task of a tokio
    /// runtime.
    pub fn hedge(&self) -> impl Future<Output = ()> + Send + use<> {
        self.reading.hedge()
    }

    /// Helps writers that wait for memory, for as long as the file system lives. A task of a tokio
    /// runtime.
    pub fn relieve_writers(&self) -> impl Future<Output = ()> + Send + use<> {
        WriteContext::relieve(Arc::downgrade(&self.writing))
    }

    /// Finds `name` in a directory and raises its inode's lookup count by one.
    pub async fn lookup(&self, parent: InodeNo, name: &OsStr) -> Result<Entry, FsError> {
        self.lookup_for(parent, name, &Looking).await
    }

    /// Finds `name` for a system call whose `purpose` may be more than a lookup.
    pub async fn lookup_for(
        &self,
        parent: InodeNo,
        name: &OsStr,
        purpose: &dyn Purpose,
    ) -> Result<Entry, FsError> {
        let mut entry = self.namespace.lookup(parent, name, purpose).await?;
        self.show_staged_marker(&mut entry.attributes);
        Ok(entry)
    }

    /// Whether the lookup of the system call that opens `ino` has just asked S3 about it. Once.
    #[must_use]
    pub fn vouches(&self, ino: InodeNo, purpose: &dyn Purpose) -> bool {
        self.namespace.vouches(ino, purpose)
    }

    /// Waits until no later mount shows names from before the changes so far.
    pub async fn settled(&self) {
        self.namespace.settled().await;
    }

    /// How long the kernel may keep the absence of `name` after a lookup.
    #[must_use]
    pub fn negative_ttl(&self, parent: InodeNo, name: &OsStr) -> Duration {
        self.namespace.negative_ttl(parent, name)
    }

    /// Whether directory entries tell no kind of file for sure: the kernel looks each up.
    #[must_use]
    pub fn lists_names_only(&self) -> bool {
        self.namespace.lists_names_only()
    }

    /// Gives back `count` lookups of an inode; an inode without lookups is dropped.
    pub fn forget(&self, ino: InodeNo, count: u64) {
        self.namespace.forget(ino, count);
    }

    /// stat data of an inode, from S3 if they are too old.
    ///
    /// [`FsError::NotFound`] if the inode's name is gone, [`FsError::Stale`] if the name means
    /// another object.
    pub async fn attributes(&self, ino: InodeNo) -> Result<Attributes, FsError> {
        let mut attributes = self.namespace.attributes(ino).await?;
        self.show_staged_marker(&mut attributes);
        Ok(attributes)
    }

    /// Whether `ino` has an open handle.
    #[must_use]
    pub fn is_open(&self, ino: InodeNo) -> bool {
        self.namespace.is_open(ino)
    }

    /// Size of the file `ino` as it was stored last, as far as is known.
    #[must_use]
    pub fn stored_size(&self, ino: InodeNo) -> Option<u64> {
        let stored = self.namespace.stored_version(ino);
        stored.map(|(_, version)| version.size)
    }

    /// Reads up to `size` bytes; fewer only at the end of the file.
    ///
    /// `fills_cache` means that the kernel asks for pages, not an application for bytes.
    pub async fn read(
        &self,
        handle: HandleNo,
        offset: u64,
        size: u32,
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let file = self.files.get(handle)?;
        if let Some(open) = self.staged_of(&file) {
            return self.read_staged(&open, (offset, size), fills_cache).await;
        }
        let (ino, opened, watch) = file.reading()?;
        if let Some(watch) = watch {
            self.read_modes.observe(watch, offset, size, fills_cache);
        }
        if opened.0.is_empty() && self.namespace.has_bytes(ino) {
            // A short read would be the end of the file for the kernel, which may know of more
            // bytes by now.
            return Err(FsError::Stale(
                "the file was empty when it was opened, and was written since".to_owned(),
            ));
        }
        let read = self.read_opened(ino, opened, (offset, size), fills_cache);
        read.await
    }

    /// The time of day.
    pub(super) fn wall_now(&self) -> SystemTime {
        self.clock.wall()
    }

    /// Closes a file.
    pub fn release(&self, handle: HandleNo) {
        let Some(file) = self.files.remove(handle) else {
            return;
        };
        if let OpenFile::Reading {
            watch: Some(watch), ..
        } = &*file
        {
            self.read_modes.close(watch, self.reading.consumed());
        }
        match &*file {
            OpenFile::Staged(handle) => self.release_staged(&handle.open, handle.writes),
            OpenFile::Reading { ino, .. } => {
                self.namespace.close(*ino);
                self.end_staged(*ino);
            }
        }
    }

    /// The key of `ino`, or of `name` in it, for the log.
    #[must_use]
    pub fn key_text(&self, ino: InodeNo, name: Option<&OsStr>) -> Option<String> {
        self.namespace.key_text(ino, name)
    }

    /// Names that the kernel should forget, as they become known. Can be taken once.
    #[must_use]
    pub fn take_stale_names(&self) -> Option<Receiver<StaleName>> {
        self.namespace.take_stale_names()
    }

    /// Whether the kernel should still forget this name: no lookup has found it since.
    #[must_use]
    pub fn is_still_stale(&self, stale: &StaleName) -> bool {
        self.namespace.is_still_stale(stale)
    }

    /// Some unused files, if there are too many inodes, and the next call's time.
    #[must_use]
    pub fn eviction_batch(&self) -> EvictionBatch {
        self.namespace.eviction_batch()
    }

    /// Opens a directory for reading.
    pub async fn open_directory(&self, ino: InodeNo) -> Result<HandleNo, FsError> {
        let listing = self.namespace.open_directory(ino)?;
        Ok(self.directories.insert(OpenDirectory {
            ino,
            listing: AsyncMutex::new(listing),
            written: Mutex::default(),
        }))
    }

    /// Offers entries from `offset` on to `sink`, `.` and `..` first.
    ///
    /// Stops when the sink is full, the directory ends, or the next entry needs a wait. The
    /// directory has ended when nothing was added.
    ///
    /// With `plus`, each entry that the sink took (but `.` and `..`) raised its inode's lookup
    /// count by one.
    pub async fn read_directory(
        &self,
        handle: HandleNo,
        offset: u64,
        plus: bool,
        sink: &mut dyn DirectorySink,
    ) -> Result<(), FsError> {
        self.directories
            .get(handle)?
            .read(&self.namespace, offset, plus, sink)
            .await
    }

    /// Closes a directory.
    pub fn release_directory(&self, handle: HandleNo) {
        if let Some(directory) = self.directories.remove(handle) {
            self.namespace.close(directory.ino);
        }
    }

    /// Notes the kernel's read-ahead in bytes.
    pub fn set_readahead(&self, bytes: u32) {
        self.read_modes.set_readahead(bytes);
    }

    /// Size of the file system: practically endless. Tools count bytes in 64 bits with a sign.
    #[must_use]
    pub fn statfs(&self) -> StatFs {
        let name_len_max = u32::try_from(NAME_LEN_MAX).expect("255 fits");
        StatFs {
            block_size: 4096,
            blocks: (1 << 62) / 4096,
            name_len_max,
        }
    }

    /// Listing pages ahead of their readers or in flight, of all open directories.
    #[must_use]
    pub fn listing_pages_ahead(&self) -> usize {
        self.namespace.listing_pages_ahead()
    }

    /// LISTs ahead of walks so far, and what they were good for.
    #[must_use]
    pub fn walk_stats(&self) -> WalkStats {
        self.namespace.walk_stats()
    }

    /// How often a listing met a key that cannot be shown. The log names one of each directory.
    #[must_use]
    pub fn hidden_keys(&self) -> u64 {
        self.namespace.hidden_keys()
    }

    /// Statistics of the files that were fetched before they were opened.
    #[must_use]
    pub fn sibling_prefetch(&self) -> SiblingPrefetchStats {
        let sibling_prefetch = self.sibling_prefetch.as_ref();
        sibling_prefetch
            .map(SiblingPrefetch::stats)
            .unwrap_or_default()
    }

    /// Number of inodes besides the root. Those that the kernel knows and those that are open.
    #[must_use]
    pub fn inode_count(&self) -> usize {
        self.namespace.inode_count()
    }
}
