//! The files of the state directory: this mount's own, and those of others.
//!
//! Every call may wait for a disk, however slow; the caller holds no lock that anything but another such call needs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mountpoint_client::types::{Key, Upload};

use super::line::{Header, Line, Renaming, VERSION};
use super::origin::{self, Origin};
use crate::config::limits::{JOURNAL_FILES_MAX, JOURNAL_LEN_MAX};

/// Where journals are, what about, and who asks.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) directory: PathBuf,
    /// Which bucket it is about: the same for every mount of it.
    pub(super) bucket: String,
    pub(super) here: Origin,
    /// Whether no other host can have a file open.
    pub(super) is_local: fn(&File) -> bool,
}

impl Place {
    pub(super) fn new(directory: &Path, bucket: &str) -> Self {
        Self {
            directory: directory.to_owned(),
            bucket: bucket.to_owned(),
            here: Origin::here(),
            is_local: origin::is_local,
        }
    }

    /// A new file, locked.
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
                    // Who looked at it before it was locked may have taken it for a dead one's.
                    if has_name(&file, &path) {
                        return Ok((path, file));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("there are too many journals"))
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

    /// The journals that are there; those whose names tell this host come first.
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

    /// Whether the lock of `file`, which is free, says that the process of the journal is gone. `header` is its first
    /// line; `None` in files of a format before.
    fn can_trust(&self, file: &File, header: Option<&Header>) -> bool {
        let Some(header) = header else {
            return (self.is_local)(file);
        };
        let is_same_boot = self.here.is_same_boot(&header.origin);
        // One host may have a shared file system mounted twice, and then keeps its locks apart.
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

/// The file of this mount. It is made with the first line.
#[derive(Debug, Default)]
pub(super) struct JournalFile {
    pub(super) file: Option<File>,
    pub(super) path: PathBuf,
    len: u64,
    /// The length at which a new file is begun.
    len_max: u64,
    /// A line could not be written, or not all of it.
    pub(super) has_missed: bool,
}

impl JournalFile {
    /// Writes `lines`; or, where the file is not there or has missed something or `tell_all` is, a new one with what
    /// `all` says then. Whether that was done.
    pub(super) fn write(
        &mut self,
        place: &Place,
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
        place: &Place,
        lines: &[u8],
        all: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> io::Result<bool> {
        let file = self.file.as_mut().expect("it is there");
        file.write_all(lines)?;
        self.len += lines.len() as u64;
        if self.len <= self.len_max {
            return Ok(false);
        }
        let is_anew = self.begin_anew(place, all).is_ok();
        if !is_anew {
            // What there is to say stands in the old one.
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

    /// A new file with what `all` says, instead of the one that is there; none if that is nothing.
    pub(super) fn begin_anew(
        &mut self,
        place: &Place,
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
        // One that cannot be removed stays locked, or the next mount would abort what is open in it.
        if self.is_there() && !is_gone(std::fs::remove_file(&self.path)) {
            if let Some((path, file, _)) = made {
                // One that cannot be removed either is to name nothing.
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

    /// Removes the file, because nothing is open.
    pub(super) fn remove(&mut self) {
        if self.is_there() {
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// Whether nothing has the name after an attempt to remove it.
pub(super) fn is_gone(removed: io::Result<()>) -> bool {
    removed.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
}

/// Whether the file can be found by its name. A count of links does not tell: NFS keeps one under another name.
fn has_name(file: &File, path: &Path) -> bool {
    let number = |it: std::fs::Metadata| (it.dev(), it.ino());
    let named = std::fs::symlink_metadata(path).map(number);
    matches!((named, file.metadata().map(number)), (Ok(named), Ok(open)) if named == open)
}

/// What a look at somebody's journal says.
pub(super) enum Look {
    /// Its process is gone: this is what it left.
    Left(Left),
    /// It may be of a process that lives, on the host of this name.
    Elsewhere(String),
    /// Its process lives, or it is about another bucket.
    Nothing,
}

/// What a process left that is gone. The file is locked.
pub(super) struct Left {
    pub(super) uploads: Vec<Upload>,
    pub(super) renames: Vec<Renaming>,
    /// Locked as long as it is here.
    pub(super) file: File,
}

impl Look {
    /// What is in the file at `path`.
    pub(super) fn at(path: &Path, place: &Place) -> io::Result<Self> {
        // NFS gives a lock that excludes others to nobody who cannot write.
        let mut file = File::options().read(true).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Self::Nothing),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Between the two its process has begun another one, which is locked, or another mount has taken it.
        if !has_name(&file, path) {
            return Ok(Self::Nothing);
        }
        let mut lines = Vec::new();
        file.read_to_end(&mut lines)?;
        let read = Content::of(&lines);
        let is_empty = read.uploads.is_empty() && read.renames.is_empty();
        let bucket = read.header.as_ref().map(|header| &header.bucket);
        match bucket.or(read.bucket.as_ref()) {
            Some(bucket) if *bucket != place.bucket => return Ok(Self::Nothing),
            Some(_) => {}
            // It has come to nothing; what one without a bucket names all the same is nobody knows where.
            None if is_empty && (place.is_local)(&file) => {}
            None => return Ok(Self::Nothing),
        }
        if place.can_trust(&file, read.header.as_ref()) {
            return Ok(Self::Left(Left {
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

/// What the lines of a file say.
#[derive(Default)]
struct Content {
    header: Option<Header>,
    /// In a file without a header.
    bucket: Option<String>,
    uploads: Vec<Upload>,
    renames: Vec<Renaming>,
}

impl Content {
    fn of(lines: &[u8]) -> Self {
        let mut content = Self::default();
        let (uploads, renames) = (&mut content.uploads, &mut content.renames);
        for line in lines.split(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Line::Journal(header)) => content.header = Some(header),
                Ok(Line::Bucket(name)) => content.bucket = Some(name),
                Ok(Line::Begun { key, id }) => {
                    uploads.extend(Key::parse(&key).map(|key| Upload { key, upload_id: id }));
                }
                Ok(Line::Ended { id }) => uploads.retain(|upload| upload.upload_id != id),
                Ok(Line::Renaming(renaming)) => renames.push(renaming),
                Ok(Line::Renamed { from, to }) => renames.retain(|known| !known.is(&from, &to)),
                // It was cut off by a full disk, or the end of its process: then nothing was done with it yet.
                Err(_) => {}
            }
        }
        content
    }
}

const EXTENSION: &str = "journal";
