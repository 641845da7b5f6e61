//! Room on the disk of staged files: what a file gives back, and the wait for it.

use std::sync::Arc;
use std::time::Duration;

use super::parts::FileParts;
use crate::staging::contents::DataFileNo;
use crate::staging::context::StagingContext;
use crate::staging::local::RoomHolder;

/// Gives back the disk space of bytes that the bucket has as well, and of those that were cut off
/// or replaced. Returns whether there may be any. The caller shares the gate. Blocks.
pub(super) fn give_back(file: &FileParts) -> bool {
    if file.files.are_in_memory() || file.files.is_recorded() {
        // The record may need the bytes: its release comes first.
        return false;
    }
    let _turn = file.giving_back.write();
    let unused = {
        let sizes = DataFileNo::ALL.map(|place| file.files.size_on_disk(place).unwrap_or_default());
        let mut state = file.state.lock();
        if state.failure.is_some() {
            // A kept version has the data files.
            return false;
        }
        if state.never_stored.is_none() {
            drop(state.contents.drop_stored());
        }
        let places = DataFileNo::ALL.into_iter().zip(sizes);
        let unused: Vec<_> = places
            .map(|(place, size)| (place, state.contents.unused(place, size)))
            .collect();
        // Before the bytes go: a read that has found them local looks again.
        state.given_back += 1;
        unused
    };
    for (place, ranges) in &unused {
        for range in ranges {
            file.files.discard(*place, range);
        }
    }
    unused.iter().any(|(_, ranges)| !ranges.is_empty())
}

impl RoomHolder for FileParts {
    fn give_back(&self) {
        // Not beside a commit, whose record may need the bytes.
        if let Ok(_turn) = self.gate.try_read() {
            give_back(self);
        }
    }
}

/// A bounded wait for room on the disk of staged files.
#[derive(Debug)]
pub(super) struct RoomWait {
    until: Duration,
    has_asked: bool,
}

impl RoomWait {
    pub(super) fn new(context: &StagingContext) -> Self {
        Self {
            until: context.clock.now() + ROOM_WAIT_MAX,
            has_asked: false,
        }
    }

    /// Waits until the other files have given back what they can, and then until an upload may
    /// have made room. `false` if none will, or not in time.
    pub(super) async fn wait(&mut self, context: &Arc<StagingContext>) -> bool {
        if !std::mem::replace(&mut self.has_asked, true) {
            let holders = Arc::clone(context);
            let asked = context.on_disk(move || {
                holders.room_holders.give_back();
                Ok(())
            });
            return asked.await.is_ok();
        }
        let left = self.until.saturating_sub(context.clock.now());
        match context.committing() {
            Some(write_back) if !left.is_zero() => write_back.queue.room(left).await,
            _ => false,
        }
    }
}

/// Longest wait of a write or a commit for room on a full disk. Applications take a disk that does
/// not answer for longer for broken.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(30);
