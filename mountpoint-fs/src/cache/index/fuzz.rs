//! Index files of the cache, of a disk that others can write.

use std::collections::HashSet;
use std::ops::Range;

use super::extents::{CHUNK, EXTENT_MEMORY_MAX, Extent, Extents, by_chunk};
use super::header::Header;
use super::record::{RECORD_LEN, Record};
use crate::local_disk::checksum;

/// An index: as it is, then with right checksums.
pub(crate) fn file(data: &[u8]) {
    check_file(data);
    let mut right = data.to_vec();
    if set_right(&mut right).is_some() {
        check_file(&right);
    }
}

/// Gives an index the checksums that it should have. `None` if it has no header.
pub(in crate::cache) fn set_right(bytes: &mut [u8]) -> Option<()> {
    let body = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?) as usize;
    let (head, rest) = bytes.split_at_mut_checked(16_usize.checked_add(body)?)?;
    let salt = checksum(&[head]);
    *rest.first_chunk_mut()? = salt.to_le_bytes();
    for record in rest[4..].as_chunks_mut::<RECORD_LEN>().0 {
        let sum = checksum(&[&record[..20], &salt.to_le_bytes()]);
        record[20..].copy_from_slice(&sum.to_le_bytes());
    }
    Some(())
}

fn check_file(bytes: &[u8]) {
    let Some(header) = Header::decode(bytes) else {
        return;
    };
    let again = Header::decode(&Header::encode(&header.version)).unwrap();
    assert!(again.version.is(&header.version));
    assert_eq!(again.version.name(), header.version.name());
    let mut extents = Vec::new();
    for record in bytes[header.len..].as_chunks::<RECORD_LEN>().0 {
        let Some(record) = Record::decode(record, header.salt) else {
            continue;
        };
        assert_eq!(
            Record::decode(&record.encode(header.salt), header.salt),
            Some(record)
        );
        if let Record::Stored(extent) = record {
            extents.push(extent);
        }
    }
    check_extents(header.version.size, &extents);
}

/// The extents of an object: four bytes for its size, then five for each.
pub(crate) fn extents(data: &[u8]) {
    let Some((size, data)) = data.split_first_chunk() else {
        return;
    };
    let size = u64::from(u32::from_le_bytes(*size)) % (9 * CHUNK);
    let added = data.as_chunks::<5>().0.iter().enumerate();
    let added: Vec<_> = added
        .map(
            |(number, [chunk, start, start_high, len, len_high])| Extent {
                start: u64::from(*chunk % 10) * CHUNK
                    + u64::from(u16::from_le_bytes([*start, *start_high])),
                // Often the rest of a chunk.
                len: u32::from(u16::from_le_bytes([*len, *len_high])) + u32::from(*chunk >> 7),
                crc: u32::try_from(number).unwrap(),
            },
        )
        .collect();
    check_extents(size, &added);
}

/// Adds extents, and compares what is there with those that were taken.
fn check_extents(size: u64, added: &[Extent]) {
    let mut extents = Extents::new(size);
    let mut taken = Vec::new();
    for extent in added.iter().take(ADDED_MAX) {
        let range = extent.range();
        let is_inside = range.end <= size && by_chunk(&range).count() == 1;
        assert_eq!(extents.add(*extent), is_inside && !range.is_empty());
        if is_inside && !range.is_empty() {
            taken.push(*extent);
            assert!(extents.memory() <= taken.len() as u64 * EXTENT_MEMORY_MAX);
        }
    }
    let known: HashSet<_> = taken.iter().map(|it| (it.start, it.len, it.crc)).collect();
    let union = union(&taken);
    let (mut at, mut bytes) = (0, 0);
    let mut found = Vec::new();
    for (range, is_there) in extents.divide(&(0..size)) {
        assert!(range.start == at && range.end > at);
        at = range.end;
        assert_eq!(extents.covers(&range), is_there);
        if !is_there {
            assert_eq!(extents.of(&range), None);
            continue;
        }
        bytes += range.end - range.start;
        for extent in extents.of(&range).unwrap() {
            assert!(known.contains(&(extent.start, extent.len, extent.crc)));
        }
        found.push(range);
    }
    assert_eq!(at, size);
    assert_eq!(extents.bytes(), bytes);
    assert_eq!(extents.is_whole(), bytes == size);
    // A chunk forgets the shortest of many extents.
    if taken.len() <= 16 {
        assert_eq!(found, union);
    }
    for range in found {
        assert!(
            union
                .iter()
                .any(|it| it.start <= range.start && range.end <= it.end)
        );
    }
    for gap in extents.to_store(&(0..size)) {
        assert!(gap.start < gap.end && gap.end <= size);
    }
}

/// The bytes of all of them, in order.
fn union(taken: &[Extent]) -> Vec<Range<u64>> {
    let mut ranges: Vec<_> = taken.iter().map(Extent::range).collect();
    ranges.sort_by_key(|range| range.start);
    let mut union: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match union.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => union.push(range),
        }
    }
    union
}

/// As many as a call takes a millisecond for.
const ADDED_MAX: usize = 150;
