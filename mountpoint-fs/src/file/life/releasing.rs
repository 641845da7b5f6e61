//! What a file gives back: its record, when the bucket has the version or that is kept or gone, and
//! room on the disk.

use std::ops::Range;
use std::sync::Arc;

use super::state::{Awake, Base, FileParts, abort_unfinished};
use crate::file::contents::{DataFileNo, Piece, Source};
use crate::file::journal::{Commit, RecordId};
use crate::file::local::RoomHolder;
use crate::write::{Stored, background};

/// Releases the record of the file if nothing needs it: the bucket has all its changes, or the
/// file `is_over`.
pub(super) fn release(file: &Awake, is_over: bool) {
    let Some(write_back) = &file.context.write_back else {
        return;
    };
    let recorded = {
        let state = file.state.lock();
        let is_stored = |edits| is_over || edits <= state.stored_edits;
        state.recorded.filter(|recorded| is_stored(recorded.edits))
    };
    if let Some(recorded) = recorded {
        let (id, number) = (recorded.record.id, recorded.record.number);
        forget(file, (id, number), write_back.journal.release(id));
    }
}

/// Aborts what a store has begun and no other one continues.
pub(super) fn end_upload(file: &FileParts) {
    let early = file.state.lock().ahead.end();
    abort_unfinished(
        &file.context,
        &file.checkpoint,
        early.map(|(early, _)| early),
    );
}

/// Keeps the bytes of a small file for the read that may follow, if the bucket has all of them.
pub(super) fn keep_stored(file: &FileParts) {
    let stored_files = &file.context.stored_files;
    let (key, stored, pieces) = {
        let state = file.state.lock();
        let size = state.contents.size();
        let is_there = !state.contents.is_changed() && !state.end.is_over();
        let is_stored = |base: &&Base| is_there && base.is_sent && base.version.size == size;
        let base = state.base.as_ref().filter(is_stored);
        let stored = base.map(|base| base.version.clone());
        // A large file has many pieces.
        let pieces = match stored_files.may_keep(size) {
            true => state.contents.pieces(0..size),
            false => Vec::new(),
        };
        (state.key.clone(), stored, pieces)
    };
    // Bytes that were kept of the key are those of an older version.
    stored_files.forget(&key);
    let Some(Stored { etag, size }) = stored else {
        return;
    };
    let is_local = |piece: &Piece| matches!(piece.source, Source::Local(_));
    if pieces.is_empty() || !pieces.iter().all(is_local) || !file.files.are_in_memory() {
        return;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    for piece in pieces {
        let is_read = match piece.source {
            Source::Local(place) => file
                .files
                .read_bytes(place, &piece.range, &mut bytes)
                .is_ok(),
            Source::Zeros | Source::Base | Source::Sent | Source::Copied(_) => false,
        };
        if !is_read {
            return;
        }
    }
    stored_files.keep((key, etag), bytes);
}

/// Gives up the data files when the release of a record is durable: of the last one up to `number`
/// of the file.
pub(super) fn forget(file: &Awake, (id, number): (RecordId, u64), released: Commit) {
    let Some(write_back) = &file.context.write_back else {
        return;
    };
    write_back.queue.begin_release();
    let file = file.clone();
    background::run(async move {
        let is_released = released.await.is_ok();
        // The journal's thread belongs to the next batch.
        file.context.on_disk(|| Ok(())).await.ok();
        if is_released {
            let mut state = file.state.lock();
            let newer = state
                .recorded
                .filter(|it| it.record.id.version > id.version);
            if newer.is_none() {
                state.record_ended();
                file.files.records_ended(number);
            }
            drop(state);
            file.tell(|observer, file| observer.released(file));
        }
        let context = Arc::clone(&file.context);
        // Its data files go with its last owner.
        drop(file);
        if let Some(write_back) = &context.write_back {
            write_back.queue.end_release();
        }
    });
}

/// Gives back the disk space of bytes that the bucket has as well, and of those that were cut off
/// or replaced. Returns whether there may be any. The caller shares the gate. Blocks.
pub(super) fn give_back(file: &FileParts) -> bool {
    let is_small = file.files.are_in_memory() && !file.files.have_no_disk();
    if is_small || file.files.is_recorded() {
        // The record may need the bytes: its release comes first.
        return false;
    }
    let turn = file.giving_back.write();
    let unused = {
        let sizes = DataFileNo::ALL.map(|place| file.files.size_on_disk(place).unwrap_or_default());
        let mut state = file.state.lock();
        if state.end.failure().is_some() && !file.files.have_no_disk() {
            // A kept version has the data files.
            return false;
        }
        let now = (state.edits, state.stored_edits);
        if state.contents.sending().is_some() || state.gave_back_at == Some(now) {
            return false;
        }
        state.gave_back_at = Some(now);
        state.drop_stored();
        let is_over = state.end.failure().is_some();
        let places = DataFileNo::ALL.into_iter().zip(sizes);
        let unused: Vec<_> = places
            .map(|(place, size)| match is_over {
                // A failed file is read by nobody.
                true => (place, std::iter::once(0..size).collect()),
                false => (place, state.contents.unused(place, size)),
            })
            .collect();
        // Before the bytes go: a read that has found them local looks again.
        state.given_back += 1;
        unused
    };
    let discard = |(place, ranges): &(DataFileNo, Vec<Range<u64>>)| {
        let discarded = ranges.iter().map(|range| file.files.discard(*place, range));
        discarded.collect::<Vec<_>>()
    };
    let discarded: Vec<_> = unused.iter().map(discard).collect();
    drop(turn);
    drop(discarded);
    unused.iter().any(|(_, ranges)| !ranges.is_empty())
}

/// Gives back the memory of bytes that were cut off.
pub(super) fn give_back_cut(file: &FileParts) {
    if file.files.have_no_disk() {
        give_back(file);
    }
}

impl RoomHolder for FileParts {
    fn give_back(self: Arc<Self>) {
        // Not beside a commit, whose record may need the bytes.
        if let Ok(_turn) = self.gate.try_read() {
            give_back(&self);
        }
    }
}
