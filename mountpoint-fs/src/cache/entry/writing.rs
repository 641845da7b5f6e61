//! Bytes of a block for the data file of an entry, with their checksums.

use std::ops::Range;

use super::reading::{Miss, read_joined};
use crate::cache::index::{Extent, Placement};
use crate::local_disk::{DiskFile, checksum};
use crate::operation::Slices;

/// Writes the bytes of `missing`, which are in `range`, whose bytes are `slices`. Returns the
/// extents that the index has to note. Blocks.
pub(super) fn write_missing(
    data: &dyn DiskFile,
    missing: &[Placement],
    range: &Range<u64>,
    slices: &Slices,
) -> Result<Vec<Extent>, Miss> {
    let mut added = Vec::new();
    for placement in missing {
        let pieces = pieces(range, slices, &placement.piece);
        let mut at = placement.piece.start;
        for bytes in &pieces {
            // They are in the page cache of the mount, or are not read again soon; a copy of them
            // would push out others.
            let written = data.write_beside_page_cache(bytes, at);
            written.map_err(Miss::Failed)?;
            at += bytes.len() as u64;
        }
        let Range { start, end } = placement.extent;
        let crc = match &placement.neighbours[..] {
            [] => checksum(&pieces),
            neighbours => checksum(&[&read_joined(data, &placement.extent, neighbours)?]),
        };
        added.push(Extent {
            start,
            len: u32::try_from(end - start).expect("a chunk is small"),
            crc,
        });
    }
    Ok(added)
}

/// The bytes of `part`, which lies in `range`, as they lie in the slices of `range`.
fn pieces<'a>(range: &Range<u64>, slices: &'a Slices, part: &Range<u64>) -> Vec<&'a [u8]> {
    let mut at = range.start;
    let mut pieces = Vec::new();
    for (block, bytes) in slices {
        let slice = at..at + bytes.len() as u64;
        at = slice.end;
        let wanted = slice.start.max(part.start)..slice.end.min(part.end);
        if wanted.start < wanted.end {
            let inside = |offset: u64| {
                bytes.start + usize::try_from(offset - slice.start).expect("inside a block")
            };
            let bytes = block.bytes(inside(wanted.start)..inside(wanted.end));
            pieces.push(bytes);
        }
    }
    pieces
}
