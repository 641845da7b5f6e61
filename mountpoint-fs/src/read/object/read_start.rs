//! The beginning of a read: its bytes in blocks, the ranges to ask for, and blocks that may go.
//!
//! Runs with the object's lock held: prepares GETs and sends none.

use std::sync::Arc;
use std::time::Duration;

use super::gets::{ObjectGets, PreparedGets};
use super::readers::RetentionPolicy;
use super::state::{ObjectState, Piece};
use crate::cache::SharedObject;
use crate::operation::ReadData;
use crate::read::fetch::Fetch;
use crate::read::plan::{Access, Bounds, ReadPlan};
use crate::read::resources::ReadResources;

/// Result of the first look at a read's bytes.
pub(super) enum ReadStart {
    /// All bytes are there.
    Ready(ReadData),
    /// All bytes are asked for.
    Pending(Vec<Piece>),
    /// There is no memory for the missing bytes.
    NoMemory,
}

/// Prepares the GETs of a read, by the planner of the reader at `asker`. Returns whether it is
/// time to retire blocks, too.
pub(super) fn begin_read(
    gets: &ObjectGets,
    state: &mut ObjectState,
    asker: usize,
    access: Access,
    prepared: &mut PreparedGets,
    removed: &mut Vec<Arc<Fetch>>,
) -> (ReadStart, bool) {
    let (range, now) = (access.range.clone(), access.now);
    let is_ready = state.is_ready(&range);
    let waits = !is_ready;
    let bounds = bounds(gets, || state.readers.planner(asker).asked_until(range.end));
    let plan = state.plan(asker, &Access { waits, ..access }, &bounds);
    if !gets.prepare_demand(&mut state.blocks, &plan.demand, prepared) {
        state.readers.planner(asker).refuse(&plan, range.end);
        return (ReadStart::NoMemory, plan.is_time_to_retire);
    }
    let start = if is_ready {
        ReadStart::Ready(state.data(&range))
    } else {
        ReadStart::Pending(state.pieces(&range))
    };
    prepare_ahead(gets, state, asker, &plan, prepared);
    let is_share = gets.resources.is_window_a_share();
    let planner = state.readers.planner(asker);
    if planner.is_short_of_memory(&plan, is_share) {
        prepared
            .iter()
            .for_each(|(fetch, _)| fetch.is_late_for_memory());
    }
    let retention = || retention(&gets.resources, now);
    state.remove_read(asker, &range, &plan.done, retention, removed);
    (start, plan.is_time_to_retire)
}

/// The bounds of a plan for a stream that was asked ahead until `asked`: the disk may have all
/// before that because it was asked ahead.
pub(super) fn bounds(gets: &ObjectGets, asked: impl FnOnce() -> u64) -> Bounds<'_> {
    let (resources, version) = (&gets.resources, &gets.version);
    let mut window_max = resources.window_max();
    if is_on_disk_behind(gets, asked) {
        window_max = window_max.min(DISK_WINDOW_MAX);
    }
    let metrics = resources.fetcher.metrics();
    let shared = gets.copies.shared.as_ref();
    let is_known = || metrics.shared_latencies.first_byte(resources.clock.now());
    let is_shared = shared.is_some_and(SharedObject::had_last) && is_known().is_some();
    Bounds {
        size: version.size,
        part_max: resources.config.part_size,
        window_max,
        streams: resources.stream_count(),
        min_latencies: match is_shared {
            true => &metrics.shared_latencies,
            false => &metrics.min_latencies,
        },
        proven_window: &resources.proven_window,
    }
}

/// Whether the disk has as much behind `at` as a window of [`DISK_WINDOW_MAX`].
fn is_on_disk_behind(gets: &ObjectGets, at: impl FnOnce() -> u64) -> bool {
    let Some(cached) = &gets.copies.disk else {
        return false;
    };
    let at = at();
    let window = at..at.saturating_add(DISK_WINDOW_MAX).min(gets.version.size);
    !window.is_empty() && cached.has(&window)
}

/// Prepares the GETs ahead, as far as memory goes.
fn prepare_ahead(
    gets: &ObjectGets,
    state: &mut ObjectState,
    asker: usize,
    plan: &ReadPlan,
    prepared: &mut PreparedGets,
) {
    let ranges = plan.ahead.iter().chain(&plan.elsewhere);
    let refused = gets.prepare_ahead(&mut state.blocks, ranges, prepared);
    if let Some(number) = refused {
        state.readers.refuse_layout(asker);
        if let Some(range) = plan.ahead.get(number) {
            state.readers.planner(asker).refuse(plan, range.start);
        }
    }
}

/// How long blocks stay for slower readers: not at all where memory is short.
pub(super) fn retention(resources: &ReadResources, now: Duration) -> RetentionPolicy {
    let behind_max = resources.memory.behind_max();
    RetentionPolicy { behind_max, now }
}

/// Largest window of a stream that the disk serves.
///
/// Readers wait there for the disk's bandwidth or this machine, which no window mends.
pub(super) const DISK_WINDOW_MAX: u64 = 8 << 20;
