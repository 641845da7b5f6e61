//! The files of the entries on the disk.
//!
//! An entry is one version of one object: a *data* file with the object's bytes at their own
//! offsets, sparse where none were fetched, and an *index* file that tells which ranges are there,
//! with their checksums. No operation here is atomic over both files and nothing is ever flushed:
//! checksums in the index decide what counts, so any order of writes, any loss and any mixture of
//! two processes' work reads as a miss.
//!
//! Times: the data file's modification time is when bytes were last stored, its access time when
//! the entry was last used by an open file. Both are set by us, so `noatime` does not matter.
//!
//! Files of other names are never listed, read or removed. No folder is kept open: a removed folder
//! is made anew.

mod entry_name;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod usage;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use nix::fcntl::OFlag;

#[cfg(test)]
pub(crate) use self::entry_name::path;
pub(crate) use self::entry_name::{EntryName, FileKind};
use self::entry_name::{file_name, parse};
pub(crate) use self::usage::Usage;
use super::directory::{CacheDirectory, EVICTION_LOCK, USAGE, shard_name};
use crate::local_disk::{Disk, DiskFile, DiskSpace, FileStatus};

/// The files of one cache directory. Several processes may use one directory at once.
#[derive(Debug)]
pub(crate) struct Storage {
    disk: Arc<dyn Disk>,
    /// The directory, which is in use as long as this value lives; `None` for a simulated disk.
    _directory: Option<Arc<CacheDirectory>>,
}

/// An entry as a scan of its shard shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedEntry {
    pub(crate) name: EntryName,
    /// Bytes that both files occupy on the disk.
    pub(crate) bytes: u64,
    /// When bytes were last stored.
    pub(crate) stored_at: SystemTime,
    /// When the entry was last used by an open file.
    pub(crate) used_at: SystemTime,
    /// Whether both files are there.
    pub(crate) is_complete: bool,
}

/// The right to evict, which one process of all that share the directory has. Dropping it gives it
/// back.
#[derive(Debug)]
pub(crate) struct EvictionRight {
    _lock: Arc<dyn DiskFile>,
}

impl Storage {
    /// The files in `directory`.
    pub(crate) fn new(directory: Arc<CacheDirectory>) -> Self {
        Self {
            disk: Arc::clone(directory.folder()) as _,
            _directory: Some(directory),
        }
    }

    /// The files on a simulated disk.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn simulated(disk: &crate::local_disk::test_disk::SimulatedDisk) -> Arc<Self> {
        Arc::new(Self {
            disk: Arc::new(disk.clone()),
            _directory: None,
        })
    }

    /// The folder of a shard; `None` if there is none.
    fn shard(&self, shard: u8) -> io::Result<Option<Arc<dyn Disk>>> {
        self.disk.folder(&shard_name(shard), false)
    }

    /// Opens a file for reading and writing; `None` if there is none.
    pub(crate) fn open(
        &self,
        name: EntryName,
        kind: FileKind,
    ) -> io::Result<Option<Arc<dyn DiskFile>>> {
        match self.shard(name.shard())? {
            Some(folder) => found(folder.open_with(&file_name(name, kind), flags(kind))),
            None => Ok(None),
        }
    }

    /// Makes a file and opens it for reading and writing; `None` if it is there already. Of several
    /// processes that try at once, one makes it.
    pub(crate) fn create(
        &self,
        name: EntryName,
        kind: FileKind,
    ) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let create = || -> io::Result<_> {
            let folder = self.disk.folder(&shard_name(name.shard()), true)?;
            let folder = folder.ok_or(io::ErrorKind::NotFound)?;
            let flags = flags(kind) | OFlag::O_CREAT | OFlag::O_EXCL;
            folder.open_with(&file_name(name, kind), flags)
        };
        let mut made = create();
        for _ in 1..CREATE_ATTEMPTS {
            // The folder was removed meanwhile.
            if made.as_ref().is_err_and(is_missing) {
                made = create();
            }
        }
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            made => made.map(Some),
        }
    }

    /// Removes an entry, the index first. A file that is missing is no error.
    pub(crate) fn remove(&self, name: EntryName) -> io::Result<()> {
        let Some(folder) = self.shard(name.shard())? else {
            return Ok(());
        };
        folder.remove(&file_name(name, FileKind::Index))?;
        folder.remove(&file_name(name, FileKind::Data))
    }

    /// All entries of a shard, in no order.
    pub(crate) fn list(&self, shard: u8) -> io::Result<Vec<ListedEntry>> {
        let Some(folder) = self.shard(shard)? else {
            return Ok(Vec::new());
        };
        let mut entries: HashMap<EntryName, FoundFiles> = HashMap::new();
        for file in folder.list()? {
            if let Some((name, kind)) = parse(shard, &file)
                && let Some(status) = folder.status(&file)?
            {
                let files = entries.entry(name).or_default();
                match kind {
                    FileKind::Index => files.index = Some(status),
                    FileKind::Data => files.data = Some(status),
                }
            }
        }
        let listed = entries.into_iter();
        Ok(listed
            .filter_map(|(name, files)| files.entry(name))
            .collect())
    }

    /// Size and free space of the disk.
    pub(crate) fn space(&self) -> io::Result<DiskSpace> {
        self.disk.space()
    }

    /// The right to evict; `None` while another process has it.
    pub(crate) fn lock_eviction(&self) -> io::Result<Option<EvictionRight>> {
        let file = self.disk.open_with(EVICTION_LOCK, OFlag::O_CREAT)?;
        Ok(file.try_lock()?.then_some(EvictionRight { _lock: file }))
    }

    /// Changes the estimate of what all entries occupy, which all processes share. Returns the new
    /// one, or `None` while another process changes it. A damaged or missing one is the default.
    pub(crate) fn update_usage(
        &self,
        change: &mut dyn FnMut(&mut Usage),
    ) -> io::Result<Option<Usage>> {
        let file = self.disk.open_with(USAGE, OFlag::O_CREAT)?;
        if !file.try_lock()? {
            return Ok(None);
        }
        let mut bytes = [0; usage::LEN];
        let read = file.read_at(&mut bytes, 0)?;
        let before = Usage::decode(&bytes[..read]);
        let mut after = before.unwrap_or_default();
        change(&mut after);
        if before != Some(after) {
            file.write_at(&after.encode(), 0)?;
        }
        Ok(Some(after))
    }
}

/// The files of an entry that a listing has found.
#[derive(Default)]
struct FoundFiles {
    index: Option<FileStatus>,
    data: Option<FileStatus>,
}

impl FoundFiles {
    fn entry(&self, name: EntryName) -> Option<ListedEntry> {
        let file = self.data.or(self.index)?;
        let both = [self.index, self.data];
        Some(ListedEntry {
            name,
            bytes: both.iter().flatten().map(|file| file.allocated).sum(),
            stored_at: file.modified_at,
            used_at: file.used_at,
            is_complete: self.index.is_some() && self.data.is_some(),
        })
    }
}

/// Records of several processes are appended to an index.
fn flags(kind: FileKind) -> OFlag {
    match kind {
        FileKind::Index => OFlag::O_APPEND,
        FileKind::Data => OFlag::empty(),
    }
}

/// The result, or `None` for what is not there.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if is_missing(&error) => Ok(None),
        found => found.map(Some),
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// How often a folder is made that somebody removes.
const CREATE_ATTEMPTS: u32 = 3;

#[cfg(test)]
mod tests;
