//! Files of the state directory: this mount's journal and those of other processes.
//!
//! Every call may wait for a slow disk. The caller holds no lock except those that serialise such
//! calls.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mountpoint_client::types::{Key, Upload};
use nix::fcntl::OFlag;

use super::line::{Header, Line, Renaming, VERSION};
use super::origin::{self, Origin};
use super::state::RENAMES_REMEMBERED_MAX;
use crate::local_disk::try_lock;

/// Where journals are kept, their bucket, and the host that reads them.
#[derive(Clone, Debug)]
pub(super) struct JournalDirectory {
    pub(super) directory: PathBuf,
    /// The bucket of the journals: identical for every mount of that bucket.
    pub(super) bucket: String,
    pub(super) here: Origin,
    /// Whether no other host can have a file open.
    pub(super) is_local: fn(&File) -> bool,
}

impl JournalDirectory {
    pub(super) fn new(directory: &Path, bucket: &str) -> Self {
        Self {
            directory: directory.to_owned(),
            bucket: bucket.to_owned(),
            here: Origin::here(),
            is_local: origin::is_local,
        }
    }

    /// Creates a file and locks it.
    fn make(&self) -> io::Result<(PathBuf, File)> {
        make_directory(&self.directory)?;
        let (host, process) = (self.here.file_name(), std::process::id());
        for number in 0..JOURNAL_FILES_MAX {
            let name = format!("uploads-{host}-{process}-{number}.{EXTENSION}");
            let path = self.directory.join(name);
            let file = OpenOptions::new()
                .create_new(true)
                .append(true)
                .mode(0o600)
                .open(&path);
            match file {
                Ok(file) => {
                    if let Err(error) = file.lock() {
                        std::fs::remove_file(&path).ok();
                        return Err(error);
                    }
                    // A mount that looked at the file before it was locked may have taken it for
                    // the journal of a dead process.
                    if has_name(&file, &path) {
                        return Ok((path, file));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(
            "the state directory has too many journals",
        ))
    }

    fn first_line(&self, file: &File) -> io::Result<Vec<u8>> {
        let header = Header {
            version: VERSION,
            bucket: self.bucket.clone(),
            origin: self.here.clone(),
            device: file.metadata()?.dev(),
        };
        let mut lines = Vec::new();
        Line::Journal(header).append_to(&mut lines)?;
        Ok(lines)
    }

    /// The journals of the directory; those whose file names carry this host's name come first.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|it| it == EXTENSION))
            .collect();
        let own = format!("uploads-{}-", self.here.file_name());
        let is_others = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            !name.is_some_and(|name| name.starts_with(&own))
        };
        files.sort_by_cached_key(is_others);
        files.truncate(JOURNAL_FILES_MAX);
        files
    }

    /// Whether the free lock of `file` proves that the journal's process has ended.
    ///
    /// `header` is the first line of the file; `None` in files of an earlier format.
    fn can_trust(&self, file: &File, header: Option<&Header>) -> bool {
        let Some(header) = header else {
            return (self.is_local)(file);
        };
        let is_same_boot = self.here.is_same_boot(&header.origin);
        // A host that has mounted a shared file system twice keeps separate locks for each mount.
        let is_same_mount = || file.metadata().is_ok_and(|it| it.dev() == header.device);
        header.version == VERSION
            && self.here.is_same_host(&header.origin)
            && (!is_same_boot || (self.is_local)(file) || is_same_mount())
    }
}

pub(super) fn make_directory(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

/// The journal file of this mount. The first line creates the file.
#[derive(Debug, Default)]
pub(super) struct JournalFile {
    pub(super) file: Option<File>,
    pub(super) path: PathBuf,
    len: u64,
    /// The file length at which a new file is started.
    len_max: u64,
    /// A line could not be written, or only a part of it.
    pub(super) has_missed: bool,
}

impl JournalFile {
    /// Appends `lines`, or writes a new file with the lines of `all`. Returns whether the file is
    /// new.
    ///
    /// A new file is written where the file is missing, where a line was lost, or where `tell_all`
    /// is set.
    pub(super) fn write(
        &mut self,
        place: &JournalDirectory,
        (lines, tell_all): (&[u8], bool),
        all: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> io::Result<bool> {
        let has_told_all = if tell_all || self.has_missed || !self.is_there() {
            self.begin_anew(place, all).map(|()| true)
        } else {
            self.append(place, lines, all)
        };
        self.has_missed = has_told_all.is_err();
        has_told_all
    }

    fn append(
        &mut self,
        place: &JournalDirectory,
        lines: &[u8],
        all: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> io::Result<bool> {
        let file = self.file.as_mut().expect("the file was opened above");
        file.write_all(lines)?;
        self.len += lines.len() as u64;
        if self.len <= self.len_max {
            return Ok(false);
        }
        let is_anew = self.begin_anew(place, all).is_ok();
        if !is_anew {
            // All open entries are in the old file.
            self.len_max = self.len.saturating_mul(2);
        }
        Ok(is_anew)
    }

    /// Whether the next mount would find the file.
    fn is_there(&self) -> bool {
        self.file
            .as_ref()
            .is_some_and(|file| has_name(file, &self.path))
    }

    /// Replaces the file by one with the lines of `all`; no lines, no file.
    pub(super) fn begin_anew(
        &mut self,
        place: &JournalDirectory,
        all: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> io::Result<()> {
        let all = all()?;
        let mut made = None;
        if !all.is_empty() {
            let (path, mut file) = place.make()?;
            let written = place.first_line(&file).and_then(|mut lines| {
                lines.extend(all);
                file.write_all(&lines).map(|()| lines.len() as u64)
            });
            match written {
                Ok(len) => made = Some((path, file, len)),
                Err(error) => {
                    std::fs::remove_file(&path).ok();
                    return Err(error);
                }
            }
        }
        // A file that cannot be removed stays locked; otherwise the next mount would abort the open
        // uploads that it names.
        if self.is_there() && !is_gone(std::fs::remove_file(&self.path)) {
            if let Some((path, file, _)) = made {
                // A new file that cannot be removed either is emptied.
                file.set_len(0).ok();
                std::fs::remove_file(path).ok();
            }
            return Err(io::Error::other("a journal cannot be removed"));
        }
        self.file = None;
        if let Some((path, file, len)) = made {
            (self.path, self.file) = (path, Some(file));
            (self.len, self.len_max) = (len, JOURNAL_LEN_MAX.max(2 * len));
        }
        Ok(())
    }

    /// Removes the file, because no entry is open.
    pub(super) fn remove(&mut self) {
        if self.is_there() {
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// Whether no file has the name after an attempt to remove it.
pub(super) fn is_gone(removed: io::Result<()>) -> bool {
    removed.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
}

/// Whether the file can be found by its name.
///
/// A link count does not tell: NFS keeps a removed file under another name.
fn has_name(file: &File, path: &Path) -> bool {
    let number = |it: std::fs::Metadata| (it.dev(), it.ino());
    let named = std::fs::symlink_metadata(path).map(number);
    matches!((named, file.metadata().map(number)), (Ok(named), Ok(open)) if named == open)
}

/// The result of examining another process's journal.
pub(super) enum JournalReport {
    /// The journal's process has ended and left these entries.
    Leftovers(Leftovers),
    /// The journal may belong to a live process on the host of this name.
    Elsewhere(String),
    /// The journal's process lives, or the journal is about another bucket.
    Nothing,
}

/// The entries of a process that has ended. The file is locked.
pub(super) struct Leftovers {
    pub(super) uploads: Vec<Upload>,
    pub(super) renames: Vec<Renaming>,
    /// The file, locked as long as this value lives.
    pub(super) file: File,
}

impl JournalReport {
    /// Examines the file at `path`.
    pub(super) fn at(path: &Path, place: &JournalDirectory) -> io::Result<Self> {
        // NFS grants an exclusive lock only on a file that is open for writing.
        let mut options = File::options();
        options.read(true).write(true);
        // Others may write to a shared state directory.
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = options.custom_flags(flags.bits()).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() > READ_LEN_MAX {
            return Ok(Self::Nothing);
        }
        if !try_lock(&file)? {
            return Ok(Self::Nothing);
        }
        // Between `open` and the lock, the journal's process has started another file, or another
        // mount has taken this one over.
        if !has_name(&file, path) {
            return Ok(Self::Nothing);
        }
        let mut lines = Vec::new();
        (&file).take(READ_LEN_MAX).read_to_end(&mut lines)?;
        let read = Content::of(&lines);
        let is_empty = read.uploads.is_empty() && read.renames.is_empty();
        let bucket = read.header.as_ref().map(|header| &header.bucket);
        match bucket.or(read.bucket.as_ref()) {
            Some(bucket) if *bucket != place.bucket => return Ok(Self::Nothing),
            Some(_) => {}
            // The process ended before it wrote a line. Entries without a bucket cannot be
            // attributed to one.
            None if is_empty && (place.is_local)(&file) => {}
            None => return Ok(Self::Nothing),
        }
        if place.can_trust(&file, read.header.as_ref()) {
            return Ok(Self::Leftovers(Leftovers {
                uploads: read.uploads,
                renames: read.renames,
                file,
            }));
        }
        let host = read.header.map(|header| header.origin.host);
        Ok(Self::Elsewhere(
            host.unwrap_or_else(|| "an unknown host".to_owned()),
        ))
    }
}

/// The parsed lines of a file.
#[derive(Default)]
pub(super) struct Content {
    pub(super) header: Option<Header>,
    /// The bucket that a file without a header names.
    bucket: Option<String>,
    pub(super) uploads: Vec<Upload>,
    pub(super) renames: Vec<Renaming>,
}

impl Content {
    pub(super) fn of(lines: &[u8]) -> Self {
        let mut content = Self::default();
        let (uploads, renames) = (&mut content.uploads, &mut content.renames);
        let mut ended = HashSet::new();
        for line in lines.split(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Line::Journal(header)) => content.header = Some(header),
                Ok(Line::Bucket(name)) => content.bucket = Some(name),
                Ok(Line::Begun { key, id }) => {
                    uploads.extend(Key::parse(&key).map(|key| Upload { key, upload_id: id }));
                }
                Ok(Line::Ended { id }) => drop(ended.insert(id)),
                Ok(Line::Renaming(renaming)) => {
                    if renames.len() >= RENAMES_REMEMBERED_MAX {
                        renames.remove(0);
                    }
                    renames.push(renaming);
                }
                Ok(Line::Renamed { from, to }) => renames.retain(|known| !known.is(&from, &to)),
                // The line was cut off by a full disk or by the end of the process: its change had
                // not begun yet.
                Err(_) => {}
            }
        }
        // No two uploads have one id.
        uploads.retain(|upload| !ended.contains(&upload.upload_id));
        content
    }
}

const EXTENSION: &str = "journal";

/// Journals in the state directory that are read. One for each killed mount of this user.
const JOURNAL_FILES_MAX: usize = 1000;

/// A longer file is of others: this one has room for uploads of 10,000 of the longest keys.
const READ_LEN_MAX: u64 = 16 << 20;

/// File size above which a journal may be rewritten, in bytes. It must also have doubled.
pub(super) const JOURNAL_LEN_MAX: u64 = 64 << 10;
