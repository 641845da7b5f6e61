//! The versions in the journal of a directory.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use mountpoint_client::types::ObjectHeaders;

use super::bytes::PendingBytes;
use crate::clock::Clock;
use crate::private_folder::Folder;
use crate::staging::contents::DataFileNo;
use crate::staging::control::{pending_id, text_of};
use crate::staging::directory::{
    self, DataFileName, JournalBucket, find_bucket, find_journal, lock_out_mounts, occupied,
};
use crate::staging::disk::{Disk, LocalDisk};
use crate::staging::journal::{AdaptivePolicy, Journal, JournalLimits, JournalReader, RecordId};
use crate::staging::kept::{BaseVersion, Description, FORMAT, KeptRange, KeptVersion};
use crate::staging::record::{ReadRecord, VersionRecord, in_files, read_record};

/// The versions that wait for their upload in a directory that no mount uses. No mount can begin to
/// use it while this lives.
#[derive(Debug)]
pub(crate) struct PendingVersions {
    journal: Folder,
    files: Folder,
    reader: JournalReader,
    bucket: Option<JournalBucket>,
    _lock: File,
}

/// A version that waits for its upload.
#[derive(Debug)]
pub(crate) struct PendingVersion {
    /// Its description, as of a kept version.
    pub(crate) version: KeptVersion,
    /// Its local bytes.
    pub(crate) bytes: PendingBytes,
}

impl PendingVersions {
    /// Reads the journal of the staging directory in `directory`. `None` if it has none, or if a
    /// mount uses it.
    ///
    /// # Errors
    /// A text for the user.
    pub(crate) fn open(directory: &Path) -> Result<Option<Self>, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let Some(folder) = directory::find(directory).map_err(|error| text(&error))? else {
            return Ok(None);
        };
        let Some((journal, files)) = find_journal(&folder).map_err(|error| text(&error))? else {
            return Ok(None);
        };
        let Some(lock) = lock_out_mounts(&folder).map_err(|error| text(&error))? else {
            return Ok(None);
        };
        let disk = open_disk(&journal)?;
        let reader = JournalReader::open(&disk).map_err(|error| text(&error))?;
        Ok(Some(Self {
            bucket: find_bucket(&folder).map_err(|error| text(&error))?,
            journal,
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

    /// All versions, the oldest first, each with the reason if it cannot be read.
    pub(crate) fn all(&self) -> Vec<Result<PendingVersion, String>> {
        let records = self.reader.records().into_iter();
        records.filter_map(|record| self.read(record.id)).collect()
    }

    /// The version `id`; `None` if there is none.
    pub(crate) fn find(&self, id: &str) -> Result<Option<PendingVersion>, String> {
        let mut records = self.reader.records().into_iter();
        let record = records.find(|record| pending_id(record.id.key.0) == id);
        record.and_then(|record| self.read(record.id)).transpose()
    }

    /// Removes the versions of these names for ever. Returns those that there are not.
    ///
    /// # Errors
    /// A text for the user: nothing, or a part of them, was removed.
    pub(crate) fn discard(&self, ids: &[String]) -> Result<Vec<String>, String> {
        let disk = open_disk(&self.journal)?;
        let policy = Box::new(AdaptivePolicy::new());
        let opened = Journal::open(disk, JournalLimits::default(), policy, Clock::monotonic());
        let (journal, records) = opened.map_err(|error| error.to_string())?;
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
            self.files.remove_file(&name.of(file))?;
        }
        for number in 0..2 {
            self.files.remove_file(&name.description(number))?;
        }
        Ok(())
    }

    /// The version of a record; `None` if it says that the file was removed.
    fn read(&self, id: RecordId) -> Option<Result<PendingVersion, String>> {
        let name = DataFileName(id.key.0);
        let disk = match open_disk(&self.files) {
            Ok(disk) => disk,
            Err(error) => return Some(Err(error)),
        };
        match read_record(&*disk, name, self.reader.read(id)) {
            ReadRecord::Removed => None,
            ReadRecord::Unreadable(reason) | ReadRecord::Newer(reason) => {
                Some(Err(format!("{}: {reason}", pending_id(name.0))))
            }
            ReadRecord::Version(version, local, _) => Some(Ok(self.version(id, *version, local))),
        }
    }

    fn version(
        &self,
        record: RecordId,
        mut version: VersionRecord,
        local: Vec<u8>,
    ) -> PendingVersion {
        let name = DataFileName(record.key.0);
        let files = DataFileNo::ALL.map(|file| self.files.find_file(&name.of(file)).ok().flatten());
        let bytes = if version.is_inline {
            let ranges = in_files(version.local()).into_iter();
            let ranges = ranges.map(|(_, range)| range).collect();
            version.place_in_first();
            PendingBytes::Inline(ranges, local)
        } else {
            PendingBytes::Files(files)
        };
        let occupied = match &bytes {
            PendingBytes::Inline(_, bytes) => bytes.len() as u64,
            PendingBytes::Files(files) => files.iter().flatten().map(occupied).sum(),
        };
        let description = self.describe(&version);
        let id = pending_id(name.0);
        PendingVersion {
            version: KeptVersion {
                id,
                description,
                bytes: occupied,
            },
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

fn open_disk(folder: &Folder) -> Result<Arc<dyn Disk>, String> {
    let disk = LocalDisk::open(folder.path()).map_err(|error| error.to_string())?;
    Ok(Arc::new(disk))
}
