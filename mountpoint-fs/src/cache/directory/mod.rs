//! The directory of a cache: finds or makes it, and checks that nobody else can reach into it.
//!
//! `DIR/mount-s3-cache/v1` is ours; with a cache key it is `DIR/mount-s3-cache/HASH/v1`. Whatever
//! else is in DIR, and folders of other versions of the format, are never touched. Every folder is
//! opened relative to the one above and through no symbolic link.
//!
//! Invariant: while a [`CacheDirectory`] lives, its process holds the shared lock of `lock`.
//!
//! Every call may wait for a slow disk.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::local_disk::{
    DirectoryError, DirectoryUse, Disk as _, Folder, try_lock, try_lock_shared,
};

/// An open cache directory of this user.
#[derive(Debug)]
pub(crate) struct CacheDirectory {
    folder: Arc<Folder>,
    /// Locked in shared mode as long as this value lives.
    lock: File,
}

impl CacheDirectory {
    /// Opens the cache in `directory`, and makes what is missing.
    ///
    /// `is_inside` tells whether a path is in the mount itself: such a cache would wait for itself.
    ///
    /// # Errors
    /// With a text for the user.
    pub(crate) fn open(
        directory: &Path,
        key: Option<&str>,
        is_inside: &dyn Fn(&Path) -> bool,
    ) -> Result<Self, DirectoryError> {
        let directory = std::path::absolute(directory).map_err(|error| {
            DirectoryError::unusable(USE, directory, "cannot find the cache directory", error)
        })?;
        // The parent counts as well, because the directory may have to be made.
        if directory.ancestors().any(is_inside) {
            return Err(DirectoryError::Inside {
                of: USE,
                path: directory,
            });
        }
        let base = Folder::open_base(USE, &directory, true)?;
        let mut attempt = 1;
        loop {
            let opened = Self::open_in(&base, key);
            let is_being_removed = match &opened {
                Ok(cache) => !cache.is_there(),
                Err(DirectoryError::Locked(_)) => true,
                Err(DirectoryError::Unusable { error, .. }) => {
                    error.kind() == io::ErrorKind::NotFound
                }
                Err(_) => false,
            };
            if !is_being_removed || attempt == ATTEMPTS {
                return opened;
            }
            attempt += 1;
            std::thread::sleep(REMOVAL_WAIT);
        }
    }

    fn open_in(base: &Folder, key: Option<&str>) -> Result<Self, DirectoryError> {
        let mut folder = base.enter_or_make(FOLDER)?;
        if let Some(key) = key {
            folder = folder.enter_or_make(&hash_of(key))?;
        }
        let folder = folder.enter_or_make(VERSION)?;
        folder.check_writable()?;
        let lock = lock(&folder)?;
        if let Err(error) = mark(&folder) {
            tracing::debug!("{}: {error}", folder.path().join(TAG).display());
        }
        let folder = Arc::new(folder);
        Ok(Self { folder, lock })
    }

    /// Whether no other process has removed it.
    fn is_there(&self) -> bool {
        self.lock.metadata().is_ok_and(|lock| lock.nlink() > 0)
    }

    /// Opens all caches in `directory` that this version can read, whatever their keys.
    ///
    /// # Errors
    /// With a text for the user. No cache is no error.
    pub(crate) fn open_all(directory: &Path) -> Result<Vec<Self>, DirectoryError> {
        let base = Folder::open_base(USE, directory, false)?;
        let mut found = Vec::new();
        let Some(ours) = base.enter(FOLDER)? else {
            return Ok(found);
        };
        let mut parents = Vec::new();
        let names = ours.list().map_err(ours.unusable("cannot list it"))?;
        for name in names.iter().filter(|name| is_hash(name)) {
            match ours.enter(name) {
                // A file is of others.
                Err(DirectoryError::NotADirectory { .. } | DirectoryError::SymbolicLink { .. }) => {
                }
                found => parents.extend(found?),
            }
        }
        parents.insert(0, ours);
        for parent in parents {
            if let Some(folder) = parent.enter(VERSION)? {
                let lock = lock(&folder)?;
                let folder = Arc::new(folder);
                found.push(Self { folder, lock });
            }
        }
        Ok(found)
    }

    /// Where the entries are.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the listings, which is made where it is missing.
    pub(super) fn listings(&self) -> Result<Folder, DirectoryError> {
        self.folder.enter_or_make(LISTINGS)
    }

    /// The folder of the listings, if there is one.
    pub(super) fn find_listings(&self) -> io::Result<Option<Folder>> {
        Ok(self.folder.enter(LISTINGS)?)
    }

    /// The folder of the entries.
    pub(crate) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Removes the folders and the files beside the entries, if no other process uses the cache.
    /// Files of others stay, and so do the folders that hold them.
    /// `clear` removes what is ours in the folder of the listings.
    pub(super) fn remove_if_unused(
        &self,
        clear: impl FnOnce(Folder) -> io::Result<()>,
    ) -> io::Result<()> {
        // The conversion of a lock is not atomic, and a process that opens the cache meanwhile
        // makes the removed files anew.
        self.lock.unlock()?;
        if !try_lock(&self.lock)? {
            return Ok(());
        }
        for shard in 0..=u8::MAX {
            self.folder.remove_folder(&shard_name(shard))?;
        }
        if let Some(listings) = self.find_listings()? {
            clear(listings)?;
            self.folder.remove_folder(LISTINGS)?;
        }
        for name in [EVICTION_LOCK, USAGE, TAG, LOCK] {
            self.folder.remove(name)?;
        }
        let is_version = |path: &Path| path.file_name().is_some_and(|name| name == VERSION);
        let ours = self.folder.path().ancestors().take(3);
        for path in ours.filter(|path| is_version(path) || is_of_ours(path)) {
            match std::fs::remove_dir(path) {
                Err(error) if !is_expected(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The name of a shard's folder: two hexadecimal digits.
pub(crate) fn shard_name(shard: u8) -> String {
    format!("{shard:02x}")
}

/// Whether the failure to remove a folder means that somebody uses it or has removed it.
fn is_expected(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::DirectoryNotEmpty, io::ErrorKind::NotFound];
    kinds.contains(&error.kind())
}

/// Whether the last component of `path` is the folder of all caches or that of a key.
fn is_of_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name == FOLDER || is_hash(name))
}

fn is_hash(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.len() == 64 && name.bytes().all(is_digit)
}

/// The name of the folder for a cache key.
fn hash_of(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes the shared lock, which shows that the file system can lock and that the cache is in use.
fn lock(folder: &Folder) -> Result<File, DirectoryError> {
    let path = || folder.path().join(LOCK);
    let file = folder.open_file(LOCK).map_err(|error| {
        DirectoryError::unusable(USE, &path(), "cannot open the lock of the cache", error)
    })?;
    match try_lock_shared(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(DirectoryError::Locked(path())),
        Err(error) => Err(DirectoryError::Unlockable {
            of: USE,
            path: path(),
            error,
        }),
    }
}

/// Tells backup programs to leave the cache out, by the convention of bford.info/cachedir.
fn mark(folder: &Folder) -> io::Result<()> {
    let mut file = folder.open_file(TAG)?;
    if file.metadata()?.len() == 0 {
        file.write_all(TAG_TEXT)?;
    }
    Ok(())
}

/// How often a cache is opened that another process is removing.
const ATTEMPTS: u32 = 20;

/// How long to wait for that process: it removes folders that are empty.
const REMOVAL_WAIT: Duration = Duration::from_millis(50);

/// The use of the directory.
const USE: DirectoryUse = DirectoryUse {
    name: "cache",
    flag: "--cache",
};

/// The folder of all caches in the user's directory.
const FOLDER: &str = "mount-s3-cache";

/// The version of the format.
const VERSION: &str = "v1";

/// The file that is locked as long as a cache is in use.
const LOCK: &str = "lock";

/// The file that the evicting process has locked.
pub(crate) const EVICTION_LOCK: &str = "eviction.lock";

/// The file with the estimate of what the cache occupies.
pub(crate) const USAGE: &str = "usage";

/// The folder of listings and of the marks of changes.
const LISTINGS: &str = "listings";

const TAG: &str = "CACHEDIR.TAG";

const TAG_TEXT: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n\
    # This directory is a cache of mount-s3: backups need not keep it.\n";

#[cfg(test)]
mod tests;
