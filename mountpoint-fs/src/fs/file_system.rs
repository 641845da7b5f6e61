//! The operations of a mounted bucket: the façade, which looks handles up and forwards.
//!
//! [`Namespace`] owns the names, [`HandleTable`] the open files, [`Reader`](crate::read::Reader)
//! the bytes. Knows no FUSE message and no errno. A future that is dropped while it waits has
//! changed nothing. Runs on any thread that polls it and never blocks that thread.

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use bytes::Bytes;
use mountpoint_client::ObjectClient;
use tokio::sync::Mutex as AsyncMutex;

use super::open_directory::OpenDirectory;
use super::opening::{self, OpenFiles};
use super::parts::Parts;
use super::permission::{Change, permit};
use super::written::{read_newest, staged_files};
use super::{attributes, markers, moved, names, writing};
use crate::cache::Caches;
use crate::clock::Clock;
use crate::config::FsConfig;
use crate::config::limits::NAME_LEN_MAX;
use crate::file::Staging;
use crate::handle::{Closing, HandleTable, OpenFile, Opener};
use crate::mutate::Mutator;
use crate::namespace::Namespace;
use crate::operation::{
    AllocateMode, AttributeChange, Attributes, DirectorySink, Entry, EvictionBatch, FileKind,
    FsError, HandleNo, InodeNo, Maker, OpenOptions, Opened, Purpose, ReadData, RenameMode, SetMode,
    StaleName, StatFs, Stop, WriteOptions,
};
use crate::read::mode::ReadModes;
use crate::read::{ReadContext, SiblingPrefetch};
use crate::sync::Mutex;
use crate::write::{MemorySource, PendingWrite, WriteContext};

/// A mounted bucket. Shared as `Arc<FileSystem>`.
///
/// Every operation may be called from any thread and never blocks it: a wait for S3 or memory is a
/// future.
#[derive(Debug)]
pub struct FileSystem {
    pub(super) parts: Parts,
    pub(super) files: OpenFiles,
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
        let parts = Parts {
            config: write,
            clock,
            staged: staged_files(staging, &namespace),
            namespace,
            reading,
            writing,
            mutator,
            markers: Arc::default(),
            owner: (config.uid, config.gid),
            dir_mode: config.dir_mode,
        };
        let files = OpenFiles {
            handles: HandleTable::default(),
            read_modes,
            sibling_prefetch,
        };
        Self {
            parts,
            files,
            directories: HandleTable::default(),
        }
    }

    /// Finds `name` for a system call whose `purpose` may be more than a lookup.
    pub async fn lookup_for(
        &self,
        parent: InodeNo,
        name: &OsStr,
        purpose: &dyn Purpose,
    ) -> Result<Entry, FsError> {
        let mut entry = self.parts.namespace.lookup(parent, name, purpose).await?;
        markers::show_staged_marker(&self.parts, &mut entry.attributes);
        Ok(entry)
    }

    /// Whether the lookup of the system call that opens `ino` has just asked S3 about it. Once.
    #[must_use]
    pub fn vouches(&self, ino: InodeNo, purpose: &dyn Purpose) -> bool {
        self.parts.namespace.vouches(ino, purpose)
    }

    /// Whether the kernel may have the size of another version of `ino` than is opened now.
    #[must_use]
    pub fn was_found_again(&self, ino: InodeNo) -> bool {
        self.parts.namespace.was_found_again(ino)
    }

    /// Waits until no later mount shows names from before the changes so far.
    pub async fn settled(&self) {
        self.parts.namespace.settled().await;
    }

    /// How long the kernel may keep the absence of `name` after a lookup.
    #[must_use]
    pub fn negative_ttl(&self, parent: InodeNo, name: &OsStr) -> Duration {
        self.parts.namespace.negative_ttl(parent, name)
    }

    /// Whether directory entries tell no kind of file for sure: the kernel looks each up.
    #[must_use]
    pub fn lists_names_only(&self) -> bool {
        self.parts.namespace.lists_names_only()
    }

    /// Gives back `count` lookups of an inode; an inode without lookups is dropped.
    pub fn forget(&self, ino: InodeNo, count: u64) {
        self.parts.namespace.forget(ino, count);
    }

    /// stat data of an inode, from S3 if they are too old.
    ///
    /// [`FsError::NotFound`] if the inode's name is gone, [`FsError::Stale`] if the name means
    /// another object.
    pub async fn attributes(&self, ino: InodeNo) -> Result<Attributes, FsError> {
        attributes::stat(&self.parts, ino).await
    }

    /// Whether `ino` has an open handle.
    #[must_use]
    pub fn is_open(&self, ino: InodeNo) -> bool {
        self.parts.namespace.is_open(ino)
    }

    /// Size of the file `ino` as it was stored last, as far as is known.
    #[must_use]
    pub fn stored_size(&self, ino: InodeNo) -> Option<u64> {
        let stored = self.parts.namespace.stored_version(ino);
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
        let file = self.files.handles.get(handle)?;
        let Parts {
            staged,
            namespace,
            reading,
            ..
        } = &self.parts;
        let newest = match &*file {
            OpenFile::Staged(handle) => Some(Arc::clone(&handle.open)),
            OpenFile::Reading { ino, .. } => staged.of(*ino),
        };
        if let Some(open) = newest {
            return read_newest(namespace, &open, (offset, size), fills_cache).await;
        }
        let (ino, opened, watch) = file.reading()?;
        if let Some(watch) = watch {
            let modes = &self.files.read_modes;
            modes.observe(watch, offset, size, fills_cache);
        }
        if opened.0.is_empty() && namespace.has_bytes(ino) {
            // A short read would be the end of the file for the kernel, which may know of more
            // bytes by now.
            return Err(FsError::Stale(
                "the file was empty when it was opened, and was written since".to_owned(),
            ));
        }
        let names = (&**namespace, reading);
        moved::read_opened(names, ino, opened, (offset, size), fills_cache).await
    }

    /// Closes a file.
    pub fn release(&self, handle: HandleNo) {
        self.files.release(&self.parts, handle);
    }

    /// The key of `ino`, or of `name` in it, for the log.
    #[must_use]
    pub fn key_text(&self, ino: InodeNo, name: Option<&OsStr>) -> Option<String> {
        self.parts.namespace.key_text(ino, name)
    }

    /// Names that the kernel should forget, as they become known. Can be taken once.
    #[must_use]
    pub fn take_stale_names(&self) -> Option<Receiver<StaleName>> {
        self.parts.namespace.take_stale_names()
    }

    /// Whether the kernel should still forget this name: no lookup has found it since.
    #[must_use]
    pub fn is_still_stale(&self, stale: &StaleName) -> bool {
        self.parts.namespace.is_still_stale(stale)
    }

    /// Some unused files, if there are too many inodes, and the next call's time.
    #[must_use]
    pub fn eviction_batch(&self) -> EvictionBatch {
        self.parts.namespace.eviction_batch()
    }

    /// Opens a directory for reading.
    pub async fn open_directory(&self, ino: InodeNo) -> Result<HandleNo, FsError> {
        let listing = self.parts.namespace.open_directory(ino)?;
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
            .read(&self.parts.namespace, offset, plus, sink)
            .await
    }

    /// Closes a directory.
    pub fn release_directory(&self, handle: HandleNo) {
        if let Some(directory) = self.directories.remove(handle) {
            directory.close(&self.parts.namespace);
        }
    }

    /// Notes the kernel's read-ahead in bytes.
    pub fn set_readahead(&self, bytes: u32) {
        self.files.read_modes.set_readahead(bytes);
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

    /// Opens a file for reading, at the version that S3 has now.
    ///
    /// [`FsError::Stale`] if that is another version than the inode's: the caller must look the
    /// name up again, and open the result. Linux does so by itself after `ESTALE`.
    pub async fn open(&self, ino: InodeNo, options: OpenOptions) -> Result<Opened, FsError> {
        opening::open(&self.parts, &self.files, ino, options).await
    }

    /// Creates a file and opens it for writing. No request is sent: its close stores the object.
    /// Unless the caller asks for it to be new, and the mount asks the bucket about that: then the
    /// bucket has it empty when this returns.
    ///
    /// [`FsError::Exists`] if anybody else has made that.
    pub async fn create_for(
        &self,
        parent: InodeNo,
        name: &OsStr,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<(Entry, Opened), FsError> {
        opening::create(&self.parts, &self.files, (parent, name), options, opener).await
    }

    /// Makes an empty file, which is there when this returns and nobody else has made.
    pub async fn make_file(
        &self,
        parent: InodeNo,
        name: &OsStr,
        options: WriteOptions,
    ) -> Result<Entry, FsError> {
        opening::make_file(&self.parts, &self.files, (parent, name), options).await
    }

    /// Opens an existing file for writing, at any place.
    pub async fn open_for_writing(
        &self,
        ino: InodeNo,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<Opened, FsError> {
        opening::open_for_writing(&self.parts, &self.files, ino, options, opener).await
    }

    /// Opens a file for reading and writing (`O_RDWR`). Where changes are not allowed, it is only
    /// read.
    pub async fn open_for_both(
        &self,
        ino: InodeNo,
        options: OpenOptions,
        how: WriteOptions,
        opener: Opener,
    ) -> Result<Opened, FsError> {
        match permit(&self.parts.config, Change::Overwrite) {
            Ok(()) => self.open_for_writing(ino, how, opener).await,
            Err(_) => self.open(ino, options).await,
        }
    }

    /// Takes bytes if that needs no waiting; otherwise returns `None`, and nothing has changed.
    pub fn write_now(
        &self,
        handle: HandleNo,
        offset: u64,
        data: &[u8],
    ) -> Option<Result<(), FsError>> {
        match self.files.handles.get(handle) {
            Ok(file) => writing::write_now(&self.parts, &file, offset, data),
            Err(error) => Some(Err(error)),
        }
    }

    /// Takes bytes, when there is memory for them.
    pub async fn write(&self, handle: HandleNo, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let file = self.files.handles.get(handle)?;
        // A copy of file data, of callers that keep theirs.
        writing::write(&self.parts, &file, offset, Bytes::copy_from_slice(data)).await
    }

    /// Takes the bytes of a waiting WRITE, as [`Self::write`].
    pub async fn write_held(
        &self,
        handle: HandleNo,
        offset: u64,
        data: PendingWrite,
    ) -> Result<(), FsError> {
        let file = self.files.handles.get(handle)?;
        writing::write(&self.parts, &file, offset, Bytes::from_owner(data)).await
    }

    /// Whether the kernel may have pages that a write by `handle`, which passes them by, makes old.
    #[must_use]
    pub fn overtakes_pages(&self, handle: HandleNo) -> bool {
        let file = self.files.handles.get(handle).ok();
        let handle = file.as_deref().and_then(OpenFile::staged);
        handle
            .is_some_and(|handle| handle.is_direct && writing::overtakes_pages(&self.parts, handle))
    }

    /// `copy_file_range`: the server copies up to `len` bytes between two places, each a handle and
    /// an offset. Returns the number copied.
    ///
    /// The number is 0 only at the end of the source. [`FsError::Unsupported`] where reads and
    /// writes are better; the kernel then does these by itself.
    pub async fn copy_range(
        &self,
        from: (HandleNo, u64),
        to: (HandleNo, u64),
        len: u64,
    ) -> Result<u64, FsError> {
        let handles = &self.files.handles;
        let (source, target) = (handles.get(from.0)?, handles.get(to.0)?);
        writing::copy_range(&self.parts, (&source, from.1), (&target, to.1), len).await
    }

    /// `fallocate`. Without flags the file has at least the bytes of `range` then.
    pub async fn allocate(
        &self,
        handle: HandleNo,
        range: Range<u64>,
        mode: AllocateMode,
    ) -> Result<(), FsError> {
        let file = self.files.handles.get(handle)?;
        writing::allocate(&self.parts, file.writing()?, range, mode).await
    }

    /// Handles the close of a descriptor.
    ///
    /// Returns when the bucket holds the written bytes, or the local disk with write-back, unless
    /// another descriptor is still open.
    pub async fn flush(&self, handle: HandleNo, closing: &dyn Closing) -> Result<(), FsError> {
        let file = self.files.handles.get(handle)?;
        match file.staged().filter(|handle| handle.close_stores(closing)) {
            Some(handle) => handle.open.file.commit().await,
            None => Ok(()),
        }
    }

    /// Returns when the bucket holds the written bytes, or the local disk with write-back.
    pub async fn sync(&self, handle: HandleNo) -> Result<(), FsError> {
        let file = self.files.handles.get(handle)?;
        match file.staged() {
            Some(handle) => handle.open.file.commit().await,
            None => Ok(()),
        }
    }

    /// Changes attributes; all of them or none.
    pub async fn set_attributes(
        &self,
        ino: InodeNo,
        mut change: AttributeChange,
    ) -> Result<Attributes, FsError> {
        permit(&self.parts.config, Change::Attributes)?;
        match (change.size.take(), change.handle) {
            (None, _) => {}
            (Some(len), Some(handle)) => {
                let file = self.files.handles.get(handle)?;
                let handle = file.staged().ok_or(FsError::BadHandle)?;
                writing::set_len(&self.parts, handle, len).await?;
            }
            (Some(len), None) => {
                writing::set_len_of(&self.parts, ino, (len, change.drops_set_id)).await?;
            }
        }
        attributes::set(&self.parts, ino, change).await
    }

    /// Whether the file has set-ID bits that a change of its content or owner takes from it.
    #[must_use]
    pub fn has_set_id(&self, ino: InodeNo) -> bool {
        attributes::has_set_id(&self.parts, ino)
    }

    /// Takes those bits from the file.
    pub async fn drop_set_id(&self, ino: InodeNo) -> Result<(), FsError> {
        attributes::drop_set_id(&self.parts, ino).await
    }

    /// The value of an extended attribute; `None` if the inode has none of that name.
    pub async fn extended_attribute(
        &self,
        ino: InodeNo,
        name: &OsStr,
    ) -> Result<Option<Vec<u8>>, FsError> {
        attributes::extended_attribute(&self.parts, ino, name).await
    }

    /// The names of an inode's extended attributes, each with a NUL byte behind it.
    pub async fn extended_attributes(&self, ino: InodeNo) -> Result<Vec<u8>, FsError> {
        attributes::extended_attributes(&self.parts, ino).await
    }

    /// Gives an extended attribute a value.
    pub async fn set_extended_attribute(
        &self,
        ino: InodeNo,
        name: &OsStr,
        value: &[u8],
        mode: SetMode,
    ) -> Result<(), FsError> {
        attributes::set_extended_attribute(&self.parts, ino, name, (value, mode)).await
    }

    /// Removes an extended attribute.
    pub async fn remove_extended_attribute(
        &self,
        ino: InodeNo,
        name: &OsStr,
    ) -> Result<(), FsError> {
        attributes::remove_extended_attribute(&self.parts, ino, name).await
    }

    /// Removes a file.
    pub async fn unlink(&self, directory: InodeNo, name: &OsStr) -> Result<(), FsError> {
        names::unlink(&self.parts, directory, name).await
    }

    /// Removes an empty directory.
    pub async fn remove_directory(&self, directory: InodeNo, name: &OsStr) -> Result<(), FsError> {
        names::remove_directory(&self.parts, directory, name).await
    }

    /// Makes a directory for `maker`, if that is not the mount's user. A marker object, or an entry
    /// that this mount remembers until the directory has a file.
    pub async fn make_directory_for(
        &self,
        directory: InodeNo,
        name: &OsStr,
        mode: u16,
        maker: Option<Maker>,
    ) -> Result<Entry, FsError> {
        names::make_directory(&self.parts, directory, name, mode, maker).await
    }

    /// Gives a file or a directory another name.
    ///
    /// [`FsError::Interrupted`] if `stop` was asked for before the end; then none of its requests
    /// is in flight.
    pub async fn rename(
        &self,
        from: (InodeNo, &OsStr),
        to: (InodeNo, &OsStr),
        mode: RenameMode,
        stop: &Stop,
    ) -> Result<(), FsError> {
        names::rename(&self.parts, from, to, mode, stop).await
    }

    /// Makes a symbolic link for `maker`, if that is not the mount's user.
    pub async fn symbolic_link_for(
        &self,
        directory: InodeNo,
        name: &OsStr,
        target: &OsStr,
        maker: Option<Maker>,
    ) -> Result<Entry, FsError> {
        names::symbolic_link(&self.parts, directory, name, target, maker).await
    }

    /// Makes a pipe or a socket: an empty object that says so, at once in any case. The kernel
    /// serves it, for the processes of this machine.
    pub async fn make_special(
        &self,
        directory: InodeNo,
        name: &OsStr,
        special: FileKind,
        options: WriteOptions,
    ) -> Result<Entry, FsError> {
        names::make_special(&self.parts, directory, name, special, options).await
    }

    /// Gives the file `ino` another name: a copy on the server, which nothing ties to the file.
    ///
    /// The file is stored first, if the bucket lacks some of it. [`FsError::Exists`] if the name is
    /// taken, in the bucket or here. Returns the inode number that `stat` shows at first, too: git
    /// compares it with that of the file.
    pub async fn link(
        &self,
        ino: InodeNo,
        name: (InodeNo, &OsStr),
        stop: &Stop,
    ) -> Result<(Entry, InodeNo), FsError> {
        names::link(&self.parts, ino, name, stop).await
    }

    /// The target of a symbolic link.
    pub async fn read_link(&self, ino: InodeNo) -> Result<ReadData, FsError> {
        names::read_link(&self.parts, ino).await
    }
}
