//! The blocks of one version of an object, and the readers of that version.
//!
//! Sends nothing and takes no lock: the lock of `OpenObject` guards it. Knows which bytes are here
//! or in flight, and drops blocks that no reader will come to.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::readers::{Readers, RetentionPolicy};
use crate::config::limits::SLICES_MAX;
use crate::operation::{ReadData, Slices};
use crate::read::fetch::Fetch;
use crate::read::plan::{Access, Bounds, READ_RANGE_MIN, ReadPlan};
use crate::read::plan::{BlockMap, without};

/// Blocks of an object, by their ranges.
pub(super) type Blocks = BlockMap<Arc<Fetch>>;

/// Blocks, and the readers that come to them.
#[derive(Debug, Default)]
pub(in crate::read) struct ObjectState {
    pub(in crate::read) blocks: Blocks,
    pub(in crate::read) readers: Readers,
}

/// Some bytes of a fetch's block, wanted by a read.
pub(in crate::read) struct Piece {
    pub(in crate::read) fetch: Arc<Fetch>,
    pub(in crate::read) bytes: Range<usize>,
}

impl ObjectState {
    /// Drops blocks that will never hold what a read of `range` needs. If a reply would be made of
    /// too many blocks, all of those go: they are fetched again as one.
    pub(in crate::read) fn forget_failed(
        &mut self,
        range: &Range<u64>,
        removed: &mut Vec<Arc<Fetch>>,
    ) {
        let is_failed = |fetch: &Fetch| fetch.has_failed_before(share_of(fetch, range).end);
        let mut count = 0;
        let mut any_failed = false;
        for (_, fetch) in self.blocks.overlapping(range.clone()) {
            count += 1;
            any_failed |= is_failed(fetch);
        }
        if any_failed || count > SLICES_MAX {
            let overlaps = |held: &Range<u64>| held.start < range.end && range.start < held.end;
            let is_unwanted = |held: &Range<u64>, fetch: &Arc<Fetch>| {
                overlaps(held) && (count > SLICES_MAX || is_failed(fetch))
            };
            self.blocks.remove_if(is_unwanted, removed);
        }
    }

    /// Whether every byte of `range` is here.
    pub(in crate::read) fn is_ready(&self, range: &Range<u64>) -> bool {
        let mut end = range.start;
        for (held, fetch) in self.blocks.overlapping(range.clone()) {
            if held.start > end || !fetch.has(share_of(fetch, range).end) {
                return false;
            }
            end = held.end;
        }
        end >= range.end
    }

    /// `range`, which is all here.
    pub(in crate::read) fn data(&self, range: &Range<u64>) -> ReadData {
        let mut slices = Slices::new();
        for (_, fetch) in self.blocks.overlapping(range.clone()) {
            fetch.add_slices(share_of(fetch, range), &mut slices);
        }
        ReadData { slices }
    }

    /// The blocks that `range` is in or will be.
    pub(in crate::read) fn pieces(&self, range: &Range<u64>) -> Vec<Piece> {
        let fetches = self.blocks.overlapping(range.clone());
        fetches
            .map(|(_, fetch)| Piece {
                fetch: Arc::clone(fetch),
                bytes: share_of(fetch, range),
            })
            .collect()
    }

    /// The plan of a read, by the planner at `asker`. Pages that other readers have filled are
    /// not asked for ahead.
    pub(in crate::read) fn plan(
        &mut self,
        asker: usize,
        access: &Access,
        bounds: &Bounds<'_>,
    ) -> ReadPlan {
        let mut plan = self.readers.plan(asker, access, &self.blocks, bounds);
        let asks_ahead = !plan.ahead.is_empty() || !plan.elsewhere.is_empty();
        if self.readers.is_shared() && asks_ahead {
            let has = self.readers.in_page_cache(asker);
            if !has.is_empty() {
                for ranges in [&mut plan.ahead, &mut plan.elsewhere] {
                    let rest = |get: Range<u64>| without(get, has.iter().cloned());
                    *ranges = mem::take(ranges).into_iter().flat_map(rest).collect();
                }
            }
        }
        plan
    }

    /// Drops blocks that were read, up to the bytes of the latest read, unless other readers are
    /// about to come to them.
    pub(in crate::read) fn remove_read(
        &mut self,
        reader: usize,
        range: &Range<u64>,
        done: &Range<u64>,
        retention: impl FnOnce() -> RetentionPolicy,
        removed: &mut Vec<Arc<Fetch>>,
    ) {
        if !self.readers.is_shared() {
            self.blocks.remove_inside(done, removed);
            return;
        }
        // For blocks that were read before, an earlier call has decided.
        let mut read = self.blocks.overlapping(range.clone());
        let is_read =
            |(held, _): &(&Range<u64>, _)| done.start <= held.start && held.end <= done.end;
        let Some(first) = read.find(is_read).map(|(held, _)| held.start) else {
            return;
        };
        drop(read);
        let mut retention = retention();
        if done.start > 0 && done.end - done.start < READ_RANGE_MIN {
            // Blocks of random reads do not stay: they would splinter the requests of a reader
            // that comes in sequence.
            retention.behind_max = 0;
        }
        let wanted = self.readers.retained(Some(reader), Some(retention));
        let is_unwanted = |held: &Range<u64>| !wanted.contains(held);
        self.blocks
            .remove_inside_if(&(first..done.end), is_unwanted, removed);
    }

    /// Drops blocks that no reader will come to. A reader alone needs no `retention`.
    pub(in crate::read) fn retire(
        &mut self,
        retention: impl FnOnce() -> RetentionPolicy,
        removed: &mut Vec<Arc<Fetch>>,
    ) {
        let retention = self.readers.is_shared().then(retention);
        if let Some(RetentionPolicy { now, .. }) = retention {
            self.readers.forget_idle(now);
        }
        let wanted = self.readers.retained(None, retention);
        self.blocks
            .remove_if(|held, _| !wanted.contains(held), removed);
    }

    /// Streams that are read ahead.
    pub(in crate::read) fn stream_count(&self) -> usize {
        self.readers.stream_count(|bytes| self.blocks.holds(bytes))
    }
}

/// The reply made of `pieces`, whose bytes are all here.
pub(super) fn data_of(pieces: Vec<Piece>) -> ReadData {
    let mut slices = Slices::new();
    for Piece { fetch, bytes } in pieces {
        fetch.add_slices(bytes, &mut slices);
    }
    ReadData { slices }
}

/// The part of a fetch's block that belongs to `range`.
fn share_of(fetch: &Fetch, range: &Range<u64>) -> Range<usize> {
    let held = fetch.range();
    let within =
        |offset: u64| usize::try_from(offset - held.start).expect("a block fits into memory");
    within(range.start.max(held.start))..within(range.end.min(held.end))
}
