//! Files that an earlier process committed and did not upload.
//!
//! Nothing is guessed: a record that is damaged, or whose data files are, stays where it is and is
//! named. One of a newer format refuses the directory.

use std::io;
use std::sync::Arc;

use super::format::{
    DescriptionFile, FORMAT_LEN, Payload, PayloadError, VersionRecord, check_format, in_files, sum,
};
use crate::file::contents::DataFileNo;
use crate::file::directory::{DataFileName, StagingDirectory};
use crate::file::journal::{Journal, RecordId, RecoveredRecord};
use crate::file::local::{DataFiles, FileMemory};
use crate::local_disk::Disk;

/// A record that was found.
#[derive(Debug)]
pub(in crate::file) enum FoundRecord {
    /// A version that the bucket lacks.
    Version(Box<RecoveredVersion>),
    /// The file was removed: the record is to be released.
    Removed,
    /// The version cannot be uploaded. It stays.
    Damaged(DamagedVersion),
}

/// A version whose record cannot be read, or whose bytes are lost.
#[derive(Debug)]
pub(in crate::file) struct DamagedVersion {
    /// The version, if the record says what it is.
    pub(in crate::file) version: Option<Box<VersionRecord>>,
    pub(in crate::file) reason: String,
}

/// A version that the bucket lacks.
#[derive(Debug)]
pub(in crate::file) struct RecoveredVersion {
    pub(in crate::file) id: RecordId,
    pub(in crate::file) version: VersionRecord,
    pub(in crate::file) files: DataFiles,
    /// Number of the description beside the journal.
    pub(in crate::file) description: Option<u64>,
}

/// A record as it says what it is.
#[derive(Debug)]
pub(in crate::file) enum ReadRecord {
    /// A version, with the bytes that the record has, and the number of the description beside.
    Version(Box<VersionRecord>, Vec<u8>, Option<u64>),
    /// The file was removed.
    Removed,
    /// The record cannot be read, for the reason.
    Unreadable(String),
    /// A newer program wrote it.
    Newer(String),
}

/// Reads the `payload` of the record `name`, beside which `disk` may have a description. Blocks.
pub(in crate::file) fn read_record(
    disk: &dyn Disk,
    name: DataFileName,
    payload: io::Result<Option<Vec<u8>>>,
) -> ReadRecord {
    let unreadable =
        |error: &dyn std::fmt::Display| ReadRecord::Unreadable(format!("record {name}: {error}"));
    let payload = match payload {
        Ok(Some(payload)) => payload,
        Ok(None) => return ReadRecord::Removed,
        Err(error) => return unreadable(&error),
    };
    let mut description = None;
    let mut decoded = Payload::decode(&payload);
    if let Ok(Payload::Beside(beside)) = &decoded {
        description = Some(beside.number);
        decoded = match read_beside(disk, name, beside) {
            Ok(text) => Payload::version(&text, &[]),
            Err(error) => return unreadable(&error),
        };
    }
    match decoded {
        Ok(Payload::Version(version, local)) => ReadRecord::Version(version, local, description),
        Ok(Payload::Removed) => ReadRecord::Removed,
        Ok(Payload::Beside(_)) => unreadable(&"its description names another one"),
        Err(error @ PayloadError::Newer(_)) => ReadRecord::Newer(is_newer(name, &error)),
        Err(error @ PayloadError::Damaged(_)) => unreadable(&error),
    }
}

/// Refuses a directory with a record of a newer format, before anything in it changes. Blocks.
///
/// # Errors
/// A text for the user: the directory must not be used.
pub(in crate::file) fn check_formats(
    directory: &StagingDirectory,
    journal: &Journal,
    records: &[RecoveredRecord],
) -> Result<(), String> {
    for record in records {
        // `recover` tells of what cannot be read.
        let Ok(Some(beginning)) = journal.read_beginning(record.id, FORMAT_LEN) else {
            continue;
        };
        if let Err(error @ PayloadError::Newer(_)) = check_format(&beginning) {
            let name = DataFileName(record.id.key.0);
            return Err(newer(directory, &is_newer(name, &error)));
        }
    }
    Ok(())
}

/// Brings back the version of a record. Blocks.
///
/// # Errors
/// A text for the user: the directory must not be used.
pub(in crate::file) fn recover(
    (directory, memory): (&Arc<StagingDirectory>, &Arc<FileMemory>),
    journal: &Journal,
    record: &RecoveredRecord,
) -> Result<FoundRecord, String> {
    let name = DataFileName(record.id.key.0);
    let read = read_record(&**directory.disk(), name, journal.read(record.id));
    let (mut version, local, description) = match read {
        ReadRecord::Version(version, local, description) => (*version, local, description),
        ReadRecord::Removed => return Ok(FoundRecord::Removed),
        ReadRecord::Unreadable(reason) => {
            let version = None;
            return Ok(FoundRecord::Damaged(DamagedVersion { version, reason }));
        }
        ReadRecord::Newer(reason) => return Err(newer(directory, &reason)),
    };
    let files = if version.is_inline {
        let files = bring_back((directory, memory), name, &mut version, &local);
        files.map_err(|error| {
            let place = directory.path().display();
            format!("cannot bring back {} in {place}: {error}", version.key)
        })?
    } else {
        match check_files(&**directory.disk(), name, &version) {
            Ok(is_made) => DataFiles::recovered(directory, name, is_made, version.noted_sums()),
            Err(error) => {
                return Ok(FoundRecord::Damaged(DamagedVersion {
                    reason: error.to_string(),
                    version: Some(Box::new(version)),
                }));
            }
        }
    };
    if description.is_some() {
        files.set_described();
    }
    Ok(FoundRecord::Version(Box::new(RecoveredVersion {
        id: record.id,
        version,
        files,
        description,
    })))
}

fn is_newer(name: DataFileName, error: &PayloadError) -> String {
    format!("record {name} of the journal: {error}")
}

fn newer(directory: &StagingDirectory, reason: &str) -> String {
    let place = directory.path().display();
    format!(
        "{place}: {reason}: use the version of mount-s3 that wrote it, or name another directory with --staging"
    )
}

/// The description in a file beside the journal.
fn read_beside(
    disk: &dyn Disk,
    name: DataFileName,
    beside: &DescriptionFile,
) -> io::Result<Vec<u8>> {
    let invalid = |text| io::Error::new(io::ErrorKind::InvalidData, text);
    let file = disk.open(&name.description(beside.number))?;
    if file.size()? != beside.len {
        return Err(invalid("its description has another length"));
    }
    let len = usize::try_from(beside.len).map_err(io::Error::other)?;
    let mut text = vec![0; len];
    if file.read_at(&mut text, 0)? < len || sum(&text) != beside.sum {
        return Err(invalid("its description is damaged"));
    }
    Ok(text)
}

/// Brings back the bytes of a record: to memory, or to a data file if there is none. The record
/// stays: nothing is synced.
fn bring_back(
    (directory, memory): (&Arc<StagingDirectory>, &Arc<FileMemory>),
    name: DataFileName,
    version: &mut VersionRecord,
    local: &[u8],
) -> io::Result<DataFiles> {
    for file in DataFileNo::ALL {
        directory.disk().remove(&name.of(file))?;
    }
    let files = DataFiles::inline(directory, memory, name);
    write_inline(&files, version, local)?;
    files.shrink();
    files.close();
    Ok(files)
}

/// Writes the bytes that a record has to the first data file, and has `version` say so. Blocks.
pub(in crate::file) fn write_inline(
    files: &DataFiles,
    version: &mut VersionRecord,
    local: &[u8],
) -> io::Result<()> {
    let mut rest = local;
    for (_, range) in in_files(version.local()) {
        let len = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let (bytes, behind) = rest
            .split_at_checked(len)
            .ok_or(io::ErrorKind::InvalidData)?;
        files.write(DataFileNo::First, range.start, bytes)?;
        rest = behind;
    }
    version.place_in_first();
    Ok(())
}

/// Checks that the data files of a version are there, each as long as it must be. Returns which of
/// them there are.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] with a text for the user if bytes of the version are lost.
pub(in crate::file) fn check_files(
    disk: &dyn Disk,
    name: DataFileName,
    version: &VersionRecord,
) -> io::Result<[bool; 2]> {
    let needed = in_files(version.local());
    let mut is_made = [false; 2];
    for (place, number) in DataFileNo::ALL.into_iter().enumerate() {
        let ranges = needed.iter().filter(|(file, _)| *file == number);
        let end = ranges.map(|(_, range)| range.end).max();
        let len = match disk.open(&name.of(number)) {
            Ok(file) => Some(file.size()?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        is_made[place] = len.is_some();
        let Some(end) = end.filter(|end| len.unwrap_or_default() < *end) else {
            continue;
        };
        let file = name.of(number);
        let text = match len {
            None => {
                format!("its data file {file} is lost, with bytes that a close had acknowledged")
            }
            Some(len) => format!(
                "its data file {file} has {len} bytes of {end}: those behind are lost, which a close had acknowledged"
            ),
        };
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(is_made)
}
