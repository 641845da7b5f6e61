//! The directory of staged files: finds or makes it, and checks that no other process uses it.
//!
//! `DIR/mount-s3-staging` is ours; nothing else in DIR is ever touched. `files` has the bytes of
//! open files, `journal` the files to upload, `kept` the versions that could not be stored.
//! Every folder is opened relative to the one above and through no symbolic link.
//!
//! Invariant: while a [`StagingDirectory`] lives, its process holds the exclusive lock of `lock`.
//!
//! Every call may wait for a slow disk.

mod bucket;
mod faults;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod holder;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use self::bucket::JournalBucket;
use self::faults::Faults;
pub(crate) use self::holder::Holder;
use crate::file::contents::DataFileNo;
use crate::file::journal::JournalLimits;
use crate::local_disk::{DirectoryError, DirectoryUse, Disk, Folder, lock_within, try_lock_shared};

/// An open staging directory of this process alone.
#[derive(Debug)]
pub(in crate::file) struct StagingDirectory {
    folder: Folder,
    files: Arc<Folder>,
    /// The files of `files`.
    disk: Arc<dyn Disk>,
    kept: Folder,
    /// The disk of the journal, if it is not in the directory.
    #[cfg(test)]
    journal: Option<Arc<dyn Disk>>,
    /// Locked as long as this value lives.
    _lock: File,
    next_name: AtomicU64,
    pub(in crate::file) faults: Faults,
}

/// The name of a staged file's data files, and of its records in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::file) struct DataFileName(pub(in crate::file) u64);

impl DataFileName {
    /// The name that a file of the folder has; `None` if it is another file.
    pub(in crate::file) fn parse(file: &str) -> Option<Self> {
        let (number, suffix) = file.split_once('.')?;
        let name = Self(u64::from_str_radix(number, 16).ok()?);
        // Names are counted up from those that were found: no counter gets so far.
        let is_counted = name.0 < u64::MAX / 2;
        (is_counted && format!("{name}.{suffix}") == file).then_some(name)
    }

    /// The name of a description beside the journal, of which there may be two at a time.
    pub(in crate::file) fn description(self, number: u64) -> String {
        format!("{self}.r{}", number % 2)
    }

    /// The name of the checkpoint of its upload.
    pub(in crate::file) fn checkpoint(self) -> String {
        format!("{self}.u")
    }

    /// Whether `file` is one of the data files.
    pub(in crate::file) fn is_data(self, file: &str) -> bool {
        DataFileNo::ALL
            .iter()
            .any(|number| self.of(*number) == file)
    }

    /// The name of one of the files.
    pub(in crate::file) fn of(self, file: DataFileNo) -> String {
        match file {
            DataFileNo::First => format!("{self}.1"),
            DataFileNo::Second => format!("{self}.2"),
        }
    }
}

/// Why a staging directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StagingError {
    /// Its folders are not as they should be.
    #[error("{0}")]
    Directory(#[from] DirectoryError),
    /// Another process has it.
    #[error(
        "the staging directory {path} is in use{holder}: one directory serves one mount; end that mount, or name \
         another directory with --staging"
    )]
    InUse {
        /// The directory.
        path: String,
        /// The process, if it told.
        holder: String,
    },
    /// A later version of this program has made it.
    #[error(
        "{path} has the format {found:?}, and this version of mount-s3 knows {FORMAT:?} alone: use the version that made \
         it, or name another directory with --staging"
    )]
    Format {
        /// The file that names the format.
        path: String,
        /// The name.
        found: String,
    },
}

impl From<StagingError> for String {
    /// The text for the user.
    fn from(refused: StagingError) -> Self {
        refused.to_string()
    }
}

impl StagingDirectory {
    /// Opens the staging directory in `directory` for `holder`, and makes what is missing.
    ///
    /// `is_inside` tells whether a path is in the mount itself: such a directory would wait for
    /// itself.
    pub(in crate::file) fn open(
        directory: &Path,
        holder: &Holder,
        is_inside: &dyn Fn(&Path) -> bool,
    ) -> Result<Self, StagingError> {
        let directory = std::path::absolute(directory)
            .map_err(|error| DirectoryError::unusable(USE, directory, NOT_FOUND, error))?;
        // The parent counts as well, because the directory may have to be made.
        if directory.ancestors().any(is_inside) {
            let (of, path) = (USE, directory);
            return Err(DirectoryError::Inside { of, path }.into());
        }
        let base = Folder::open_base(USE, &directory, true)?;
        let folder = base.enter_or_make(FOLDER)?;
        folder.check_writable()?;
        let lock = lock(&folder, holder)?;
        check_format(&folder, true)?;
        let files = Arc::new(folder.enter_or_make(FILES)?);
        hold(&files)?;
        let kept = folder.enter_or_make(KEPT)?;
        // A durable file is lost with the name of its folder.
        sync(&folder)?;
        sync(&base)?;
        Ok(Self {
            disk: Arc::clone(&files) as _,
            files,
            kept,
            #[cfg(test)]
            journal: None,
            folder,
            _lock: lock,
            next_name: AtomicU64::new(0),
            faults: Faults::default(),
        })
    }

    /// The disk of the journal. `None` if there is no journal, unless it `may_make` one.
    pub(in crate::file) fn journal(
        &self,
        may_make: bool,
    ) -> Result<Option<Arc<dyn Disk>>, StagingError> {
        #[cfg(test)]
        if let Some(disk) = &self.journal {
            return Ok(Some(Arc::clone(disk)));
        }
        let folder = match may_make {
            true => Some(self.folder.enter_or_make(JOURNAL)?),
            false => self.folder.enter(JOURNAL)?,
        };
        let Some(folder) = folder else {
            return Ok(None);
        };
        hold(&folder)?;
        sync(&self.folder)?;
        Ok(Some(Arc::new(folder)))
    }

    /// The directory with its data files and its journal on another disk.
    #[cfg(test)]
    pub(in crate::file) fn with_disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Arc::clone(&disk);
        self.journal = Some(disk);
        self
    }

    /// How large the journal may be.
    #[cfg(test)]
    pub(in crate::file) fn journal_limits(&self) -> JournalLimits {
        match self.journal {
            // A simulated disk takes long to read a large segment.
            Some(_) => JournalLimits {
                segment_len: 4 << 20,
                ..JournalLimits::default()
            },
            None => JournalLimits::default(),
        }
    }

    /// How large the journal may be.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests have small ones")]
    pub(in crate::file) fn journal_limits(&self) -> JournalLimits {
        JournalLimits::default()
    }

    /// Notes that versions are for `bucket` from now on. If some `are_left` for another bucket,
    /// that is returned, and nothing is noted: they must not be stored in this one.
    pub(in crate::file) fn claim_for(
        &self,
        bucket: &JournalBucket,
        are_left: bool,
    ) -> Result<Option<JournalBucket>, StagingError> {
        match find_bucket(&self.folder)? {
            Some(noted) if noted == *bucket => Ok(None),
            Some(other) if are_left => Ok(Some(other)),
            Some(_) | None => {
                let written = bucket.write(&self.folder);
                written.map_err(self.folder.unusable(NO_BUCKET))?;
                Ok(None)
            }
        }
    }

    /// Where it is.
    pub(in crate::file) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of all that.
    pub(in crate::file) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The folder of the data files.
    pub(in crate::file) fn files(&self) -> &Folder {
        &self.files
    }

    /// The folder of versions that could not be stored.
    pub(in crate::file) fn kept(&self) -> &Folder {
        &self.kept
    }

    /// A name that no file has.
    pub(in crate::file) fn new_name(&self) -> DataFileName {
        DataFileName(self.next_name.fetch_add(1, Ordering::Relaxed))
    }

    /// Names from `number` on are free.
    pub(in crate::file) fn skip_names(&self, number: u64) {
        self.next_name.fetch_max(number, Ordering::Relaxed);
    }

    /// The disk of the data files.
    pub(in crate::file) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Removes a file of the data folder, if it is there. Failures are left to the next start.
    pub(in crate::file) fn remove_data_file(&self, name: &str) {
        if let Err(error) = self.disk.remove(name) {
            tracing::warn!("a staged file stays in {}: {error}", self.path().display());
        }
    }

    /// The names of files that have checkpoints of uploads.
    pub(in crate::file) fn checkpoints(&self) -> Result<Vec<DataFileName>, StagingError> {
        let found = self.disk.list().map_err(self.files.unusable(NOT_LISTED))?;
        let names = found.iter().filter_map(|file| {
            let name = DataFileName::parse(file)?;
            (name.checkpoint() == *file).then_some(name)
        });
        Ok(names.collect())
    }

    /// Whether an earlier mount has had a journal in the directory.
    pub(in crate::file) fn had_journal(&self) -> Result<bool, StagingError> {
        Ok(find_bucket(&self.folder)?.is_some())
    }

    /// The files that a process has left which was killed, but for those that `is_needed`. Later
    /// names are above all that are there.
    pub(in crate::file) fn leftovers(
        &self,
        is_needed: &dyn Fn(DataFileName) -> bool,
    ) -> Result<Vec<String>, StagingError> {
        let mut found = self.disk.list().map_err(self.files.unusable(NOT_LISTED))?;
        found.retain(|file| {
            // A file of another name is not ours.
            let Some(name) = DataFileName::parse(file) else {
                return false;
            };
            self.skip_names(name.0.saturating_add(1));
            // A checkpoint goes when its upload is aborted.
            !is_needed(name) && name.checkpoint() != *file
        });
        Ok(found)
    }

    /// Removes `leftovers`, which no record of a whole journal names: no `close` or `fsync` of
    /// theirs had returned.
    pub(in crate::file) fn remove_leftovers(
        &self,
        leftovers: &[String],
    ) -> Result<(), StagingError> {
        for file in leftovers {
            let removed = self.disk.remove(file);
            removed.map_err(|error| {
                DirectoryError::unusable(USE, &self.files.path().join(file), NOT_REMOVED, error)
            })?;
        }
        if !leftovers.is_empty() {
            tracing::warn!(
                "{} files that a mount had not stored when it was killed are removed from {}; their close had not \
                 returned",
                leftovers.len(),
                self.path().display()
            );
        }
        Ok(())
    }
}

/// The folder of a staging directory that may be in use; `None` if there is none.
pub(crate) fn find(directory: &Path) -> Result<Option<Folder>, StagingError> {
    let base = Folder::open_base(USE, directory, false)?;
    let Some(folder) = base.enter(FOLDER)? else {
        return Ok(None);
    };
    check_format(&folder, false)?;
    Ok(Some(folder))
}

/// The folder of kept versions in `folder`; `None` if there is none.
pub(crate) fn find_kept(folder: &Folder) -> Result<Option<Folder>, StagingError> {
    Ok(folder.enter(KEPT)?)
}

/// The process that has the directory; `None` if none has.
pub(crate) fn find_holder(folder: &Folder) -> Result<Option<Holder>, StagingError> {
    let path = folder.path().join(LOCK);
    let failed = |error| DirectoryError::unusable(USE, &path, NO_LOCK, error);
    let Some(file) = folder.find_file(LOCK).map_err(failed)? else {
        return Ok(None);
    };
    match try_lock_shared(&file).map_err(failed)? {
        true => Ok(None),
        false => Ok(Some(Holder::read(&file).unwrap_or_default())),
    }
}

/// The folders of the journal and of the data files in `folder`; `None` if there is no journal.
pub(crate) fn find_journal(folder: &Folder) -> Result<Option<(Folder, Folder)>, StagingError> {
    Ok(folder.enter(JOURNAL)?.zip(folder.enter(FILES)?))
}

/// The bucket that the journal's versions are for.
pub(crate) fn find_bucket(folder: &Folder) -> Result<Option<JournalBucket>, StagingError> {
    Ok(JournalBucket::read(folder).map_err(folder.unusable(NO_BUCKET))?)
}

/// Keeps mounts from using the directory as long as the value lives, and names this process to
/// them.
pub(crate) fn lock_out_mounts(folder: &Folder) -> Result<File, StagingError> {
    lock(folder, &Holder::beside_mounts())
}

/// The bytes that the files of `folder` occupy, and how many files there are.
pub(crate) fn find_usage(folder: &Folder) -> Result<(u64, u64), StagingError> {
    let Some(files) = folder.enter(FILES)? else {
        return Ok((0, 0));
    };
    let (mut count, mut bytes) = (0, 0);
    for name in files.list().map_err(files.unusable(NOT_LISTED))? {
        if let Ok(Some(file)) = files.find_file(&name) {
            count += 1;
            bytes += occupied(&file);
        }
    }
    Ok((count, bytes))
}

/// Bytes of the disk that a file occupies.
pub(crate) fn occupied(file: &File) -> u64 {
    file.metadata().map_or(0, |found| found.blocks() * 512)
}

/// Takes the lock, and names its holder in it.
fn lock(folder: &Folder, holder: &Holder) -> Result<File, StagingError> {
    let path = folder.path().join(LOCK);
    let unusable = |error| DirectoryError::unusable(USE, &path, NO_LOCK, error);
    let mut file = folder.open_file(LOCK).map_err(unusable)?;
    let taken = lock_within(&file, LOCK_WAIT_MAX);
    if !taken.map_err(|error| unlockable(&path, error))? {
        let holder = Holder::read(&file).map(|holder| holder.to_string());
        return Err(in_use(folder, holder.unwrap_or_default()));
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(holder.line().as_bytes()));
    written.map_err(unusable)?;
    Ok(file)
}

/// Keeps other processes out of `folder` as long as it is open. The thread of a journal may write
/// longer than the directory is open, and another program may remove the file of the lock.
pub(crate) fn hold(folder: &Folder) -> Result<(), StagingError> {
    let taken = folder.lock_within(LOCK_WAIT_MAX);
    match taken.map_err(|error| unlockable(folder.path(), error))? {
        true => Ok(()),
        false => Err(in_use(folder, String::new())),
    }
}

/// The refusal of a folder that another process, `holder`, has.
fn in_use(folder: &Folder, holder: String) -> StagingError {
    let path = folder.path().display().to_string();
    StagingError::InUse { path, holder }
}

/// The refusal of a lock for another reason than its holder.
fn unlockable(path: &Path, error: io::Error) -> DirectoryError {
    let (of, path) = (USE, path.to_owned());
    DirectoryError::Unlockable { of, path, error }
}

/// Makes the names in `folder` durable.
fn sync(folder: &Folder) -> Result<(), StagingError> {
    Ok(folder.sync().map_err(folder.unusable(NOT_SYNCED))?)
}

/// Checks the format of a directory, or notes it in a new one.
fn check_format(folder: &Folder, may_write: bool) -> Result<(), StagingError> {
    let path = folder.path().join(FORMAT_FILE);
    let unusable = |error| DirectoryError::unusable(USE, &path, NO_FORMAT, error);
    let file = match may_write {
        true => Some(folder.open_file(FORMAT_FILE)),
        false => folder.find_file(FORMAT_FILE).transpose(),
    };
    let Some(mut file) = file.transpose().map_err(unusable)? else {
        return Ok(());
    };
    let mut found = String::new();
    let mut beginning = (&file).take(FORMAT_LEN_MAX);
    beginning.read_to_string(&mut found).map_err(unusable)?;
    if found.is_empty() && may_write {
        return Ok(file
            .write_all(format!("{FORMAT}\n").as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(unusable)?);
    }
    let found = found.trim_end().to_owned();
    if found == FORMAT || found.is_empty() {
        return Ok(());
    }
    let path = path.display().to_string();
    Err(StagingError::Format { path, found })
}

impl fmt::Display for DataFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The use of the directory, for texts.
const USE: DirectoryUse = DirectoryUse {
    name: "staging",
    flag: "--staging",
};

const FOLDER: &str = "mount-s3-staging";
const FILES: &str = "files";
const KEPT: &str = "kept";
const JOURNAL: &str = "journal";
const LOCK: &str = "lock";
const FORMAT_FILE: &str = "format";

/// The format of all files. One that is not known is refused.
const FORMAT: &str = "mount-s3 staging 1";

/// Longest wait for the lock: [`find_holder`] has it for microseconds, and a mount that ends may
/// have it a little longer than its mount point lasts.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(1);

/// More than any format's name has.
const FORMAT_LEN_MAX: u64 = 256;

const NOT_FOUND: &str = "cannot find the staging directory";
const NO_LOCK: &str = "cannot use the lock of the staging directory";
const NO_BUCKET: &str = "cannot use the name of the bucket in the staging directory";
const NO_FORMAT: &str = "cannot use the format of the staging directory";
const NOT_LISTED: &str = "cannot list what a killed mount has left";
const NOT_SYNCED: &str = "cannot sync the staging directory";
const NOT_REMOVED: &str = "cannot remove what a killed mount has left";
