//! The two files of an entry, opened, and what the index file says.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::identity::CachedVersion;
use crate::cache::index::{Extents, Header, RECORD_LEN, Record};
use crate::cache::storage::{EntryName, FileKind, Storage, StoredFile};
use crate::clock::Clock;

/// Both files of an entry.
#[derive(Clone, Debug)]
pub(super) struct EntryFiles {
    pub(super) data: Arc<dyn StoredFile>,
    pub(super) index: Arc<dyn StoredFile>,
    /// The checksum of the index file's header.
    pub(super) salt: u32,
}

/// The contents of an index file.
#[derive(Debug)]
pub(super) struct LoadedEntry {
    pub(super) version: CachedVersion,
    pub(super) files: EntryFiles,
    pub(super) extents: Extents,
    /// The last note that all bytes were compared.
    pub(super) verified: Option<u64>,
}

/// The result of opening an entry.
#[derive(Debug)]
pub(super) enum Loading {
    Loaded(LoadedEntry),
    /// There is none, or another process is just making it.
    Absent,
    /// The entry cannot be used, for this reason.
    Damaged(&'static str),
}

/// Opens the files of an entry and reads its index.
pub(super) fn load(
    storage: &dyn Storage,
    name: EntryName,
    version: &CachedVersion,
    clock: &Clock,
) -> io::Result<Loading> {
    load_if(storage, name, &|found| found.is(version), clock)
}

/// Opens the files of whatever version has the name, and reads its index.
pub(super) fn load_any(
    storage: &dyn Storage,
    name: EntryName,
    clock: &Clock,
) -> io::Result<Loading> {
    load_if(storage, name, &|found| found.name() == name, clock)
}

fn load_if(
    storage: &dyn Storage,
    name: EntryName,
    is_meant: &dyn Fn(&CachedVersion) -> bool,
    clock: &Clock,
) -> io::Result<Loading> {
    let Some(index) = storage.open(name, FileKind::Index)? else {
        return Ok(Loading::Absent);
    };
    let bytes = read_whole(&*index)?;
    if bytes.is_empty() && is_young(&*index, clock)? {
        return Ok(Loading::Absent);
    }
    let Some(header) = Header::decode(&bytes) else {
        return Ok(Loading::Damaged("its index is not readable"));
    };
    if !is_meant(&header.version) {
        return Ok(Loading::Damaged("it is of another object"));
    }
    let Some(data) = storage.open(name, FileKind::Data)? else {
        return Ok(Loading::Damaged("its data file is missing"));
    };
    let (records, torn) = bytes[header.len..].as_chunks::<RECORD_LEN>();
    // Another process may be appending just now.
    if !torn.is_empty() && !is_young(&*index, clock)? {
        return Ok(Loading::Damaged("its index is cut"));
    }
    let mut extents = Extents::new(header.version.size);
    let mut verified = None;
    for record in records {
        match Record::decode(record, header.salt) {
            Some(Record::Stored(extent)) if extents.add(extent) => (),
            Some(Record::Verified(mark)) => verified = Some(mark),
            Some(Record::Stored(_)) | None => {
                return Ok(Loading::Damaged("a record of its index is wrong"));
            }
        }
    }
    Ok(Loading::Loaded(LoadedEntry {
        version: header.version,
        files: EntryFiles {
            data,
            index,
            salt: header.salt,
        },
        extents,
        verified,
    }))
}

/// Makes the files of an entry; `None` if another process has made or is making them.
pub(super) fn create(
    storage: &dyn Storage,
    name: EntryName,
    version: &CachedVersion,
) -> io::Result<Option<EntryFiles>> {
    let data = match storage.open(name, FileKind::Data)? {
        Some(data) => data,
        None => match storage.create(name, FileKind::Data)? {
            Some(data) => data,
            None => return Ok(None),
        },
    };
    let Some(index) = storage.create(name, FileKind::Index)? else {
        return Ok(None);
    };
    let header = Header::encode(version);
    let salt = Header::decode(&header).expect("just encoded").salt;
    index.append(&header)?;
    Ok(Some(EntryFiles { data, index, salt }))
}

/// Whether the file was changed just now: its maker may still be at work.
fn is_young(file: &dyn StoredFile, clock: &Clock) -> io::Result<bool> {
    let age = clock.wall().duration_since(file.status()?.modified_at);
    Ok(age.is_ok_and(|age| age < MAKING_MAX))
}

fn read_whole(file: &dyn StoredFile) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.status()?.len).unwrap_or(usize::MAX);
    if len > INDEX_LEN_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "an index file is larger than any index",
        ));
    }
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Time that a process may take between making an index file and writing its header.
const MAKING_MAX: Duration = Duration::from_secs(10);

/// Largest index file that is read: an object of 50 TB, S3's largest, needs 20 GiB at worst, which
/// no mount could hold; 1 GiB is the index of 2.7 TiB.
const INDEX_LEN_MAX: usize = 1 << 30;
