//! Entries of the cache, of a disk that others can write.

use super::files::EntryCheck;
use super::inspect::inspect;
use crate::cache::index::fuzz::set_right;
use crate::cache::index::{Header, RECORD_LEN};
use crate::cache::storage::{FileKind, Storage};
use crate::clock::Clock;
use crate::local_disk::checksum;
use crate::local_disk::test_disk::SimulatedDisk;

/// An index, with right checksums: the bytes of its first ranges are those that it says, if a data
/// file can have them.
pub(crate) fn entry(data: &[u8]) {
    let mut index = data.to_vec();
    if set_right(&mut index).is_none() {
        return;
    }
    let Some(header) = Header::decode(&index) else {
        return;
    };
    let disk = SimulatedDisk::new(1);
    let storage = Storage::simulated(&disk);
    let name = header.version.name();
    let file = storage.create(name, FileKind::Data).unwrap().unwrap();
    let len = header.version.size.min(LEN_MAX);
    file.write_at(&vec![7; usize::try_from(len).unwrap()], 0)
        .unwrap();
    for record in index[header.len..].as_chunks_mut::<RECORD_LEN>().0 {
        let len = u32::from_le_bytes(*record[8..].first_chunk().unwrap());
        if u64::from(len) <= LEN_MAX {
            let sum = checksum(&[&vec![7; len as usize]]);
            record[12..16].copy_from_slice(&sum.to_le_bytes());
        }
    }
    set_right(&mut index);
    let file = storage.create(name, FileKind::Index).unwrap().unwrap();
    file.append(&index).unwrap();
    let EntryCheck::Right(inspected) = inspect(&storage, name, &Clock::manual()).unwrap() else {
        return;
    };
    assert!(inspected.version().is(&header.version));
    assert!(inspected.bytes() <= header.version.size);
    let mut compared = 0;
    let outcome = inspected.compare(&mut |bytes| compared += bytes).unwrap();
    // Neighbours may overlap.
    assert!(outcome.is_some() || compared >= inspected.bytes());
}

/// Bytes of the data file, and of a range that has its bytes.
const LEN_MAX: u64 = 4096;
