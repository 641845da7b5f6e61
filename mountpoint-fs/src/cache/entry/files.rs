//! The two files of an entry, opened, and what the index file says.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::state::{Contents, EntryFiles};
use crate::cache::identity::CachedVersion;
use crate::cache::index::{
    EXTENT_MEMORY_MAX, HEADER_LEN_MAX, Header, RECORD_LEN, Record, records_max,
};
use crate::cache::index_memory::IndexMemory;
use crate::cache::storage::{EntryName, FileKind, Storage};
use crate::clock::Clock;
use crate::local_disk::DiskFile;

/// An entry whose index was read.
#[derive(Debug)]
pub(super) struct LoadedEntry {
    pub(super) version: CachedVersion,
    pub(super) files: EntryFiles,
    /// As the index has them.
    pub(super) contents: Contents,
}

/// The state of the files under an entry's name.
#[derive(Debug)]
pub(crate) enum EntryCheck<T> {
    Right(T),
    /// There are none, or a process is just making them.
    Absent,
    /// The entry cannot be used, for this reason.
    Damaged(&'static str),
}

impl<T> EntryCheck<T> {
    /// The state, with what `map` makes of a right entry.
    pub(in crate::cache) fn map<U>(self, map: impl FnOnce(T) -> U) -> EntryCheck<U> {
        match self {
            Self::Right(found) => EntryCheck::Right(map(found)),
            Self::Absent => EntryCheck::Absent,
            Self::Damaged(what) => EntryCheck::Damaged(what),
        }
    }
}

/// Opens the files of an entry and reads its index.
pub(super) fn load(
    storage: &Storage,
    name: EntryName,
    version: &CachedVersion,
    clock: &Clock,
    memory: &Arc<IndexMemory>,
) -> io::Result<EntryCheck<LoadedEntry>> {
    load_if(storage, name, &|found| found.is(version), clock, memory)
}

/// Opens the files of whatever version has the name, and reads its index.
pub(super) fn load_any(
    storage: &Storage,
    name: EntryName,
    clock: &Clock,
) -> io::Result<EntryCheck<LoadedEntry>> {
    let memory = Arc::default();
    load_if(storage, name, &|found| found.name() == name, clock, &memory)
}

fn load_if(
    storage: &Storage,
    name: EntryName,
    is_meant: &dyn Fn(&CachedVersion) -> bool,
    clock: &Clock,
    memory: &Arc<IndexMemory>,
) -> io::Result<EntryCheck<LoadedEntry>> {
    let Some(index) = storage.open(name, FileKind::Index)? else {
        return Ok(EntryCheck::Absent);
    };
    let len = index.status()?.len;
    let front = read_at_most(&*index, 0, HEADER_LEN_MAX)?;
    if front.is_empty() && is_young(&*index, clock)? {
        return Ok(EntryCheck::Absent);
    }
    let Some(header) = Header::decode(&front) else {
        return Ok(EntryCheck::Damaged("its index is not readable"));
    };
    if !is_meant(&header.version) {
        return Ok(EntryCheck::Damaged("it is of another object"));
    }
    let Some(data) = storage.open(name, FileKind::Data)? else {
        return Ok(EntryCheck::Damaged("its data file is missing"));
    };
    if len / RECORD_LEN as u64 > records_max(header.version.size) + HEADER_LEN_MAX as u64 {
        return Ok(EntryCheck::Damaged("its index is too long"));
    }
    let files = EntryFiles {
        data,
        index,
        salt: header.salt,
    };
    let mut loaded = LoadedEntry {
        contents: Contents::nothing(header.version.size, memory),
        version: header.version,
        files,
    };
    match read_records(&mut loaded, header.len, clock, memory)? {
        None => Ok(EntryCheck::Right(loaded)),
        Some(what) => Ok(EntryCheck::Damaged(what)),
    }
}

/// Reads the records of an index file, which begin at `start`, as far as there is memory. Returns
/// what is wrong, if anything is.
fn read_records(
    LoadedEntry {
        files, contents, ..
    }: &mut LoadedEntry,
    start: usize,
    clock: &Clock,
    memory: &Arc<IndexMemory>,
) -> io::Result<Option<&'static str>> {
    contents.files = Some(files.clone());
    loop {
        let at = start as u64 + contents.records * RECORD_LEN as u64;
        let bytes = read_at_most(&*files.index, at, RECORDS_AT_ONCE * RECORD_LEN)?;
        let (whole, torn) = bytes.as_chunks::<RECORD_LEN>();
        let Some(more) = memory.take(whole.len() as u64 * EXTENT_MEMORY_MAX) else {
            contents.is_cut = true;
            return Ok(None);
        };
        for record in whole {
            match Record::decode(record, files.salt) {
                Some(Record::Stored(extent)) if contents.extents.add(extent) => (),
                Some(Record::Verified(mark)) => contents.verified = Some(mark),
                Some(Record::Stored(_)) | None => {
                    return Ok(Some("a record of its index is wrong"));
                }
            }
        }
        let memory = contents.extents.memory();
        drop(contents.memory.resize(more, memory));
        contents.records += whole.len() as u64;
        if whole.len() < RECORDS_AT_ONCE {
            // Another process may be appending just now.
            let is_torn = !torn.is_empty() && !is_young(&*files.index, clock)?;
            return Ok(is_torn.then_some("its index is cut"));
        }
    }
}

/// Makes the files of an entry; `None` if another process has made or is making them. A data file
/// that is longer than the object was left by another entry, and goes.
pub(super) fn create(
    storage: &Storage,
    name: EntryName,
    version: &CachedVersion,
) -> io::Result<Option<EntryFiles>> {
    let header = Header::encode(version);
    let Some(Header { salt, .. }) = Header::decode(&header) else {
        let what = "no entry can name the object: it has no ETag, or its names are too long";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    };
    let mut found = storage.open(name, FileKind::Data)?;
    if let Some(data) = &found
        && data.status()?.len > version.size
        && storage.open(name, FileKind::Index)?.is_none()
    {
        storage.remove(name)?;
        found = None;
    }
    let data = match found {
        Some(data) => data,
        None => match storage.create(name, FileKind::Data)? {
            Some(data) => data,
            None => return Ok(None),
        },
    };
    let Some(index) = storage.create(name, FileKind::Index)? else {
        return Ok(None);
    };
    index.append(&header)?;
    Ok(Some(EntryFiles { data, index, salt }))
}

/// Whether the file was changed just now: its maker may still be at work.
fn is_young(file: &dyn DiskFile, clock: &Clock) -> io::Result<bool> {
    let age = clock.wall().duration_since(file.status()?.modified_at);
    Ok(age.is_ok_and(|age| age < MAKING_MAX))
}

/// The bytes of the file from `at` on, `len_max` at most.
fn read_at_most(file: &dyn DiskFile, at: u64, len_max: usize) -> io::Result<Vec<u8>> {
    let left = usize::try_from(file.status()?.len.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; left.min(len_max)];
    let read = file.read_at(&mut bytes, at)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Time that a process may take between making an index file and writing its header.
const MAKING_MAX: Duration = Duration::from_secs(10);

/// Records that are read together: the file may have many more than their extents take memory.
const RECORDS_AT_ONCE: usize = 1024;
