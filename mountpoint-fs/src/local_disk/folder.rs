//! A folder of this user alone on a local disk: checked, and open, so that its name may come to
//! mean another one.
//!
//! Every folder and every file is opened relative to the folder above and through no symbolic link.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, geteuid, linkat, unlinkat};

use super::disk::{Disk, DiskFile, DiskSpace, FileStatus};
use super::error::{DirectoryError, DirectoryUse};
use super::local_file::LocalFile;
use super::lock::lock_within;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    of: DirectoryUse,
    path: PathBuf,
    fd: OwnedFd,
}

impl Folder {
    /// Opens the directory that the user named, or makes it if `may_make`, durably.
    ///
    /// Others may write to it, as to `/tmp` or to a volume of a container: only the folders below
    /// hold anything, and an exchanged one is found by its owner. But its owner must be this user
    /// or root.
    pub(crate) fn open_base(
        of: DirectoryUse,
        path: &Path,
        may_make: bool,
    ) -> Result<Self, DirectoryError> {
        // Without a slash at the end, which would follow a link.
        let path: PathBuf = path.components().collect();
        let found = match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && may_make => {
                make_durably(&path).and_then(|()| std::fs::symlink_metadata(&path))
            }
            found => found,
        };
        let found = found.map_err(|error| DirectoryError::unusable(of, &path, NO_FOLDER, error))?;
        if found.file_type().is_symlink() {
            return Err(link(of, path));
        }
        if !found.is_dir() {
            return Err(DirectoryError::NotADirectory { of, path });
        }
        let fd = open(&path, FOLDER_FLAGS, Mode::empty())
            .map_err(|error| DirectoryError::unusable(of, &path, NO_FOLDER, error.into()))?;
        let (owner, user) = (found.uid(), geteuid().as_raw());
        if owner != user && owner != 0 {
            return Err(DirectoryError::OthersOwn {
                of,
                path,
                owner,
                user,
            });
        }
        Ok(Self { of, path, fd })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the lock of the folder itself for this process alone, as long as the folder is open,
    /// and waits for it for `time_max` at most. Returns whether it was free in that time.
    pub(crate) fn lock_within(&self, time_max: Duration) -> io::Result<bool> {
        // The lock is that of the open folder, whose other descriptor stays.
        lock_within(&File::from(self.fd.try_clone()?), time_max)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens the folder `name` in it, which must be ours alone. Makes it where it is missing.
    pub(crate) fn enter_or_make(&self, name: &str) -> Result<Self, DirectoryError> {
        if let Some(folder) = self.enter(name)? {
            return Ok(folder);
        }
        match mkdirat(&self.fd, name, Mode::S_IRWXU).map_err(io::Error::from) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                let path = self.path.join(name);
                return Err(DirectoryError::unusable(self.of, &path, NOT_MADE, error));
            }
            // Another mount may have made it meanwhile.
            _ => {}
        }
        self.enter(name)?.ok_or_else(|| {
            let error = io::Error::from(io::ErrorKind::NotFound);
            DirectoryError::unusable(self.of, &self.path.join(name), NO_FOLDER, error)
        })
    }

    /// Opens the folder `name` in it, which must be ours alone; `None` if there is none.
    pub(crate) fn enter(&self, name: &str) -> Result<Option<Self>, DirectoryError> {
        let (of, path) = (self.of, self.path.join(name));
        let failed = |error: io::Error| DirectoryError::unusable(of, &path, NO_FOLDER, error);
        let found = fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW).map_err(io::Error::from);
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(found) => match kind(&found) {
                SFlag::S_IFDIR => {}
                SFlag::S_IFLNK => return Err(link(of, path)),
                _ => return Err(DirectoryError::NotADirectory { of, path }),
            },
        }
        let fd = openat(&self.fd, name, FOLDER_FLAGS, Mode::empty());
        let fd = fd.map_err(|error| failed(error.into()))?;
        // The opened file counts, not the one that had the name before.
        let opened = fstat(&fd).map_err(|error| failed(error.into()))?;
        let (owner, user) = (opened.st_uid, geteuid().as_raw());
        if owner != user {
            return Err(DirectoryError::OthersOwn {
                of,
                path,
                owner,
                user,
            });
        }
        let mode = opened.st_mode & 0o7777;
        if mode & OTHERS_WRITE != 0 {
            return Err(DirectoryError::OthersWrite { of, path, mode });
        }
        Ok(Some(Self { of, path, fd }))
    }

    /// Checks that files can be made in it.
    pub(crate) fn check_writable(&self) -> Result<(), DirectoryError> {
        let flags = AccessFlags::W_OK | AccessFlags::X_OK;
        faccessat(&self.fd, ".", flags, AtFlags::AT_EACCESS).map_err(|error| {
            DirectoryError::unusable(self.of, &self.path, NOT_WRITABLE, error.into())
        })
    }

    /// Opens a file of ours for reading and writing, and makes it where it is missing.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        self.file_with(name, OFlag::O_RDWR | OFlag::O_CREAT)
    }

    /// Makes a file of ours, which must not be there, and opens it for reading and writing.
    pub(crate) fn create_file(&self, name: &str) -> io::Result<File> {
        self.file_with(name, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL)
    }

    /// Opens a file of ours for reading; `None` if there is none.
    pub(crate) fn find_file(&self, name: &str) -> io::Result<Option<File>> {
        match self.file_with(name, OFlag::O_RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn file_with(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let file = File::from(openat(&self.fd, name, flags | FILE_FLAGS, mode)?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
    }

    /// Moves a file to another folder, where it replaces one of the name.
    pub(crate) fn move_file(&self, name: &str, to: &Self, new_name: &str) -> io::Result<()> {
        Ok(renameat(&self.fd, name, &to.fd, new_name)?)
    }

    /// Gives a file a second name, in another folder. The name must be free.
    pub(crate) fn link_file(&self, name: &str, to: &Self, new_name: &str) -> io::Result<()> {
        Ok(linkat(&self.fd, name, &to.fd, new_name, AtFlags::empty())?)
    }

    /// Removes an empty folder. One with files in it stays.
    pub(crate) fn remove_folder(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.fd, name, UnlinkatFlags::RemoveDir).map_err(io::Error::from) {
            Err(error) if !is_left(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// The system's refusal of the step `what` in it.
    pub(crate) fn unusable(&self, what: &'static str) -> impl Fn(io::Error) -> DirectoryError {
        move |error| DirectoryError::unusable(self.of, &self.path, what, error)
    }
}

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut dir = Dir::openat(&self.fd, ".", FOLDER_FLAGS, Mode::empty())?;
        let mut names = Vec::new();
        for entry in dir.iter() {
            if names.len() == LISTED_FILES_MAX {
                let what = format!("it has more than {LISTED_FILES_MAX} files");
                return Err(io::Error::other(what));
            }
            // A name that is no text is not ours.
            if let Ok(name) = entry?.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn open_with(&self, name: &str, flags: OFlag) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.file_with(name, flags | OFlag::O_RDWR)?;
        let quiet = (flags & !OFlag::O_CREAT & !OFlag::O_EXCL) | OFlag::O_NOATIME;
        // The owner alone may leave the access time alone. An open that makes the file and is
        // refused the flag would leave the file.
        fcntl(&file, FcntlArg::F_SETFL(quiet)).ok();
        Ok(Arc::new(LocalFile::new(file, flags)))
    }

    fn folder(&self, name: &str, may_make: bool) -> io::Result<Option<Arc<dyn Disk>>> {
        let found = match may_make {
            true => self.enter_or_make(name).map(Some),
            false => self.enter(name),
        };
        Ok(found?.map(|folder| Arc::new(folder) as _))
    }

    fn status(&self, name: &str) -> io::Result<Option<FileStatus>> {
        match fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((kind(&found) == SFlag::S_IFREG).then(|| FileStatus::of(&found))),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    #[expect(
        clippy::useless_conversion,
        reason = "the types differ between platforms"
    )]
    fn space(&self) -> io::Result<DiskSpace> {
        let status = fstatvfs(&self.fd)?;
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(status.fragment_size()));
        Ok(DiskSpace {
            total: bytes(status.blocks().into()),
            available: bytes(status.blocks_available().into()),
            files_total: status.files().into(),
            files_available: status.files_available().into(),
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.move_file(from, self, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir).map_err(io::Error::from) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        // A descriptor of its own: an error that another one has reported is not reported again.
        let folder = openat(&self.fd, ".", FOLDER_FLAGS, Mode::empty())?;
        File::from(folder).sync_all()
    }
}

/// Makes a directory and those above it. A power loss leaves all of them.
fn make_durably(path: &Path) -> io::Result<()> {
    let is_missing = |path: &&Path| std::fs::symlink_metadata(path).is_err();
    let missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for parent in missing.into_iter().filter_map(Path::parent) {
        let parent = match parent.as_os_str().is_empty() {
            true => Path::new("."),
            false => parent,
        };
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// The refusal of a symbolic link.
fn link(of: DirectoryUse, path: PathBuf) -> DirectoryError {
    let target = std::fs::canonicalize(&path).or_else(|_| std::fs::read_link(&path));
    let target = target.unwrap_or_default();
    DirectoryError::SymbolicLink { of, path, target }
}

/// Whether the failure to remove a folder leaves nothing to do.
fn is_left(error: &io::Error) -> bool {
    use io::ErrorKind::{DirectoryNotEmpty, NotADirectory, NotFound};
    [DirectoryNotEmpty, NotADirectory, NotFound].contains(&error.kind())
}

fn kind(found: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT
}

const FOLDER_FLAGS: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Without O_NONBLOCK, the open of a FIFO could wait.
const FILE_FLAGS: OFlag = OFlag::O_NOFOLLOW
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_NONBLOCK);

/// Permissions of the group and of others to write.
const OTHERS_WRITE: u32 = 0o022;

/// Files of a folder that is listed. A version that waits for its upload has five at most.
const LISTED_FILES_MAX: usize = 1 << 22;

const NO_FOLDER: &str = "cannot open the directory";
const NOT_MADE: &str = "cannot make the directory";
const NOT_WRITABLE: &str = "the directory cannot be written";
