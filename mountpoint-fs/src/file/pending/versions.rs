//! The versions in the journal of a directory.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use mountpoint_client::types::ObjectHeaders;

use super::bytes::PendingBytes;
use crate::clock::Clock;
use crate::file::commit::{ReadRecord, VersionRecord, check_files, in_files, read_record};
use crate::file::contents::DataFileNo;
use crate::file::control::{pending_id, text_of};
use crate::file::directory::{
    self, DataFileName, JournalBucket, find_bucket, find_journal, hold, lock_out_mounts, occupied,
};
use crate::file::journal::{Journal, JournalError, JournalLimits, JournalReader, RecordId};
use crate::file::kept::{BaseVersion, Description, FORMAT, KeptRange, KeptVersion};
use crate::local_disk::{Disk as _, Folder};

/// The versions that wait for their upload in a directory that no mount uses.
#[derive(Debug)]
pub(crate) struct PendingVersions {
    journal: Arc<Folder>,
    /// The folder of the data files.
    files: Folder,
    reader: JournalReader,
    bucket: Option<JournalBucket>,
    /// Keeps mounts out, where the versions are to stay as they are.
    _lock: Option<File>,
}

/// A version in the journal, as it is shown.
#[derive(Debug)]
pub(crate) struct PendingEntry {
    /// Its description, as of a kept version. One whose record cannot be read has no key.
    pub(crate) version: KeptVersion,
    /// Why it cannot be uploaded.
    pub(crate) damage: Option<String>,
}

/// A version that waits for its upload, with its bytes.
#[derive(Debug)]
pub(crate) struct PendingVersion {
    /// Its description, as of a kept version.
    pub(crate) version: KeptVersion,
    /// Its local bytes.
    pub(crate) bytes: PendingBytes,
}

impl PendingVersions {
    /// Reads the journal of the staging directory in `directory`. `None` if it has none. Locks
    /// nothing: a mount may begin to use the directory meanwhile.
    ///
    /// # Errors
    /// A text for the user.
    pub(crate) fn look(directory: &Path) -> Result<Option<Self>, String> {
        Self::open(directory, false)
    }

    /// As [`Self::look`], and keeps mounts from using the directory as long as the value lives.
    ///
    /// # Errors
    /// A text for the user, which names the mount that uses the directory.
    pub(crate) fn take(directory: &Path) -> Result<Option<Self>, String> {
        Self::open(directory, true)
    }

    fn open(directory: &Path, is_alone: bool) -> Result<Option<Self>, String> {
        let Some(folder) = directory::find(directory)? else {
            return Ok(None);
        };
        let Some((journal, files)) = find_journal(&folder)? else {
            return Ok(None);
        };
        let lock = is_alone.then(|| lock_out_mounts(&folder)).transpose()?;
        let reader = read_journal(&journal)?;
        Ok(Some(Self {
            bucket: find_bucket(&folder)?,
            journal: Arc::new(journal),
            files,
            reader,
            _lock: lock,
        }))
    }

    /// The damage in the journal, if there is any.
    pub(crate) fn damage(&self) -> Vec<String> {
        let damage = self.reader.damage().iter();
        damage
            .map(|damage| {
                format!(
                    "segment {} of the journal is damaged at byte {}: {}",
                    damage.segment, damage.offset, damage.reason
                )
            })
            .collect()
    }

    /// All versions, the oldest first.
    pub(crate) fn all(&self) -> Vec<PendingEntry> {
        let records = self.reader.records().into_iter();
        records.filter_map(|record| self.entry(record.id)).collect()
    }

    /// The version `id`; `None` if there is none.
    pub(crate) fn find(&self, id: &str) -> Result<Option<PendingVersion>, String> {
        let mut records = self.reader.records().into_iter();
        let record = records.find(|record| pending_id(record.id.key.0) == id);
        let Some(record) = record else {
            return Ok(None);
        };
        let name = DataFileName(record.id.key.0);
        match read_record(&self.files, name, self.reader.read(record.id)) {
            ReadRecord::Removed => Ok(None),
            ReadRecord::Unreadable(reason) | ReadRecord::Newer(reason) => {
                Err(format!("{id}: {reason}"))
            }
            ReadRecord::Version(version, local, _) => {
                let bytes = self.bytes(name, &version, local);
                Ok(Some(PendingVersion {
                    version: self.shown(name, *version, 0),
                    bytes,
                }))
            }
        }
    }

    /// Removes the versions of these names for ever. Returns those that there are not.
    ///
    /// # Errors
    /// A text for the user: nothing, or a part of them, was removed.
    pub(crate) fn discard(&self, ids: &[String]) -> Result<Vec<String>, String> {
        hold(&self.journal)?;
        let disk = Arc::clone(&self.journal) as _;
        let limits = JournalLimits::default();
        let (journal, records) = Journal::open(disk, limits, Clock::monotonic())?;
        let mut unknown = Vec::new();
        for id in ids {
            let record = records.iter().find(|it| pending_id(it.id.key.0) == *id);
            let Some(record) = record else {
                unknown.push(id.clone());
                continue;
            };
            let released = futures::executor::block_on(journal.release(record.id));
            released.map_err(|error| format!("{id}: {error}"))?;
            self.remove_files(DataFileName(record.id.key.0))
                .map_err(|error| format!("{id}: {error}"))?;
        }
        Ok(unknown)
    }

    fn remove_files(&self, name: DataFileName) -> std::io::Result<()> {
        for file in DataFileNo::ALL {
            self.files.remove(&name.of(file))?;
        }
        for number in 0..2 {
            self.files.remove(&name.description(number))?;
        }
        Ok(())
    }

    /// The version of a record; `None` if it says that the file was removed.
    fn entry(&self, id: RecordId) -> Option<PendingEntry> {
        let name = DataFileName(id.key.0);
        let entry = match read_record(&self.files, name, self.reader.read(id)) {
            ReadRecord::Removed => return None,
            ReadRecord::Unreadable(reason) | ReadRecord::Newer(reason) => PendingEntry {
                version: self.shown(name, VersionRecord::unknown(), 0),
                damage: Some(reason),
            },
            ReadRecord::Version(version, local, _) => {
                let damage = match version.is_inline {
                    true => None,
                    false => check_files(&self.files, name, &version).err(),
                };
                let bytes = match version.is_inline {
                    true => local.len() as u64,
                    false => self.occupied(name),
                };
                PendingEntry {
                    version: self.shown(name, *version, bytes),
                    damage: damage.map(|error| error.to_string()),
                }
            }
        };
        Some(entry)
    }

    /// Bytes of the disk that the data files of a version occupy.
    fn occupied(&self, name: DataFileName) -> u64 {
        let files = DataFileNo::ALL.map(|file| self.files.find_file(&name.of(file)).ok().flatten());
        files.iter().flatten().map(occupied).sum()
    }

    /// The local bytes of a version.
    fn bytes(&self, name: DataFileName, version: &VersionRecord, local: Vec<u8>) -> PendingBytes {
        if version.is_inline {
            let ranges = in_files(version.local()).into_iter();
            let ranges = ranges.map(|(_, range)| range).collect();
            return PendingBytes::Inline(ranges, local);
        }
        let files = DataFileNo::ALL.map(|file| self.files.find_file(&name.of(file)).ok().flatten());
        PendingBytes::Files(files)
    }

    /// A version as it is shown, which occupies so many bytes of the disk.
    fn shown(&self, name: DataFileName, mut version: VersionRecord, bytes: u64) -> KeptVersion {
        if version.is_inline {
            version.place_in_first();
        }
        KeptVersion {
            id: pending_id(name.0),
            description: self.describe(&version),
            bytes,
        }
    }

    fn describe(&self, version: &VersionRecord) -> Description {
        let bucket = self.bucket.clone();
        let (bucket, endpoint) = bucket.map(|it| (it.name, it.endpoint)).unwrap_or_default();
        let contents = version.contents();
        let pieces = contents.now().pieces(0..version.size);
        Description {
            format: FORMAT,
            bucket,
            endpoint,
            key: version.key.clone(),
            host: String::new(),
            time: text_of(version.mtime()),
            reason: "it waits for its upload".to_owned(),
            size: version.size,
            base: version
                .base
                .clone()
                .map(|(etag, size)| BaseVersion { etag, size }),
            metadata: ObjectHeaders::from(version.headers.clone()).metadata,
            ranges: pieces.iter().map(KeptRange::of).collect(),
        }
    }
}

/// Reads a journal that a mount may be changing: once more if segments came or went meanwhile.
fn read_journal(disk: &Folder) -> Result<JournalReader, JournalError> {
    let names_of = || {
        let names = disk.list();
        names.map(|names| names.into_iter().collect::<BTreeSet<_>>())
    };
    let mut names = names_of()?;
    let mut tries = SCANS_MAX;
    loop {
        let read = JournalReader::open(disk);
        let names_now = names_of()?;
        tries -= 1;
        if names == names_now || tries == 0 {
            return read;
        }
        names = names_now;
    }
}

/// How often a journal is read that changes meanwhile: a mount has it by then, and is asked.
const SCANS_MAX: u32 = 5;
