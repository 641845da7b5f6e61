//! The kept versions of a directory, which a mount may be using.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::description::Description;
use crate::file::directory::{self, Holder, StagingError, occupied};
use crate::local_disk::{Disk as _, Folder};

/// A staging directory, seen from outside of the mount that uses it.
#[derive(Debug)]
pub(crate) struct KeptVersions {
    /// The directory that the user named.
    directory: PathBuf,
    folder: Folder,
    kept: Option<Folder>,
}

/// A kept version.
#[derive(Clone, Debug)]
pub(crate) struct KeptVersion {
    /// Its name.
    pub(crate) id: String,
    pub(crate) description: Description,
    /// Bytes of the disk that it occupies.
    pub(crate) bytes: u64,
}

/// The state of a directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirectoryState {
    /// The mount that uses it.
    pub(crate) holder: Option<Holder>,
    /// Data files of open files.
    pub(crate) open_files: u64,
    /// Bytes of the disk that they occupy.
    pub(crate) open_bytes: u64,
}

impl KeptVersions {
    /// Opens the staging directory in `directory`. `None` if there is none.
    pub(crate) fn open(directory: &Path) -> Result<Option<Self>, StagingError> {
        let Some(folder) = directory::find(directory)? else {
            return Ok(None);
        };
        let kept = directory::find_kept(&folder)?;
        Ok(Some(Self {
            directory: directory.to_owned(),
            folder,
            kept,
        }))
    }

    /// The directory that the user named.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The folder of the staging directory.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The state of the directory.
    pub(crate) fn state(&self) -> Result<DirectoryState, StagingError> {
        let (open_files, open_bytes) = directory::find_usage(&self.folder)?;
        Ok(DirectoryState {
            holder: directory::find_holder(&self.folder)?,
            open_files,
            open_bytes,
        })
    }

    /// The names of all versions, the oldest first.
    pub(crate) fn ids(&self) -> Result<Vec<String>, StagingError> {
        let Some(kept) = &self.kept else {
            return Ok(Vec::new());
        };
        let names = kept.list().map_err(kept.unusable("cannot list it"))?;
        let ids = names
            .iter()
            .filter_map(|name| name.strip_suffix(".json").map(str::to_owned));
        let mut ids: Vec<_> = ids.collect();
        ids.sort();
        Ok(ids)
    }

    /// The version `id`; `None` if there is none.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if its description is damaged or of a later version of this
    /// program.
    pub(crate) fn find(&self, id: &str) -> io::Result<Option<KeptVersion>> {
        let Some(file) = self.file(id, "json")? else {
            return Ok(None);
        };
        let mut text = String::new();
        (&file)
            .take(DESCRIPTION_LEN_MAX)
            .read_to_string(&mut text)?;
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let description = Description::parse(&text).map_err(invalid)?;
        let mut bytes = occupied(&file);
        for suffix in DATA_SUFFIXES {
            bytes += self.file(id, suffix)?.as_ref().map_or(0, occupied);
        }
        let id = id.to_owned();
        Ok(Some(KeptVersion {
            id,
            description,
            bytes,
        }))
    }

    /// The two data files of a version, where they were made.
    pub(crate) fn data(&self, id: &str) -> io::Result<[Option<File>; 2]> {
        let [first, second] = DATA_SUFFIXES;
        Ok([self.file(id, first)?, self.file(id, second)?])
    }

    /// Removes a version. The description goes first: data files without one are no version.
    pub(crate) fn discard(&self, id: &str) -> io::Result<()> {
        let Some(kept) = self.kept.as_ref().filter(|_| is_id(id)) else {
            return Ok(());
        };
        for suffix in ["json"].into_iter().chain(DATA_SUFFIXES) {
            kept.remove(&format!("{id}.{suffix}"))?;
        }
        kept.sync()
    }

    fn file(&self, id: &str, suffix: &str) -> io::Result<Option<File>> {
        match &self.kept {
            Some(kept) if is_id(id) => kept.find_file(&format!("{id}.{suffix}")),
            _ => Ok(None),
        }
    }
}

/// Whether `id` is a name as versions have, which leads to no other folder.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// The ends of the names of data files.
const DATA_SUFFIXES: [&str; 2] = ["1", "2"];

/// More than the description of a file with the most ranges has.
const DESCRIPTION_LEN_MAX: u64 = 1 << 30;
