//! Which ranges to ask S3 for when a read comes in.
//!
//! Pure: owns no buffer, makes no request, takes no lock, reads no clock. A read that continues no
//! extent is fetched exactly; the second in sequence opens a window, which the planner keeps filled
//! with parts. The first read of a file, at its beginning, is taken for the first of many.
//!
//! Invariant: nothing beyond the object's end, nothing that a block holds already, and nothing
//! twice is ever asked for.

use std::mem;
use std::ops::Range;

use super::access::{Access, Bounds};
use super::block_map::BlockMap;
use super::history::{AccessHistory, StreamFit};
use super::latency::StoreDistance;
use super::patterns::RunLengthPredictor;
use super::patterns::SparseScan;
use super::patterns::Stride;
use super::ranges::{apart, cut, end_of_cut, join};
use super::window::{Window, runs_ahead};
use crate::config::limits::{FIRST_RANGE, LAYOUT_AHEAD_BYTES_MAX, SMALL_FILE_MAX};
use crate::read::layout::{AccessKind, KnownLayout, LayoutPrefetch};

/// What a reader does, and what the planner knows of its past.
#[derive(Debug, Default)]
pub(in crate::read) struct Planner {
    pub(in crate::read) history: AccessHistory,
    /// Boxed, and there once a stream was left: most files are read from end to end.
    run_lengths: Option<Box<RunLengthPredictor>>,
    /// Boxed, and there from the second read on that continues nothing: most files are read from
    /// end to end.
    jumps: Option<Box<JumpPatterns>>,
    layout: LayoutPrefetch,
}

/// What is known of reads that continue nothing.
#[derive(Debug, Default)]
struct JumpPatterns {
    stride: Stride,
    scan: SparseScan,
}

/// What to do for one read.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::read) struct ReadPlan {
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
    /// Who asks ahead, for [`Planner::refuse`].
    asker: Asker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// The stream of the extent at this index.
    Extent(usize),
    /// The stride.
    Stride,
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
        let mut demand = blocks.gaps(range.clone());
        if let Some(extent) = self.history.place_rest(range) {
            return self.plan_on(extent, demand);
        }
        let (extent, continues) = self.history.place(range);
        let mut plan = self.plan_on(extent, Vec::new());
        let run = self.history.at(extent).range.start;
        let scanned = self.note_scan(range, continues, access, bounds);
        if scanned.is_some() {
            self.history.carry(extent);
            self.run_lengths = None;
        } else {
            self.note_run(range, run, continues, bounds.size);
        }
        let run_end = self
            .jumps
            .as_ref()
            .and_then(|jumps| jumps.stride.run_end(run));
        if continues {
            if let Some(jumps) = &mut self.jumps {
                jumps.stride.go_on(range);
            }
        } else if !access.is_alone || scanned.is_some() {
            // Who reads at several places at once needs nobody to ask ahead.
            plan.is_time_to_retire |= self.end_stride();
        } else if !self.history.is_first_read() {
            self.step(range, &demand, blocks, bounds, &mut plan);
        }
        let is_asked = !matches!(plan.asker, Asker::Extent(_));
        let begins = !continues && !is_asked;
        let begun = begins.then(|| self.begins_run(access)).flatten();
        let goes_on = if continues {
            run_end.is_none_or(|end| range.end > end)
        } else {
            scanned.is_some() || begun.is_some()
        };
        let reach = if self.history.is_first_read() && range.start == 0 {
            self.begin(extent, access, bounds)
        } else if goes_on {
            let wanted = scanned.or(begun);
            self.follow(extent, access, !demand.is_empty(), wanted, bounds)
        } else {
            None
        };
        if let Some(Reach {
            range: reach,
            part,
            join_max,
        }) = reach
        {
            plan.is_time_to_retire = true;
            let unread = self.history.unread(extent, reach);
            let missing = unread.into_iter().flat_map(|range| blocks.gaps(range));
            plan.ahead = missing.flat_map(|gap| cut(gap, part)).collect();
            join(&mut demand, &mut plan.ahead, range.end, join_max);
        } else {
            let end = end_of_cut(range, bounds.size);
            let end = end.filter(|_| !self.history.has_no_rests());
            if let Some(end) = end {
                self.expect_rest(extent, range.end..end, &mut demand, blocks, &mut plan);
            }
        }
        plan.demand = demand;
        self.foretell(access, continues, blocks, bounds, &mut plan);
        plan
    }

    /// Adds to a plan what the file before foretells, if this one is read like it.
    fn foretell<T>(
        &mut self,
        access: &Access,
        continues: bool,
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
        plan: &mut ReadPlan,
    ) {
        let kind = if self.history.is_first_read() {
            AccessKind::First
        } else if continues {
            AccessKind::GoesOn
        } else {
            AccessKind::Jump
        };
        let had_ahead = self.layout.has_ahead();
        let missed = !plan.demand.is_empty();
        let foretold = self.read_layout(kind, missed, access, bounds);
        plan.is_time_to_retire |= had_ahead && !self.layout.has_ahead();
        if !foretold.is_empty() {
            let is_new =
                |range: &Range<u64>| range.end <= bounds.size && !self.history.has_read(range);
            let new = foretold.into_iter().filter(is_new);
            let missing = new.flat_map(|range| blocks.gaps(range));
            let asked = [&plan.demand[..], &plan.ahead].concat();
            plan.elsewhere = apart(missing, asked, bounds.part_max);
        }
    }

    /// What to ask for because the file before was read there: nothing where the store is near.
    fn read_layout(
        &mut self,
        kind: AccessKind,
        missed: bool,
        access: &Access,
        bounds: &Bounds<'_>,
    ) -> Vec<Range<u64>> {
        if kind == AccessKind::GoesOn && self.layout.is_idle() {
            return Vec::new();
        }
        let distance = bounds.min_latencies.distance(access.now);
        if bounds.size <= SMALL_FILE_MAX || distance == Some(StoreDistance::Local) {
            return Vec::new();
        }
        let mut asked = Vec::new();
        let first = bounds.layouts.filter(|_| kind == AccessKind::First);
        if let Some(known) = first.and_then(|layouts| layouts.find(bounds.size)) {
            asked = self.layout.follow(known, is_quick(access, bounds));
        }
        asked.extend(self.layout.read(kind, &access.range, missed));
        if distance.is_none() && !asked.is_empty() {
            self.layout.stop();
            asked.clear();
        }
        asked
    }

    /// There was no memory for what the file before foretells.
    pub(in crate::read) fn refuse_elsewhere(&mut self) {
        self.layout.stop();
    }

    /// The file is closed: what the next of its kind is to know.
    pub(in crate::read) fn finish(&mut self) -> Option<KnownLayout> {
        self.layout.finish()
    }

    /// The kernel has perhaps cut a read that nothing is asked ahead for, and its `rest` comes
    /// next.
    fn expect_rest<T>(
        &mut self,
        extent: usize,
        rest: Range<u64>,
        demand: &mut [Range<u64>],
        blocks: &BlockMap<T>,
        plan: &mut ReadPlan,
    ) {
        let is_free = |ahead: &Range<u64>| ahead.end <= rest.start || rest.end <= ahead.start;
        if !self.history.expects_rest(extent, rest.end) {
            // Blocks that were kept for their rest may go.
            plan.is_time_to_retire = true;
        } else if let Some(last) = demand.last_mut()
            && last.end == rest.start
            && plan.ahead.iter().all(is_free)
            && blocks.gaps(rest.clone()) == [rest.clone()]
        {
            last.end = rest.end;
        }
    }

    /// The plan for a read of this extent that asks for nothing ahead.
    fn plan_on(&self, extent: usize, demand: Vec<Range<u64>>) -> ReadPlan {
        ReadPlan {
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
            Asker::Stride => drop(self.end_stride()),
        }
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

    /// What was asked for ahead of its reader, who has not come to it yet.
    pub(in crate::read) fn asked_ahead(&self) -> impl Iterator<Item = Range<u64>> {
        let jumps = self.jumps.iter();
        let strided = jumps.flat_map(|jumps| jumps.stride.asked_ahead());
        let foretold = self.layout.asked_ahead();
        self.history.asked_ahead().chain(strided).chain(foretold)
    }

    /// What it has read of late, in stretches that are worth leaving out.
    pub(in crate::read) fn has_read(&self) -> impl Iterator<Item = Range<u64>> {
        self.history.read_ranges()
    }

    /// The byte at `offset` is read again, by another.
    pub(in crate::read) fn is_reread(&mut self, offset: u64) {
        self.history.is_reread(offset);
    }

    /// Where its reader will likely go on.
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
        self.jumps = None;
        self.refuse_elsewhere();
    }

    /// A read that continues nothing: perhaps one of many at the same distance.
    fn step<T>(
        &mut self,
        range: &Range<u64>,
        demand: &[Range<u64>],
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
        plan: &mut ReadPlan,
    ) {
        let stride = &mut self.jumps.get_or_insert_default().stride;
        let had_ahead = stride.has_ahead();
        let asked = stride.begin(range, bounds.size, bounds.window_max);
        plan.is_time_to_retire |= had_ahead && !stride.has_ahead();
        if !asked.is_empty() {
            plan.asker = Asker::Stride;
            let unread = asked
                .into_iter()
                .filter(|range| !self.history.has_read(range));
            let missing = unread.flat_map(|range| blocks.gaps(range));
            // Runs longer than their distance overlap each other, and the read.
            plan.ahead = apart(missing, demand.to_vec(), bounds.part_max);
        }
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
            return self.follow(extent, access, false, None, bounds);
        }
        let until = FIRST_RANGE.min(bounds.size);
        self.history.at_mut(extent).ahead_end = until;
        Some(Reach {
            range: end..until,
            part: FIRST_RANGE,
            join_max: FIRST_RANGE,
        })
    }

    /// Takes note of a read, and says how far its reader has come by skipping if what it skips is
    /// worth fetching.
    fn note_scan(
        &mut self,
        range: &Range<u64>,
        continues: bool,
        access: &Access,
        bounds: &Bounds<'_>,
    ) -> Option<u64> {
        if continues {
            if let Some(jumps) = &mut self.jumps {
                jumps.scan.go_on(range);
            }
            return None;
        }
        if self.history.is_first_read() {
            return None;
        }
        let jumps = self.jumps.get_or_insert_default();
        if !access.is_alone {
            jumps.scan = SparseScan::default();
        }
        jumps.scan.begin(range);
        let distance = bounds.min_latencies.distance(access.now);
        let is_worth = !jumps.stride.is_sure() && distance.is_some_and(StoreDistance::is_remote);
        jumps.scan.run().filter(|_| is_worth)
    }

    /// The stride is none any more. Whether something was asked for ahead of it.
    fn end_stride(&mut self) -> bool {
        let stride = self
            .jumps
            .as_mut()
            .map(|jumps| mem::take(&mut jumps.stride));
        stride.is_some_and(|stride| stride.has_ahead())
    }

    /// Takes note of where streams were left, and of whether what begins becomes one.
    fn note_run(&mut self, range: &Range<u64>, run: u64, continues: bool, size: u64) {
        if continues {
            if let Some(run_lengths) = &mut self.run_lengths {
                run_lengths.resumed(run);
            }
        } else {
            // One that came to the end was not left.
            let left = self.history.stream_left_for(range);
            if let Some(left) = left.filter(|left| left.range.end < size) {
                let (start, len) = (left.range.start, left.range.end - left.range.start);
                self.run_lengths.get_or_insert_default().left(start, len);
            }
            if let Some(run_lengths) = &mut self.run_lengths {
                run_lengths.began();
            }
        }
    }

    /// How long a run is that a read which continues nothing likely begins, because those before it
    /// did.
    fn begins_run(&self, access: &Access) -> Option<u64> {
        let run_lengths = self.run_lengths.as_ref().filter(|_| access.is_alone)?;
        let Range { start, end } = access.range;
        run_lengths
            .begins_runs()
            .then(|| run_lengths.reach(start, end) - start)
    }

    /// What a stream is to ask for, now that it has come to the end of its extent. If it begins,
    /// `wanted` says how far ahead, where that is known.
    fn follow(
        &mut self,
        index: usize,
        access: &Access,
        missed: bool,
        wanted: Option<u64>,
        bounds: &Bounds<'_>,
    ) -> Option<Reach> {
        self.open(index, access, wanted, bounds);
        let end = self.history.at(index).range.end;
        let limit = self.history.next_stream_start(index).min(bounds.size);
        let start = self.history.at(index).range.start;
        let reach = |run_lengths: &RunLengthPredictor| run_lengths.reach(start, end);
        let limit = limit.min(self.run_lengths.as_deref().map_or(u64::MAX, reach));
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
        if limit == bounds.size && is_short_rest(&(from..limit), access, bounds) {
            extent.ahead_end = limit;
            return (from < limit).then_some(Reach {
                range: from..limit,
                part: limit,
                join_max: u64::MAX,
            });
        }
        let part = window.part(bounds);
        let target = end.saturating_add(window.size());
        let until = if target >= limit || (limit == bounds.size && limit - target < part / 4) {
            limit
        } else {
            target - target % part
        };
        extent.ahead_end = extent.ahead_end.max(from).max(until);
        (from < until).then_some(Reach {
            range: from..until,
            part,
            join_max: JOIN_MAX,
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

/// Whether the network brings many short ranges at once in about the time of one, as far as is
/// known.
fn is_quick(access: &Access, bounds: &Bounds<'_>) -> bool {
    let first_byte = bounds.min_latencies.first_byte(access.now);
    let whole = bounds.min_latencies.of(LAYOUT_AHEAD_BYTES_MAX, access.now);
    first_byte
        .zip(whole)
        .is_none_or(|(first_byte, whole)| whole <= first_byte * 3)
}

/// Whether what is left of the object takes less time than another way to the store and back.
fn is_short_rest(rest: &Range<u64>, access: &Access, bounds: &Bounds<'_>) -> bool {
    let distance = bounds.min_latencies.distance(access.now);
    access.waits
        && distance.is_some_and(StoreDistance::is_remote)
        && rest.end - rest.start <= SMALL_FILE_MAX.min(bounds.window_max)
}

/// Largest GET that serves a stream's read and the part behind it: its bytes are usable as they
/// come, but not every client shows them before the range is complete.
const JOIN_MAX: u64 = 256 << 10;
