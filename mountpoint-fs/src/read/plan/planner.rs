//! Chooses the ranges to request for a read.
//!
//! Pure: owns no buffer, makes no request, takes no lock, reads no clock. A read that continues no
//! extent is fetched exactly. The second read in sequence opens a window, which the planner keeps
//! filled with parts. A first read at the beginning of the file is taken for the first of a
//! sequence. For all other reads the detectors propose and the arbiter picks.
//!
//! Invariant: no plan requests a range beyond the object's end, one that a block covers, or one
//! twice.

use std::ops::Range;

use super::access::{Access, AccessKind, Bounds};
use super::block_map::BlockMap;
use super::history::{AccessHistory, StreamFit};
use super::patterns::{Patterns, SeenRead};
use super::proposal::{Proposal, arbiter};
use super::ranges::{apart, cut, end_of_cut, end_of_window, join};
use super::window::{Window, runs_ahead};
use crate::config::limits::{FIRST_RANGE, SMALL_FILE_MAX};
use crate::store_distance::StoreDistance;

/// The history of one reader and its predictions.
#[derive(Debug, Default)]
pub(in crate::read) struct Planner {
    pub(in crate::read) history: AccessHistory,
    patterns: Patterns,
}

/// The plan for one read.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::read) struct ReadPlan {
    /// Relation of the read to earlier ones.
    pub(in crate::read) kind: AccessKind,
    /// Ranges that the read waits for, one GET each.
    pub(in crate::read) demand: Vec<Range<u64>>,
    /// Ranges to read ahead, one GET each, most urgent first.
    pub(in crate::read) ahead: Vec<Range<u64>>,
    /// Ranges that the previous file's layout predicts, one GET each, after all others.
    pub(in crate::read) elsewhere: Vec<Range<u64>>,
    /// The range read without a gap, including this read: blocks wholly inside are finished.
    pub(in crate::read) done: Range<u64>,
    /// Whether blocks may be dropped that [`Planner::asked_ahead`] no longer returns.
    pub(in crate::read) is_time_to_retire: bool,
    /// The owner of the read-ahead, for [`Planner::refuse`].
    asker: Asker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// The stream of the extent at this index.
    Extent(usize),
    /// The stride.
    Stride,
    /// The reader that goes backwards.
    Backward,
}

/// The range of a read-ahead, and the length of its parts.
struct Reach {
    range: Range<u64>,
    part: u64,
    /// Longest GET that may serve the read together with the part behind it.
    join_max: u64,
}

impl Planner {
    /// Records a read and plans for it. `blocks` are those held or in flight.
    pub(in crate::read) fn plan<T>(
        &mut self,
        access: &Access,
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
    ) -> ReadPlan {
        let range = &access.range;
        assert!(range.start < range.end);
        assert!(range.end <= bounds.size);
        let demand = blocks.gaps(range.clone());
        if let Some(extent) = self.history.place_rest(range) {
            return self.plan_for(extent, AccessKind::Rest, demand);
        }
        let (extent, continues) = self.history.place(range);
        let kind = if self.history.is_first_read() {
            AccessKind::First
        } else if continues {
            AccessKind::GoesOn
        } else {
            AccessKind::Jump
        };
        let mut plan = self.plan_for(extent, kind, demand);
        let proposal = self.decide(extent, access, bounds, &mut plan);
        if let Some(Proposal::Stride(runs)) = proposal {
            self.ask_for_runs(runs, blocks, bounds, &mut plan);
            self.expect_rest(extent, range, bounds.size, blocks, &mut plan);
        } else if let Some(Proposal::Backward(range, part)) = proposal {
            self.ask_behind(range, part, blocks, &mut plan);
        } else if let Some(reach) = self.reach(proposal, extent, access, bounds, &plan) {
            self.ask_ahead(extent, reach, range.end, blocks, &mut plan);
        } else {
            self.expect_rest(extent, range, bounds.size, blocks, &mut plan);
        }
        plan
    }

    /// The range to read ahead for a sequential `proposal`.
    fn reach(
        &mut self,
        proposal: Option<Proposal>,
        extent: usize,
        access: &Access,
        bounds: &Bounds<'_>,
        plan: &ReadPlan,
    ) -> Option<Reach> {
        let missed = !plan.demand.is_empty();
        match proposal? {
            Proposal::Beginning => self.begin(extent, access, bounds),
            Proposal::Stream => self.follow(extent, access, None, bounds, missed),
            Proposal::Run(wanted) => self.follow(extent, access, Some(wanted), bounds, missed),
            Proposal::Scan(wanted) => {
                self.history.carry(extent);
                self.follow(extent, access, Some(wanted), bounds, missed)
            }
            Proposal::Stride(_) | Proposal::Backward(..) | Proposal::WithinRun => None,
        }
    }

    /// Shows a read to the detectors. Returns the proposal to follow.
    fn decide(
        &mut self,
        extent: usize,
        access: &Access,
        bounds: &Bounds<'_>,
        plan: &mut ReadPlan,
    ) -> Option<Proposal> {
        let range = &access.range;
        let kind = plan.kind;
        let distance = bounds.min_latencies.distance(access.now);
        let left = self
            .history
            .stream_left_for(range)
            .filter(|_| kind == AccessKind::Jump);
        let seen = SeenRead {
            range,
            run_start: self.history.at(extent).range.start,
            kind,
            is_alone: access.is_alone,
            is_remote: distance.is_some_and(StoreDistance::is_remote),
            left: left.map(|left| (left.range.start, left.range.end - left.range.start)),
            size: bounds.size,
            ahead_max: bounds.window_max,
        };
        let observation = self.patterns.observe(&seen);
        plan.is_time_to_retire |= observation.has_given_up;
        let beginning =
            (kind == AccessKind::First && range.start == 0).then_some(Proposal::Beginning);
        let stream = (kind == AccessKind::GoesOn).then_some(Proposal::Stream);
        arbiter([beginning, stream].into_iter().chain(observation.proposals))
    }

    /// Adds the ranges to a plan that the previous file's layout predicts.
    pub(in crate::read) fn ask_elsewhere<T>(
        &self,
        plan: &mut ReadPlan,
        foretold: Vec<Range<u64>>,
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
    ) {
        let is_new = |range: &Range<u64>| range.end <= bounds.size && !self.history.has_read(range);
        let new = foretold.into_iter().filter(is_new);
        let missing = new.flat_map(|range| blocks.gaps(range));
        let asked = [&plan.demand[..], &plan.ahead].concat();
        plan.elsewhere = apart(missing, asked, bounds.part_max);
    }

    /// Adds a stream's read-ahead to a plan.
    fn ask_ahead<T>(
        &self,
        extent: usize,
        reach: Reach,
        read_end: u64,
        blocks: &BlockMap<T>,
        plan: &mut ReadPlan,
    ) {
        plan.is_time_to_retire = true;
        let unread = self.history.unread(extent, reach.range);
        let missing = unread.into_iter().flat_map(|range| blocks.gaps(range));
        plan.ahead = missing.flat_map(|gap| cut(gap, reach.part)).collect();
        join(&mut plan.demand, &mut plan.ahead, read_end, reach.join_max);
    }

    /// Adds the read-ahead of a reader that goes backwards, nearest first.
    fn ask_behind<T>(
        &self,
        range: Range<u64>,
        part: u64,
        blocks: &BlockMap<T>,
        plan: &mut ReadPlan,
    ) {
        plan.asker = Asker::Backward;
        plan.is_time_to_retire = true;
        let unread = self.history.without_read(range);
        let missing = unread.into_iter().flat_map(|range| blocks.gaps(range));
        plan.ahead = missing.flat_map(|gap| cut(gap, part)).collect();
        plan.ahead.reverse();
    }

    /// Adds the next runs of a stride to a plan.
    fn ask_for_runs<T>(
        &self,
        runs: Vec<Range<u64>>,
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
        plan: &mut ReadPlan,
    ) {
        plan.asker = Asker::Stride;
        let unread = runs
            .into_iter()
            .filter(|range| !self.history.has_read(range));
        let missing = unread.flat_map(|range| blocks.gaps(range));
        // Runs longer than their distance overlap each other and the read.
        plan.ahead = apart(missing, plan.demand.clone(), bounds.part_max);
    }

    /// Extends a read that the kernel has probably cut by its rest, which will be read next.
    fn expect_rest<T>(
        &mut self,
        extent: usize,
        range: &Range<u64>,
        size: u64,
        blocks: &BlockMap<T>,
        plan: &mut ReadPlan,
    ) {
        let end = end_of_cut(range, size).filter(|_| !self.history.has_no_rests());
        let Some(end) = end else { return };
        let rest = range.end..end;
        let is_free = |ahead: &Range<u64>| ahead.end <= rest.start || rest.end <= ahead.start;
        if !self.history.expects_rest(extent, rest.end) {
            // The blocks that were kept for the rests may be dropped.
            plan.is_time_to_retire = true;
        } else if let Some(last) = plan.demand.last_mut()
            && last.end == rest.start
            && plan.ahead.iter().all(is_free)
            && blocks.gaps(rest.clone()) == [rest.clone()]
        {
            last.end = rest.end;
        }
    }

    /// A plan for a read of this extent, without read-ahead.
    fn plan_for(&self, extent: usize, kind: AccessKind, demand: Vec<Range<u64>>) -> ReadPlan {
        ReadPlan {
            kind,
            demand,
            ahead: Vec::new(),
            elsewhere: Vec::new(),
            done: self.history.at(extent).range.clone(),
            is_time_to_retire: false,
            asker: Asker::Extent(extent),
        }
    }

    /// Records that memory for read-ahead ended at `at`: the stream's window shrinks, and its next
    /// plan continues there.
    pub(in crate::read) fn refuse(&mut self, plan: &ReadPlan, at: u64) {
        match plan.asker {
            Asker::Extent(extent) => {
                let extent = self.history.at_mut(extent);
                extent.ahead_end = at;
                if let Some(window) = &mut extent.window {
                    window.shrink();
                }
            }
            Asker::Stride => drop(self.patterns.end_stride()),
            Asker::Backward => self.patterns.end_backward(),
        }
    }

    /// Whether the stream of this plan would be read further ahead if there was more memory.
    pub(in crate::read) fn is_short_of_memory(&self, plan: &ReadPlan, is_share: bool) -> bool {
        let Asker::Extent(extent) = plan.asker else {
            return false;
        };
        let window = self.history.at(extent).window.as_ref();
        window.is_some_and(|window| window.is_short_of_memory(is_share))
    }

    /// Whether the file was read.
    pub(in crate::read) fn has_begun(&self) -> bool {
        self.history.has_begun()
    }

    /// Number of streams.
    pub(in crate::read) fn stream_count(&self) -> usize {
        self.history.stream_count()
    }

    /// Positions of the streams.
    pub(in crate::read) fn stream_ends(&self) -> impl Iterator<Item = u64> {
        let streams = self.history.iter().filter(|extent| extent.window.is_some());
        streams.map(|extent| extent.range.end)
    }

    /// Ranges that were requested ahead and not read yet.
    pub(in crate::read) fn asked_ahead(&self) -> impl Iterator<Item = Range<u64>> {
        self.history
            .asked_ahead()
            .chain(self.patterns.asked_ahead())
    }

    /// Where the bytes end that were requested ahead of a stream which has come to `at`; `at` if
    /// there are none.
    pub(in crate::read) fn asked_until(&self, at: u64) -> u64 {
        let extents = self.history.iter();
        // One that begins at `at` was read by calls that have overtaken this one.
        let asked = extents.filter(|extent| (extent.range.start..extent.ahead_end).contains(&at));
        asked.map(|extent| extent.ahead_end).max().unwrap_or(at)
    }

    /// Recently read ranges that are long enough to be omitted from read-ahead.
    pub(in crate::read) fn has_read(&self) -> impl Iterator<Item = Range<u64>> {
        self.history.read_ranges()
    }

    /// Records that another reader reads the byte at `offset` again.
    pub(in crate::read) fn is_reread(&mut self, offset: u64) {
        self.history.is_reread(offset);
    }

    /// Offsets where a sequential read is expected next.
    pub(in crate::read) fn goes_on_from(&self) -> impl Iterator<Item = u64> {
        self.history.goes_on_from()
    }

    /// Relation of a read at `start` to the streams.
    pub(in crate::read) fn fit(&self, start: u64) -> Option<StreamFit> {
        self.history.fit(start)
    }

    /// Forgets all extents, but not that the file was read.
    pub(in crate::read) fn forget(&mut self) {
        self.history.forget();
        self.patterns.forget_jumps();
    }

    /// Plans for a first read at the beginning of the file. A small file is fetched whole. A large
    /// read counts as the first of a sequence; after a small one only a header is fetched, as no
    /// other read may follow.
    fn begin(&mut self, extent: usize, access: &Access, bounds: &Bounds<'_>) -> Option<Reach> {
        let end = access.range.end;
        if bounds.size <= SMALL_FILE_MAX.min(bounds.part_max.max(FIRST_RANGE)) {
            self.history.at_mut(extent).ahead_end = bounds.size;
            return Some(Reach {
                range: end..bounds.size,
                part: bounds.size,
                join_max: u64::MAX,
            });
        }
        if end >= FIRST_RANGE {
            return self.follow(extent, access, None, bounds, false);
        }
        let until = FIRST_RANGE.min(bounds.size);
        self.history.at_mut(extent).ahead_end = until;
        Some(Reach {
            range: end..until,
            part: FIRST_RANGE,
            join_max: FIRST_RANGE,
        })
    }

    /// Plans a stream's read-ahead from the end of its extent. `wanted` is the initial window of a
    /// new stream, if that is known.
    fn follow(
        &mut self,
        index: usize,
        access: &Access,
        wanted: Option<u64>,
        bounds: &Bounds<'_>,
        missed: bool,
    ) -> Option<Reach> {
        self.open(index, access, wanted, bounds);
        let Range { start, end } = self.history.at(index).range;
        let limit = self.history.next_stream_start(index).min(bounds.size);
        let limit = limit.min(self.patterns.reach(start, end));
        let extent = self.history.at_mut(index);
        let window = extent.window.as_mut().expect("opened above");
        window.ramp_up(end - start, end, access, bounds);
        window.advance(end, access, bounds);
        // After a miss later blocks may be missing too: they were evicted, or another stream
        // consumed them.
        let from = if missed {
            end
        } else {
            extent.ahead_end.max(end)
        };
        let is_short = limit == bounds.size && is_short_rest(&(from..limit), access, bounds);
        let (until, part, join_max) = if is_short {
            (limit, limit, u64::MAX)
        } else {
            let part = window.part(bounds);
            let target = end.saturating_add(window.size());
            let until = end_of_window(target, part, limit, bounds.size);
            (until, part, JOIN_MAX)
        };
        extent.ahead_end = extent.ahead_end.max(from).max(until);
        (from < until).then_some(Reach {
            range: from..until,
            part,
            join_max,
        })
    }

    /// Gives the extent a window if it has none.
    fn open(&mut self, index: usize, access: &Access, wanted: Option<u64>, bounds: &Bounds<'_>) {
        if self.history.at(index).window.is_some() || self.history.move_on(index) {
            return;
        }
        let range = &self.history.at(index).range;
        let run = range.end - range.start;
        let wanted = wanted.unwrap_or_else(|| run.saturating_mul(runs_ahead(bounds.streams)));
        let window = Window::open(wanted, range.end, access, bounds.window_max);
        self.history.open(index, window);
    }
}

/// Whether the rest of the object takes less time than another round trip to the store.
fn is_short_rest(rest: &Range<u64>, access: &Access, bounds: &Bounds<'_>) -> bool {
    let distance = bounds.min_latencies.distance(access.now);
    access.waits
        && distance.is_some_and(StoreDistance::is_remote)
        && rest.end.saturating_sub(rest.start) <= SMALL_FILE_MAX.min(bounds.window_max)
}

/// Longest GET for a stream's read and the part behind it. Its bytes are usable as they arrive, but
/// not every client shows them before the range is complete.
const JOIN_MAX: u64 = 256 << 10;
