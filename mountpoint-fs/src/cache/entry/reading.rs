//! Bytes of an entry from its data file, each extent compared with its checksum.
//!
//! Does not know the index, and removes no damaged entry. Blocks, but for [`read_cached`].

use std::io;
use std::ops::Range;

use mountpoint_crt_sys::block::BlockFill;

use crate::cache::index::Extent;
use crate::local_disk::{DiskFile, checksum};

/// Why bytes did not come from the disk.
#[derive(Debug)]
pub(super) enum Miss {
    /// Bytes are missing.
    Absent,
    /// The entry is damaged.
    Damaged(&'static str),
    /// The disk failed.
    Failed(io::Error),
}

/// Fills `fill`, which is for bytes up to `end` and lacks those from `at` on, from `extents`, which
/// have them. Calls `progressed` when more bytes are valid.
pub(super) fn read_extents(
    data: &dyn DiskFile,
    extents: &[Extent],
    (mut at, end): (u64, u64),
    fill: &mut BlockFill,
    progressed: &dyn Fn(),
) -> Result<(), Miss> {
    let mut rest = extents;
    while let Some(first) = rest.first() {
        let run = direct_run(rest, at, end);
        if run == 0 {
            // Only some bytes of it are wanted, but its checksum is of all.
            let mut bytes = vec![0; first.len as usize];
            read_exactly(data, &mut bytes, first.start)?;
            compare(&bytes, first)?;
            let read_to = first.range().end.min(end);
            fill.append(&bytes[offset_in(first, at)..offset_in(first, read_to)]);
            at = read_to;
            rest = &rest[1..];
        } else {
            let read_to = rest[run - 1].range().end;
            read_run(data, &rest[..run], fill)?;
            at = read_to;
            rest = &rest[run..];
        }
        progressed();
    }
    Ok(())
}

/// The bytes of `range`, after those of `extents`, which lie in it, were compared.
pub(super) fn read_joined(
    data: &dyn DiskFile,
    range: &Range<u64>,
    extents: &[Extent],
) -> Result<Vec<u8>, Miss> {
    let len = usize::try_from(range.end - range.start).expect("a chunk is small");
    let mut bytes = vec![0; len];
    read_exactly(data, &mut bytes, range.start)?;
    for extent in extents {
        let at = usize::try_from(extent.start - range.start).expect("inside a chunk");
        compare(&bytes[at..at + extent.len as usize], extent)?;
    }
    Ok(bytes)
}

/// Fills `fill`, which is for `range`, from `extents`, which have its bytes, if the page cache has
/// them. Returns whether it is full. Does not block.
pub(super) fn read_cached(
    data: &dyn DiskFile,
    extents: &[Extent],
    range: &Range<u64>,
    fill: &mut BlockFill,
) -> bool {
    let mut bytes = Vec::new();
    for extent in extents {
        bytes.resize(extent.len as usize, 0);
        // A thread that may remove the entry finds the damage again.
        let is_read = data.read_at_once(&mut bytes, extent.start);
        if !is_read || compare(&bytes, extent).is_err() {
            return false;
        }
        let at = range.start + fill.filled() as u64;
        let end = extent.range().end.min(range.end);
        fill.append(&bytes[offset_in(extent, at)..offset_in(extent, end)]);
    }
    true
}

/// Compares the length of a data file with `size`.
pub(super) fn compare_length(data: &dyn DiskFile, size: u64) -> Result<(), Miss> {
    match data.status().map_err(Miss::Failed)?.len {
        len if len == size => Ok(()),
        _ => Err(Miss::Damaged("its data file has the wrong length")),
    }
}

/// Compares the bytes of `extents`.
pub(super) fn compare_bytes(data: &dyn DiskFile, extents: &[Extent]) -> Result<(), Miss> {
    let mut bytes = Vec::new();
    for extent in extents {
        bytes.resize(extent.len as usize, 0);
        read_exactly(data, &mut bytes, extent.start)?;
        compare(&bytes, extent)?;
    }
    Ok(())
}

/// How many of `extents` can be read straight into a block that lacks the bytes `at..end`.
fn direct_run(extents: &[Extent], at: u64, end: u64) -> usize {
    let mut at = at;
    let mut bytes = 0;
    let fits = extents.iter().take_while(|extent| {
        let range = extent.range();
        let fits = range.start == at && range.end <= end && bytes < READ_RUN;
        at = range.end;
        bytes += u64::from(extent.len);
        fits
    });
    fits.count()
}

/// Reads neighbouring extents into `fill`, and shows readers the bytes when all are compared.
fn read_run(data: &dyn DiskFile, extents: &[Extent], fill: &mut BlockFill) -> Result<(), Miss> {
    let start = fill.filled();
    let len = extents
        .iter()
        .map(|extent| extent.len as usize)
        .sum::<usize>();
    let offset = extents[0].start;
    fill.withhold();
    let outcome = (|| {
        if data.read_into(fill, offset, len).map_err(Miss::Failed)? < len {
            return Err(Miss::Damaged("its data file is too short"));
        }
        let mut at = start;
        for extent in extents {
            let end = at + extent.len as usize;
            compare(&fill.bytes()[at..end], extent)?;
            at = end;
        }
        Ok(())
    })();
    if outcome.is_err() {
        fill.discard();
    }
    fill.release();
    outcome
}

fn read_exactly(data: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> Result<(), Miss> {
    if data.read_at(bytes, offset).map_err(Miss::Failed)? < bytes.len() {
        return Err(Miss::Damaged("its data file is too short"));
    }
    Ok(())
}

fn compare(bytes: &[u8], extent: &Extent) -> Result<(), Miss> {
    if checksum(&[bytes]) == extent.crc {
        Ok(())
    } else {
        Err(Miss::Damaged("its bytes do not have their checksum"))
    }
}

fn offset_in(extent: &Extent, at: u64) -> usize {
    usize::try_from(at - extent.start).expect("an extent fits into memory")
}

/// Most bytes that are read before they are compared and shown: a reader at the front of a part
/// waits for these, not for the whole part.
const READ_RUN: u64 = 1 << 20;
