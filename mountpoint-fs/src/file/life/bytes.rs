//! The bytes of a staged file: where they are, reads, and writes to data files.

use std::io;
use std::ops::Range;

use mountpoint_client::types::Key;

use super::releasing::give_back;
use super::state::{FileParts, FileState};
use crate::file::contents::{DataFileNo, Piece, Source};
use crate::file::sources::read;
use crate::memory::BufferRequest;
use crate::operation::{FsError, ReadData};
use crate::write::{Grant, Stored};

/// Where the bytes of `range` are: the object, and what of them is not in it.
pub(super) fn places_of(file: &FileParts, range: &Range<u64>) -> (Key, Option<Stored>, Vec<Piece>) {
    let state = file.state.lock();
    let base = state.base.as_ref().map(|base| base.version.clone());
    let pieces = state.contents.pieces(range.clone());
    (state.key.clone(), base, pieces)
}

/// Reads bytes of the file, with its base as it is known.
pub(super) async fn read_base(
    file: &FileParts,
    offset: u64,
    size: u32,
    fills_cache: bool,
) -> Result<ReadData, FsError> {
    let range = offset..offset.saturating_add(u64::from(size));
    for _ in 0..READS_MAX {
        let (pieces, sources, given_back) = {
            let state = file.state.lock();
            state.check()?;
            let pieces = state.contents.pieces(range.clone());
            (pieces, state.sources(file.places()), state.given_back)
        };
        let is_local = |piece: &Piece| matches!(piece.source, Source::Local(_));
        let has_local = pieces.iter().any(is_local);
        let data = read(&file.context, &sources, pieces, fills_cache).await;
        if !has_local || file.state.lock().given_back == given_back {
            return data;
        }
    }
    Err(FsError::Busy(format!(
        "{}: the disk of --staging is full, and bytes were given back during each read",
        file.key()
    )))
}

/// Whether the object that has replaced the base may be an upload of this file, whose end was
/// never noted: of a process that was killed, or behind an answer that was lost.
pub(super) fn may_be_replaced_by_itself(file: &FileParts) -> bool {
    let state = file.state.lock();
    state.may_be_stored() && state.needs_store().unwrap_or(false)
}

/// What became of a write to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// All bytes are written.
    Whole,
    /// The disk has to take the bytes, all of them again.
    NotInMemory,
    /// There is not enough memory: this much is needed. All bytes are to be written again.
    Needs(BufferRequest),
}

/// Writes to the `places` of data files in memory: in that of `grant`, if there is one, and in what
/// is free.
pub(super) fn write_in_memory(
    file: &FileParts,
    (places, data): (&Places, &[u8]),
    grant: &mut Option<Grant>,
) -> Result<Taken, FsError> {
    let files = &file.files;
    if !files.are_in_memory() {
        return Ok(Taken::NotInMemory);
    }
    let mut rest = data;
    let _stays = file.giving_back.read();
    for (range, place) in places.iter().cloned() {
        let (piece, behind) = split(rest, &range);
        rest = behind;
        if files.have_no_disk() {
            if let Err(needed) = files.write_chunks(place, range.start, piece, grant) {
                return Ok(Taken::Needs(needed));
            }
        } else if !files.write_memory(place, range.start, piece) {
            return Ok(Taken::NotInMemory);
        }
        wrote(file, range, place);
    }
    if files.have_no_disk() {
        file.written_last(data.len());
    }
    Ok(Taken::Whole)
}

/// The data files for the bytes of a write, in order and whole.
pub(super) type Places = Vec<(Range<u64>, DataFileNo)>;

/// The data files for the bytes of a write to `range`, as long as the caller has the gate.
pub(super) fn places_to_write(file: &FileParts, range: &Range<u64>) -> Result<Places, FsError> {
    let mut state = file.state.lock();
    state.check()?;
    state.check_change(range)?;
    if state.contents.range_count() >= RANGES_MAX && state.recorded.is_none() {
        // Their bytes stay in the data files.
        state.drop_stored();
    }
    if state.contents.range_count() >= RANGES_MAX {
        return Err(FsError::NoSpace(format!(
            "{} has {RANGES_MAX} changed ranges: an fsync stores them and makes room for others",
            state.key
        )));
    }
    state.leave_commit(&file.files, file.progress.mtime());
    let places = state.contents.places(range);
    state.write_over(&places);
    Ok(places)
}

/// Whether a record has sums of bytes in the `places`, or behind one in its data file.
pub(super) fn are_sealed(file: &FileParts, places: &Places) -> bool {
    let is_sealed =
        |(range, place): &(Range<u64>, DataFileNo)| file.files.is_sealed(*place, range.start);
    places.iter().any(is_sealed)
}

/// Writes to the `places` of the data files. Returns the error of a full disk, which may have room
/// later. Blocks.
pub(super) fn write_local(
    file: &FileParts,
    places: Places,
    data: &[u8],
) -> Result<Option<io::Error>, FsError> {
    let mut rest = data;
    for (range, place) in places {
        let (piece, behind) = split(rest, &range);
        rest = behind;
        let written = write_piece(file, &range, place, piece);
        let written = written.or_else(|error| match error.kind() {
            io::ErrorKind::StorageFull if give_back(file) => {
                write_piece(file, &range, place, piece)
            }
            _ => Err(error),
        });
        match written {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(Some(error)),
            written => {
                written.map_err(|error| file.files.error(&error))?;
            }
        }
    }
    Ok(None)
}

/// Writes to one data file, and notes it.
fn write_piece(
    file: &FileParts,
    range: &Range<u64>,
    place: DataFileNo,
    data: &[u8],
) -> io::Result<()> {
    let _stays = file.giving_back.read();
    file.files.write(place, range.start, data)?;
    wrote(file, range.clone(), place);
    Ok(())
}

/// Notes what was written to a data file.
fn wrote(file: &FileParts, range: Range<u64>, place: DataFileNo) {
    let mut state = file.state.lock();
    let is_correction = state.contents.was_written(&range);
    state.ahead.changed(&range, is_correction);
    state.contents.wrote(range, place);
    changed(file, &mut state);
}

/// Publishes a change of the contents.
pub(super) fn changed(file: &FileParts, state: &mut FileState) {
    state.changes();
    let now = file.context.wall_now();
    file.progress.advance(state.contents.size(), now);
}

/// The bytes for `range`, and those behind.
fn split<'a>(bytes: &'a [u8], range: &Range<u64>) -> (&'a [u8], &'a [u8]) {
    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    bytes.split_at(len.min(bytes.len()))
}

/// How often a read is tried whose local bytes were given back, or whose object was replaced,
/// meanwhile.
pub(super) const READS_MAX: usize = 8;

/// Most changed ranges of one file: 50 MB of memory.
const RANGES_MAX: usize = 1 << 20;
