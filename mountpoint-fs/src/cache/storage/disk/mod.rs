//! The cache directory on a real disk.
//!
//! `XX/YYYY….index` and `XX/YYYY….data`, where XX is the first byte of an entry's name. Every file
//! is opened relative to its shard's folder, through no symbolic link. Files of other names are
//! never listed, read or removed.
//!
//! No file is ever flushed, and no folder is kept open: a removed folder is made anew.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, IoSliceMut, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use mountpoint_crt_sys::block::BlockFill;
use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, futimens, mkdirat};
use nix::sys::statvfs::fstatvfs;
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, unlinkat};
use rustix::io::{ReadWriteFlags, preadv2};

use super::usage::{self, Usage};
use super::{DiskSpace, EntryName, FileKind, FileStatus, ListedEntry, Storage, StoredFile};
use crate::cache::directory::{CacheDirectory, EVICTION_LOCK, USAGE, shard_name};
use crate::local_disk::try_lock;

/// The files in a cache directory.
pub(crate) struct DiskStorage {
    directory: CacheDirectory,
}

impl DiskStorage {
    /// The files in `directory`.
    pub(crate) fn new(directory: CacheDirectory) -> Self {
        Self { directory }
    }

    /// The directory, without a use for its files.
    pub(crate) fn into_directory(self) -> CacheDirectory {
        self.directory
    }

    /// The folder of a shard; `None` if there is none.
    fn shard(&self, shard: u8) -> io::Result<Option<OwnedFd>> {
        let folder = openat(
            self.directory.folder().as_fd(),
            shard_name(shard).as_str(),
            FOLDER_FLAGS,
            Mode::empty(),
        );
        found(folder.map_err(io::Error::from))
    }

    fn make_shard(&self, shard: u8) -> io::Result<()> {
        let name = shard_name(shard);
        match mkdirat(
            self.directory.folder().as_fd(),
            name.as_str(),
            Mode::S_IRWXU,
        )
        .map_err(io::Error::from)
        {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

/// Opens a file in the folder of a shard.
fn open_in(
    folder: &OwnedFd,
    name: EntryName,
    kind: FileKind,
    flags: OFlag,
) -> io::Result<Arc<dyn StoredFile>> {
    let mut flags = flags | FILE_FLAGS;
    if kind == FileKind::Index {
        flags |= OFlag::O_APPEND;
    }
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let file_name = file_name(name, kind);
    let open = |flags| {
        let file = openat(folder, file_name.as_str(), flags, mode);
        file.map(File::from).map_err(io::Error::from)
    };
    // The owner alone may leave the access time alone.
    let file = match open(flags | OFlag::O_NOATIME) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(flags)?,
        file => file?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let file = Arc::new(file);
    Ok(Arc::new(DiskFile {
        file,
        kind,
        direct: OnceLock::new(),
    }))
}

impl fmt::Debug for DiskStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiskStorage({})", self.directory.path().display())
    }
}

impl Storage for DiskStorage {
    fn open(&self, name: EntryName, kind: FileKind) -> io::Result<Option<Arc<dyn StoredFile>>> {
        let Some(folder) = self.shard(name.shard())? else {
            return Ok(None);
        };
        found(open_in(&folder, name, kind, OFlag::empty()))
    }

    fn create(&self, name: EntryName, kind: FileKind) -> io::Result<Option<Arc<dyn StoredFile>>> {
        for _ in 0..CREATE_ATTEMPTS {
            if let Some(folder) = self.shard(name.shard())? {
                match open_in(&folder, name, kind, OFlag::O_CREAT | OFlag::O_EXCL) {
                    // The folder was removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
                    file => return file.map(Some),
                }
            }
            self.make_shard(name.shard())?;
        }
        // Somebody removes the folder as often as it is made.
        Err(io::Error::from(io::ErrorKind::NotFound))
    }

    fn remove(&self, name: EntryName) -> io::Result<()> {
        let Some(folder) = self.shard(name.shard())? else {
            return Ok(());
        };
        for kind in [FileKind::Index, FileKind::Data] {
            let file = file_name(name, kind);
            let removed = unlinkat(&folder, file.as_str(), UnlinkatFlags::NoRemoveDir);
            found(removed.map_err(io::Error::from))?;
        }
        Ok(())
    }

    fn list(&self, shard: u8) -> io::Result<Vec<ListedEntry>> {
        let Some(folder) = self.shard(shard)? else {
            return Ok(Vec::new());
        };
        let mut dir = Dir::openat(&folder, ".", LIST_FLAGS, Mode::empty())?;
        let mut entries: HashMap<EntryName, FoundFiles> = HashMap::new();
        for entry in dir.iter().take(LISTED_FILES_MAX) {
            let entry = entry?;
            let name = entry.file_name();
            let parsed = name.to_str().ok().and_then(|name| parse(shard, name));
            let Some((entry, kind)) = parsed else {
                continue;
            };
            let status = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW);
            let Some(status) = found(status.map_err(io::Error::from))? else {
                continue;
            };
            if SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
                continue;
            }
            let files = entries.entry(entry).or_default();
            match kind {
                FileKind::Index => files.index = Some(FoundFile::of(&status)),
                FileKind::Data => files.data = Some(FoundFile::of(&status)),
            }
        }
        let listed = entries.into_iter();
        Ok(listed
            .filter_map(|(name, files)| files.entry(name))
            .collect())
    }

    #[expect(
        clippy::useless_conversion,
        reason = "the types differ between platforms"
    )]
    fn space(&self) -> io::Result<DiskSpace> {
        let status = fstatvfs(self.directory.folder().as_fd())?;
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(status.fragment_size()));
        Ok(DiskSpace {
            total: bytes(status.blocks().into()),
            available: bytes(status.blocks_available().into()),
            files_total: status.files().into(),
            files_available: status.files_available().into(),
        })
    }

    fn lock_eviction(&self) -> io::Result<Option<Box<dyn Send>>> {
        let file = self.directory.folder().open_file(EVICTION_LOCK)?;
        Ok(match try_lock(&file)? {
            true => Some(Box::new(file)),
            false => None,
        })
    }

    fn update_usage(&self, change: &mut dyn FnMut(&mut Usage)) -> io::Result<Option<Usage>> {
        let file = self.directory.folder().open_file(USAGE)?;
        if !try_lock(&file)? {
            return Ok(None);
        }
        let mut bytes = [0; usage::LEN];
        let read = read_at(&file, &mut bytes, 0)?;
        let before = Usage::decode(&bytes[..read]);
        let mut after = before.unwrap_or_default();
        change(&mut after);
        if before != Some(after) {
            file.write_all_at(&after.encode(), 0)?;
        }
        Ok(Some(after))
    }
}

/// The files of an entry that a listing has found.
#[derive(Default)]
struct FoundFiles {
    index: Option<FoundFile>,
    data: Option<FoundFile>,
}

struct FoundFile {
    allocated: u64,
    modified: SystemTime,
    accessed: SystemTime,
}

impl FoundFile {
    fn of(status: &FileStat) -> Self {
        Self {
            allocated: allocated(u64::try_from(status.st_blocks).unwrap_or_default()),
            modified: time(status.st_mtime, status.st_mtime_nsec),
            accessed: time(status.st_atime, status.st_atime_nsec),
        }
    }
}

impl FoundFiles {
    fn entry(&self, name: EntryName) -> Option<ListedEntry> {
        let file = self.data.as_ref().or(self.index.as_ref())?;
        let both = [&self.index, &self.data];
        let bytes = both.into_iter().flatten().map(|file| file.allocated);
        Some(ListedEntry {
            name,
            bytes: bytes.sum(),
            stored_at: file.modified,
            used_at: file.accessed,
            is_complete: self.index.is_some() && self.data.is_some(),
        })
    }
}

#[derive(Debug)]
struct DiskFile {
    file: Arc<File>,
    kind: FileKind,
    /// A descriptor past the page cache; `None` where the file system cannot do that.
    direct: OnceLock<Option<File>>,
}

impl DiskFile {
    /// Writes what of `bytes` can go past the page cache, if they are many. Returns how many bytes
    /// that were.
    ///
    /// Bytes that were just fetched are in the page cache of the mount, or are not read again soon;
    /// a copy of them would push out others.
    fn write_direct(&self, bytes: &[u8], offset: u64) -> usize {
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(DIRECT_BLOCK)
            && offset.is_multiple_of(DIRECT_BLOCK as u64);
        let len = bytes.len() - bytes.len() % DIRECT_BLOCK;
        if len < DIRECT_MIN || !is_aligned {
            return 0;
        }
        let reopen = || {
            let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let mut options = File::options();
            options.write(true).custom_flags(OFlag::O_DIRECT.bits());
            options.open(path).ok()
        };
        let Some(direct) = self.direct.get_or_init(reopen) else {
            return 0;
        };
        // Bytes that fail here are written through the page cache, or fail there again.
        direct
            .write_all_at(&bytes[..len], offset)
            .map_or(0, |()| len)
    }
}

impl StoredFile for DiskFile {
    fn read_into(&self, fill: &mut BlockFill, offset: u64, len: usize) -> io::Result<usize> {
        fill.read_from(&self.file, offset, len)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_at(&self.file, buffer, offset)
    }

    fn read_at_once(&self, buffer: &mut [u8], offset: u64) -> bool {
        let len = buffer.len();
        let slices = &mut [IoSliceMut::new(buffer)];
        let read = preadv2(&*self.file, slices, offset, ReadWriteFlags::NOWAIT);
        // A read that waits meets whatever is wrong; so do file systems that cannot tell.
        read.is_ok_and(|read| read == len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Linux appends whatever is written to a file that is open for appending.
        assert_eq!(self.kind, FileKind::Data);
        let done = self.write_direct(bytes, offset);
        self.file.write_all_at(&bytes[done..], offset + done as u64)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        assert_eq!(self.kind, FileKind::Index);
        let written = loop {
            match (&*self.file).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => break written?,
            }
        };
        if written == bytes.len() {
            Ok(())
        } else {
            // The rest would come behind another process's record.
            Err(io::Error::from(io::ErrorKind::WriteZero))
        }
    }

    fn status(&self) -> io::Result<FileStatus> {
        let status = self.file.metadata()?;
        Ok(FileStatus {
            len: status.len(),
            allocated: allocated(status.blocks()),
            is_linked: status.nlink() > 0,
            inode: status.ino(),
            modified_at: status.modified()?,
        })
    }

    fn touch(&self) -> io::Result<()> {
        // The kernel's clock, which sets the other time as well.
        Ok(futimens(
            &*self.file,
            &TimeSpec::UTIME_NOW,
            &TimeSpec::UTIME_OMIT,
        )?)
    }

    fn file(&self) -> Option<Arc<File>> {
        Some(Arc::clone(&self.file))
    }
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset.saturating_add(read as u64)) {
            Ok(0) => break,
            Ok(now) => read += now,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Blocks of any disk are no larger: offsets, addresses and lengths of direct writes are multiples.
const DIRECT_BLOCK: usize = 4096;

/// Fewer bytes are written through the page cache: each direct write waits for the disk.
const DIRECT_MIN: usize = 1 << 20;

/// The name of an entry's file in its shard's folder: the entry's name but for the shard.
fn file_name(name: EntryName, kind: FileKind) -> String {
    let extension = match kind {
        FileKind::Index => INDEX,
        FileKind::Data => DATA,
    };
    format!("{}{extension}", &name.to_string()[2..])
}

/// The entry and the kind of a file in a shard's folder; `None` if it is not ours.
fn parse(shard: u8, file_name: &str) -> Option<(EntryName, FileKind)> {
    let (name, kind) = if let Some(name) = file_name.strip_suffix(INDEX) {
        (name, FileKind::Index)
    } else {
        (file_name.strip_suffix(DATA)?, FileKind::Data)
    };
    let name = EntryName::parse(&format!("{}{name}", shard_name(shard)))?;
    Some((name, kind))
}

/// The result, or `None` for what is not there.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes that a file occupies. Its blocks are counted in 512 bytes on every file system.
fn allocated(blocks: u64) -> u64 {
    blocks.saturating_mul(512)
}

fn time(secs: i64, nanos: i64) -> SystemTime {
    let nanos = u32::try_from(nanos).unwrap_or_default();
    let since = u64::try_from(secs).map(|secs| Duration::new(secs, nanos));
    let time = SystemTime::UNIX_EPOCH.checked_add(since.unwrap_or_default());
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Without O_NONBLOCK, the open of a FIFO could wait.
const FILE_FLAGS: OFlag = OFlag::O_RDWR
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_NONBLOCK);

const FOLDER_FLAGS: OFlag = OFlag::O_PATH
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

const LIST_FLAGS: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_CLOEXEC);

/// How often a folder is made that somebody removes.
const CREATE_ATTEMPTS: u32 = 3;

/// Files of a shard that a listing looks at. 4 million entries have 32 thousand in each.
const LISTED_FILES_MAX: usize = 1 << 17;

const INDEX: &str = ".index";
const DATA: &str = ".data";

#[cfg(test)]
mod tests;
