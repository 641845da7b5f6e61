//! Which ranges to ask S3 for when a read comes in.
//!
//! Pure: owns no buffer, makes no request, takes no lock, reads no clock. A read that continues no
//! extent is fetched exactly; the second in sequence opens a window, which the planner keeps filled
//! with parts. The first read of a file, at its beginning, is taken for the first of many. For all
//! else the detectors propose, and the arbiter picks.
//!
//! Invariant: nothing beyond the object's end, nothing that a block holds already, and nothing
//! twice is ever asked for.

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

/// The reads of one reader so far, and what they foretell.
#[derive(Debug, Default)]
pub(in crate::read) struct Planner {
    pub(in crate::read) history: AccessHistory,
    patterns: Patterns,
}

/// What to do for one read.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::read) struct ReadPlan {
    /// How the read relates to those before it.
    pub(in crate::read) kind: AccessKind,
    /// Ranges the read waits for, one GET each.
    pub(in crate::read) demand: Vec<Range<u64>>,
    /// Ranges to ask for ahead of the reader, one GET each, most urgent first.
    pub(in crate::read) ahead: Vec<Range<u64>>,
    /// Ranges to ask for because the file before was read there, one GET each, behind all others.
    pub(in crate::read) elsewhere: Vec<Range<u64>>,
    /// Bytes that were read without a gap, this read included: blocks wholly inside are done with.
    pub(in crate::read) done: Range<u64>,
    /// Blocks that [`Planner::asked_ahead`] no longer names may go.
    pub(in crate::read) is_time_to_retire: bool,
    /// Whose read-ahead it is, for [`Planner::refuse`].
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

/// How far a plan reaches, and in what steps.
struct Reach {
    range: Range<u64>,
    part: u64,
    /// Largest GET that may serve the read and the part behind it at once.
    join_max: u64,
}

impl Planner {
    /// Takes note of a read and says what it calls for. `blocks` are those held or in flight.
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

    /// How far ahead a proposal asks in sequence.
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

    /// Shows a read to the detectors. Returns the proposal that is followed.
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

    /// Adds to a plan what the layout of the file before foretells.
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

    /// Adds to a plan what a stream is to ask for.
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

    /// Adds to a plan what a reader that goes backwards comes to, nearest first.
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

    /// Adds to a plan the next runs of a stride.
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
        // Runs longer than their distance overlap each other, and the read.
        plan.ahead = apart(missing, plan.demand.clone(), bounds.part_max);
    }

    /// Lets a read that the kernel has perhaps cut fetch its rest too, which comes next.
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
            // Blocks that were kept for their rest may go.
            plan.is_time_to_retire = true;
        } else if let Some(last) = plan.demand.last_mut()
            && last.end == rest.start
            && plan.ahead.iter().all(is_free)
            && blocks.gaps(rest.clone()) == [rest.clone()]
        {
            last.end = rest.end;
        }
    }

    /// The plan for a read of this extent that asks for nothing ahead.
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

    /// Memory for read-ahead ended at `at`: the plan's stream takes smaller steps and asks again
    /// from there.
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
            Asker::Backward => self.patterns.end_copy(),
        }
    }

    /// Whether there was a read.
    pub(in crate::read) fn has_begun(&self) -> bool {
        self.history.has_begun()
    }

    /// Streams that are read ahead.
    pub(in crate::read) fn stream_count(&self) -> usize {
        self.history.stream_count()
    }

    /// Where its streams are.
    pub(in crate::read) fn stream_ends(&self) -> impl Iterator<Item = u64> {
        let streams = self.history.iter().filter(|extent| extent.window.is_some());
        streams.map(|extent| extent.range.end)
    }

    /// Ranges that were asked for ahead of the reader and not read yet.
    pub(in crate::read) fn asked_ahead(&self) -> impl Iterator<Item = Range<u64>> {
        self.history
            .asked_ahead()
            .chain(self.patterns.asked_ahead())
    }

    /// Ranges that were read of late and are long enough to be left out.
    pub(in crate::read) fn has_read(&self) -> impl Iterator<Item = Range<u64>> {
        self.history.read_ranges()
    }

    /// The byte at `offset` is read again, by another reader.
    pub(in crate::read) fn is_reread(&mut self, offset: u64) {
        self.history.is_reread(offset);
    }

    /// Offsets where a sequential read is expected next.
    pub(in crate::read) fn goes_on_from(&self) -> impl Iterator<Item = u64> {
        self.history.goes_on_from()
    }

    /// How well a read that begins at `start` fits to a stream.
    pub(in crate::read) fn fit(&self, start: u64) -> Option<StreamFit> {
        self.history.fit(start)
    }

    /// Forgets everything but that there were reads.
    pub(in crate::read) fn forget(&mut self) {
        self.history.forget();
        self.patterns.forget_jumps();
    }

    /// The first read of the file, at its beginning: a small file is fetched whole; a large read is
    /// the first of many; a small one may be all there is to come, but for a header.
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

    /// What a stream is to ask for, now that it has come to the end of its extent. If it begins,
    /// `wanted` says how far ahead, where that is known.
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
        // After a miss blocks may be gone behind it too: they were given back, or another stream
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

    /// Makes the extent a stream if it is none.
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

/// Whether the rest of the object takes less time than another way to the store and back.
fn is_short_rest(rest: &Range<u64>, access: &Access, bounds: &Bounds<'_>) -> bool {
    let distance = bounds.min_latencies.distance(access.now);
    access.waits
        && distance.is_some_and(StoreDistance::is_remote)
        && rest.end.saturating_sub(rest.start) <= SMALL_FILE_MAX.min(bounds.window_max)
}

/// Largest GET that serves a stream's read and the part behind it: its bytes are usable as they
/// come, but not every client shows them before the range is complete.
const JOIN_MAX: u64 = 256 << 10;
