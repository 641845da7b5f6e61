//! A folder of a local file system, locked for this process.
//!
//! Files are opened relative to the folder, through no symbolic link. The lock is that of `flock`
//! on the folder itself, so that the kernel drops it with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mountpoint_crt_sys::block::BlockFill;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use thiserror::Error;

use super::{Disk, DiskFile};

/// Why a folder cannot be used.
#[derive(Debug, Error)]
pub enum DiskError {
    /// A second process would overwrite what the first one acknowledged.
    #[error(
        "another process uses {path}: `fuser -v {path}` names it; end it first, or name another directory",
        path = .0.display()
    )]
    InUse(PathBuf),
    /// The folder cannot be opened or locked.
    #[error("cannot use {}: {error}", .path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

/// The files of one folder.
#[derive(Debug)]
pub struct LocalDisk {
    folder: File,
}

impl LocalDisk {
    /// Locks `folder`, which is there already, until the value is dropped.
    pub fn open(folder: &Path) -> Result<Self, DiskError> {
        let unusable = |error| DiskError::Unusable {
            path: folder.to_owned(),
            error,
        };
        let found = Self::look(folder)?;
        match found.folder.try_lock() {
            Ok(()) => Ok(found),
            Err(TryLockError::WouldBlock) => Err(DiskError::InUse(folder.to_owned())),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }

    /// Opens `folder`, which is there already, to look at it: another process may change it
    /// meanwhile, and is not kept from it.
    pub(crate) fn look(folder: &Path) -> Result<Self, DiskError> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits())
            .open(folder);
        opened
            .map(|folder| Self { folder })
            .map_err(|error| DiskError::Unusable {
                path: folder.to_owned(),
                error,
            })
    }

    fn open_file(&self, name: &str, flags: OFlag) -> io::Result<Arc<dyn DiskFile>> {
        let flags = flags | OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let file = File::from(openat(self.folder.as_fd(), name, flags, mode)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(Arc::new(LocalFile(file)))
    }
}

impl Disk for LocalDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut folder = Dir::openat(self.folder.as_fd(), ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in folder.iter() {
            // A name that is no text is not ours.
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, OFlag::O_CREAT | OFlag::O_EXCL)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, OFlag::empty())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let folder = self.folder.as_fd();
        Ok(renameat(folder, from, folder, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(self.folder.as_fd(), name, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::ENOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        // A descriptor of its own: an error that another one has reported is not reported again.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder: OwnedFd = openat(self.folder.as_fd(), ".", flags, Mode::empty())?;
        File::from(folder).sync_all()
    }
}

#[derive(Debug)]
struct LocalFile(File);

impl DiskFile for LocalFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (mut read, mut at) = (0, offset);
        while read < buffer.len() {
            match self.0.read_at(&mut buffer[read..], at) {
                Ok(0) => break,
                Ok(len) => (read, at) = (read + len, at + len as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<bool> {
        let end = i64::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        match fallocate(&self.0, FallocateFlags::empty(), 0, end) {
            Err(Errno::EOPNOTSUPP) => self.0.set_len(len).map(|()| false),
            allocated => Ok(allocated.map(|()| true)?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn read_into(&self, fill: &mut BlockFill, offset: u64, len: usize) -> io::Result<usize> {
        fill.read_from(&self.0, offset, len)
    }

    fn discard(&self, range: &Range<u64>) {
        let offset = libc::off_t::try_from(range.start);
        let len = libc::off_t::try_from(range.end - range.start);
        if let (Ok(offset), Ok(len)) = (offset, len) {
            let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            // A file system without holes gives the space back when the file is removed.
            fallocate(&self.0, flags, offset, len).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_user_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = LocalDisk::open(folder.path()).unwrap();
        let second = LocalDisk::open(folder.path()).unwrap_err();
        assert!(matches!(second, DiskError::InUse(_)), "{second}");
        assert!(second.to_string().contains("fuser -v"), "{second}");
        drop(first);
        LocalDisk::open(folder.path()).unwrap();
    }

    #[test]
    fn files_are_made_read_renamed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = LocalDisk::open(folder.path()).unwrap();
        let file = disk.create("a").unwrap();
        let taken = disk.create("a").unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        file.allocate(100).unwrap();
        file.write_at(b"abc", 98).unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.size().unwrap(), 101);
        disk.rename("a", "b").unwrap();
        disk.sync().unwrap();
        assert_eq!(disk.list().unwrap(), ["b"]);
        let mut bytes = [9; 8];
        let read = disk.open("b").unwrap().read_at(&mut bytes, 96).unwrap();
        assert_eq!((read, &bytes[..read]), (5, &b"\0\0abc"[..]));
        disk.remove("b").unwrap();
        disk.remove("b").unwrap();
        assert_eq!(disk.list().unwrap(), [""; 0]);
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(&outside, "x").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("a")).unwrap();
        let disk = LocalDisk::open(&inside).unwrap();
        assert!(disk.open("a").is_err());
        std::os::unix::fs::symlink(&inside, folder.path().join("link")).unwrap();
        assert!(LocalDisk::open(&folder.path().join("link")).is_err());
    }
}
