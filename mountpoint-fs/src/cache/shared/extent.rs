//! One extent of an open version: whether the bucket has it, and its pieces for the bucket.
//!
//! All fetches of an extent share what one of them has learned, so a miss costs one request however
//! many parts the extent is read in.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::format::{Assembly, ExtentName, ExtentPlace, HeldBytes};
use crate::operation::Slices;
use crate::sync::Mutex;

/// An extent of a version that is open.
#[derive(Debug)]
pub(super) struct SharedExtent {
    pub(super) place: ExtentPlace,
    pub(super) name: ExtentName,
    /// A leaf.
    state: Mutex<ExtentState>,
    /// Told when `presence` changes.
    changed: Notify,
}

#[derive(Debug)]
struct ExtentState {
    presence: Presence,
    assembly: Option<Assembly>,
    is_storing: bool,
}

/// Knowledge of an extent in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Unknown,
    /// A search runs, and has no answer yet.
    Asked,
    /// The bucket has the extent.
    Stored,
    /// The bucket lacks the extent, and is not asked for it again before that time.
    Absent(Duration),
    /// Something else has its name.
    Damaged,
}

/// How a fetch goes on.
#[derive(Debug)]
pub(super) enum Entrance {
    /// The bucket has the bytes.
    Read,
    /// S3 has to be asked.
    Leave,
    /// Another fetch is looking for the extent.
    Wait,
    /// This fetch looks for the extent.
    Search(SearchGuard),
}

/// The right to look for an extent. Dropping it lets another fetch look.
#[derive(Debug)]
pub(super) struct SearchGuard(Option<Arc<SharedExtent>>);

/// Result of one more piece for the bucket.
#[derive(Debug)]
pub(super) enum Offered {
    /// The first piece is held.
    First,
    /// More pieces are missing, or none is wanted.
    Held,
    /// The extent is whole, and to be stored.
    Whole(Assembly, Presence),
}

impl SharedExtent {
    pub(super) fn new(place: ExtentPlace, name: ExtentName) -> Arc<Self> {
        Arc::new(Self {
            place,
            name,
            state: Mutex::new(ExtentState {
                presence: Presence::Unknown,
                assembly: None,
                is_storing: false,
            }),
            changed: Notify::new(),
        })
    }

    /// How a fetch goes on.
    pub(super) fn enter(self: &Arc<Self>, now: Duration) -> Entrance {
        let mut state = self.state.lock();
        match state.presence {
            Presence::Stored => Entrance::Read,
            Presence::Asked => Entrance::Wait,
            Presence::Absent(until) if now < until => Entrance::Leave,
            Presence::Damaged => Entrance::Leave,
            Presence::Unknown | Presence::Absent(_) => {
                state.presence = Presence::Asked;
                Entrance::Search(SearchGuard(Some(Arc::clone(self))))
            }
        }
    }

    /// Waits for the next change.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Something was learned by a read.
    pub(super) fn set(&self, presence: Presence) {
        self.state.lock().presence = presence;
        self.changed.notify_waiters();
    }

    /// Bytes of it have come, and are right. Fetches that wait need not wait for the rest.
    pub(super) fn found(&self) {
        self.searched(Presence::Stored);
    }

    /// A search has learned something. What a store has learned meanwhile is newer.
    fn searched(&self, presence: Presence) {
        {
            let mut state = self.state.lock();
            if state.presence == Presence::Asked {
                state.presence = presence;
            }
        }
        self.changed.notify_waiters();
    }

    /// Adds a fetched piece.
    pub(super) fn offer(&self, range: &Range<u64>, slices: Slices, held: &HeldBytes) -> Offered {
        let mut state = self.state.lock();
        if state.is_storing || state.presence == Presence::Stored {
            return Offered::Held;
        }
        let is_first = state.assembly.is_none();
        let is_small = range.end - range.start < PIECE_MIN && range.start > self.place.range.start;
        if is_first && is_small && *range != self.place.range {
            return Offered::Held;
        }
        let assembly = state.assembly.get_or_insert_with(|| Assembly::new(held));
        assembly.add(range, slices);
        if !assembly.covers(&self.place.range) {
            return match is_first {
                true => Offered::First,
                false => Offered::Held,
            };
        }
        state.is_storing = true;
        let presence = state.presence;
        match state.assembly.take() {
            Some(assembly) => Offered::Whole(assembly, presence),
            None => Offered::Held,
        }
    }

    /// Storing has ended, and this is known now.
    pub(super) fn stored(&self, presence: Option<Presence>) {
        let mut state = self.state.lock();
        state.is_storing = false;
        if let Some(presence) = presence {
            state.presence = presence;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Gives up the pieces.
    pub(super) fn give_up(&self) {
        let assembly = self.state.lock().assembly.take();
        // Blocks are given back without the lock.
        drop(assembly);
    }
}

impl SearchGuard {
    /// The search has ended.
    pub(super) fn end(mut self, presence: Presence) {
        if let Some(extent) = self.0.take() {
            extent.searched(presence);
        }
    }
}

impl Drop for SearchGuard {
    fn drop(&mut self) {
        if let Some(extent) = self.0.take() {
            extent.searched(Presence::Unknown);
        }
    }
}

/// Shortest piece that begins to collect an extent in its middle: random reads of a few KiB would
/// hold blocks of extents that are never whole.
const PIECE_MIN: u64 = 64 << 10;
