//! Segments of the journal, of a disk that others can write.

use std::sync::Arc;

use futures::executor::block_on;

use super::format::{
    RECORD_ALIGN, RECORD_HEADER_LEN, RecordHeader, SEGMENT_HEADER_LEN, SegmentHeader, record_len,
};
use super::{Journal, JournalLimits, JournalReader, RecordId, RecordKey, RecoveredRecord};
use crate::clock::Clock;
use crate::local_disk::test_disk::SimulatedDisk;
use crate::local_disk::{Disk as _, checksum};

/// A journal: its first byte tells how many segments the other bytes are, and whether their numbers
/// are the largest. First with the checksums that they should have, then as they are.
pub(crate) fn journal(data: &[u8]) {
    let Some((shape, bytes)) = data.split_first() else {
        return;
    };
    let count = usize::from(shape % 4).max(1);
    let first = match shape & 0x80 {
        0 => 1,
        _ => u64::MAX - (count as u64 - 1),
    };
    let mut segments: Vec<_> = (bytes.chunks(bytes.len().div_ceil(count).max(1)))
        .map(<[u8]>::to_vec)
        .collect();
    open(first, &segments);
    for segment in &mut segments {
        set_right(segment);
    }
    open(first, &segments);
}

/// Gives a segment and its records the lengths and checksums of what they have.
fn set_right(segment: &mut [u8]) {
    let len = segment.len();
    let Some(header) = segment.first_chunk_mut::<SEGMENT_HEADER_LEN>() else {
        return;
    };
    header[12..16].copy_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
    let salt = checksum(&[&header[..40]]);
    header[40..44].copy_from_slice(&salt.to_le_bytes());
    if let Ok((decoded, found)) = SegmentHeader::decode(header) {
        assert_eq!(found, salt);
        assert_eq!(decoded.file_len(), len as u64);
        assert_eq!(
            SegmentHeader::decode(&decoded.encode()),
            Ok((decoded, decoded.salt()))
        );
    }
    let mut at = SEGMENT_HEADER_LEN;
    while let Some((head, payload)) =
        (segment.get_mut(at..)).and_then(|it| it.split_first_chunk_mut::<RECORD_HEADER_LEN>())
    {
        let told = u32::from_le_bytes(*head[4..].first_chunk().unwrap()) as usize;
        let len = told.min(payload.len());
        head[4..8].copy_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
        head[32..36].copy_from_slice(&checksum(&[&payload[..len]]).to_le_bytes());
        let place = (at as u64).to_le_bytes();
        let sum = checksum(&[&head[..36], &salt.to_le_bytes(), &place]);
        head[36..40].copy_from_slice(&sum.to_le_bytes());
        if let Some((header, batch)) = RecordHeader::decode(head, salt, at as u64) {
            assert_eq!(header.encode(salt, at as u64, batch), *head);
            assert_eq!(header.record_len() % RECORD_ALIGN, 0);
        }
        at += record_len(len);
    }
}

/// Reads the journal, and opens it: what it has is there, with a record more.
fn open(first: u64, segments: &[Vec<u8>]) {
    let disk = SimulatedDisk::new(1);
    for (number, segment) in (first..=u64::MAX).zip(segments) {
        let file = disk.create(&super::log::segment_name(number)).unwrap();
        file.write_at(segment, 0).unwrap();
    }
    let Ok(reader) = JournalReader::open(&disk) else {
        return;
    };
    let mut expected = Vec::new();
    for record in reader.records() {
        let payload = reader.read(record.id).unwrap().unwrap();
        assert_eq!(payload.len(), record.len as usize);
        expected.push(record.id);
    }
    expected.sort_by_key(|it| (it.version, it.key));
    let Ok((journal, found)) = Journal::open(Arc::new(disk.clone()), LIMITS, Clock::manual())
    else {
        assert!(!reader.damage().is_empty());
        return;
    };
    assert!(reader.damage().is_empty());
    assert_eq!(sorted(&found), expected);
    let key = RecordKey(NEW_KEY);
    let Ok(id) = block_on(journal.append(key, &[b"payload"])).and_then(block_on_commit) else {
        return;
    };
    drop(journal);
    expected.retain(|it| it.key != key);
    expected.push(id);
    let (_journal, found) = Journal::open(Arc::new(disk), LIMITS, Clock::manual()).unwrap();
    assert_eq!(sorted(&found), expected);
}

fn sorted(found: &[RecoveredRecord]) -> Vec<RecordId> {
    let mut found: Vec<_> = found.iter().map(|it| it.id).collect();
    found.sort_by_key(|it| (it.version, it.key));
    found
}

fn block_on_commit(commit: super::Commit) -> Result<RecordId, super::AppendError> {
    block_on(commit)
}

const NEW_KEY: u64 = 0x00ab_cdef;

const LIMITS: JournalLimits = JournalLimits {
    segment_len: 4096,
    bytes_max: 1 << 20,
};
