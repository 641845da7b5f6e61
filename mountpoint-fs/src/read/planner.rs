//! Which ranges to ask S3 for when a read comes in.
//!
//! Pure: owns no buffer, makes no request, takes no lock, reads no clock. A read that continues no track is fetched
//! exactly; the second in sequence opens a window, which the planner keeps filled with parts. The first read of a
//! file, at its beginning, is taken for the first of many.
//!
//! Invariant: nothing beyond the object's end, nothing that a block holds already, and nothing twice is ever asked for.

use std::ops::Range;
use std::time::Duration;

use super::blocks::{BlockMap, without};
use super::delay::LeastDelays;
use super::habit::Habit;
use super::stride::Stride;
use super::tracks::{Track, Tracks};
use super::window::{PaidWindows, Window, are_several};
use crate::config::limits::{FIRST_RANGE, READ_SIZE_MAX, SMALL_FILE_MAX};

/// What a reader does, and what the planner knows of its past.
#[derive(Debug, Default)]
pub(super) struct Planner {
    pub(super) tracks: Tracks,
    /// Boxed, and there once a stream was left: most files are read from end to end.
    habit: Option<Box<Habit>>,
    /// Boxed, and there from the second read on that continues nothing: most files are read from end to end.
    stride: Option<Box<Stride>>,
}

/// One read.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// Bytes of the object; not empty, within its size.
    pub(super) range: Range<u64>,
    /// Whether some of its bytes have not arrived yet.
    pub(super) waits: bool,
    /// Whether no other read of the file is waiting for its bytes.
    pub(super) is_alone: bool,
    /// Now.
    pub(super) now: Duration,
    /// Bytes that all readers of the mount have read so far.
    pub(super) consumed: u64,
}

/// What a plan must keep to.
#[derive(Clone, Debug)]
pub(super) struct Bounds<'a> {
    /// Size of the object.
    pub(super) size: u64,
    /// Largest range of one GET that is not a single read.
    pub(super) part_max: u64,
    /// Largest window: the setting, or the stream's share of the memory.
    pub(super) window_max: u64,
    /// Streams of the whole mount.
    pub(super) streams: usize,
    /// What GETs of this mount take at least.
    pub(super) least_delays: &'a LeastDelays,
    /// Windows of this mount that growing to has paid.
    pub(super) paid_windows: &'a PaidWindows,
}

/// What to do for one read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Ranges the read waits for, one GET each.
    pub(super) demand: Vec<Range<u64>>,
    /// Ranges to ask for ahead of the reader, one GET each, most urgent first.
    pub(super) ahead: Vec<Range<u64>>,
    /// Bytes that were read without a gap, this read included: blocks wholly inside are done with.
    pub(super) done: Range<u64>,
    /// Blocks that [`Planner::wants`] no longer names may go.
    pub(super) is_time_to_retire: bool,
    /// Who asks ahead, for [`Planner::refuse`].
    asker: Asker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// The stream of the track at this index.
    Track(usize),
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
    /// Takes note of a read and says what it calls for. `blocks` are those held or in the air.
    pub(super) fn plan<T>(
        &mut self,
        access: &Access,
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
    ) -> Plan {
        let range = &access.range;
        assert!(range.start < range.end);
        assert!(range.end <= bounds.size);
        let mut demand = blocks.gaps(range.clone());
        if let Some(track) = self.tracks.place_rest(range) {
            return self.plan_on(track, demand);
        }
        let (track, continues) = self.tracks.place(range);
        let mut plan = self.plan_on(track, Vec::new());
        let run = self.tracks.at(track).range.start;
        if continues {
            if let Some(habit) = &mut self.habit {
                habit.resumed(run);
            }
        } else if let Some(left) = self.tracks.stream_left_for(range) {
            let (start, len) = (left.range.start, left.range.end - left.range.start);
            self.habit.get_or_insert_default().left(start, len);
        }
        let run_end = self.stride.as_ref().and_then(|stride| stride.run_end(run));
        let reach = if self.tracks.is_first_read() && range.start == 0 {
            self.begin(track, access, bounds)
        } else if continues && run_end.is_none_or(|end| range.end > end) {
            self.follow(track, access, !demand.is_empty(), bounds)
        } else {
            None
        };
        if continues {
            if let Some(stride) = &mut self.stride {
                stride.go_on(range);
            }
        } else if !access.is_alone {
            // Who reads at several places at once needs nobody to ask ahead.
            plan.is_time_to_retire |= self.stride.take().is_some_and(|stride| stride.has_ahead());
        } else if !self.tracks.is_first_read() {
            self.step(range, &demand, blocks, bounds, &mut plan);
        }
        if let Some(Reach {
            range: reach,
            part,
            join_max,
        }) = reach
        {
            plan.is_time_to_retire = true;
            let unread = self.tracks.unread(track, reach);
            let missing = unread.into_iter().flat_map(|range| blocks.gaps(range));
            plan.ahead = missing.flat_map(|gap| cut(gap, part)).collect();
            join(&mut demand, &mut plan.ahead, range.end, join_max);
        } else if let Some(end) =
            end_of_cut(range, bounds.size).filter(|_| !self.tracks.has_no_rests())
        {
            let rest = range.end..end;
            let is_free = |ahead: &Range<u64>| ahead.end <= rest.start || rest.end <= ahead.start;
            if !self.tracks.expects_rest(track, end) {
                // Blocks that were kept for their rest may go.
                plan.is_time_to_retire = true;
            } else if let Some(last) = demand.last_mut()
                && last.end == range.end
                && plan.ahead.iter().all(is_free)
                && blocks.gaps(rest.clone()) == [rest]
            {
                last.end = end;
            }
        }
        plan.demand = demand;
        plan
    }

    /// The plan for a read of this track that asks for nothing ahead.
    fn plan_on(&self, track: usize, demand: Vec<Range<u64>>) -> Plan {
        Plan {
            demand,
            ahead: Vec::new(),
            done: self.tracks.at(track).range.clone(),
            is_time_to_retire: false,
            asker: Asker::Track(track),
        }
    }

    /// Memory for read-ahead ended at `at`: the plan's stream takes smaller steps and asks again from there.
    pub(super) fn refuse(&mut self, plan: &Plan, at: u64) {
        let Asker::Track(track) = plan.asker else {
            self.stride = None;
            return;
        };
        let track = self.tracks.at_mut(track);
        track.ahead_end = at;
        if let Some(window) = &mut track.window {
            window.shrink();
        }
    }

    /// Whether bytes of `range` were asked for ahead of a reader that has not come to them yet.
    pub(super) fn wants(&self, range: &Range<u64>) -> bool {
        self.tracks.wants(range)
            || self
                .stride
                .as_ref()
                .is_some_and(|stride| stride.wants(range))
    }

    /// Streams that are read ahead.
    pub(super) fn stream_count(&self) -> usize {
        self.tracks.stream_count()
    }

    /// Forgets everything but that there were reads.
    pub(super) fn forget(&mut self) {
        self.tracks.forget();
        self.stride = None;
    }

    /// A read that continues nothing: perhaps one of many at the same distance.
    fn step<T>(
        &mut self,
        range: &Range<u64>,
        demand: &[Range<u64>],
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
        plan: &mut Plan,
    ) {
        let stride = self.stride.get_or_insert_default();
        let had_ahead = stride.has_ahead();
        let asked = stride.begin(range, bounds.size, bounds.window_max);
        plan.is_time_to_retire |= had_ahead && !stride.has_ahead();
        if !asked.is_empty() {
            plan.asker = Asker::Stride;
            let unread = asked
                .into_iter()
                .filter(|range| !self.tracks.has_read(range));
            let missing = unread.flat_map(|range| blocks.gaps(range));
            // Runs longer than their distance overlap each other, and the read.
            let mut asked = demand.to_vec();
            for gap in missing {
                for rest in without(gap, asked.clone().into_iter()) {
                    plan.ahead.extend(cut(rest.clone(), bounds.part_max));
                    let place = asked.partition_point(|before| before.start < rest.start);
                    asked.insert(place, rest);
                }
            }
        }
    }

    /// The first read of the file, at its beginning: a small file is fetched whole; a large read is the first of
    /// many; a small one may be all there is to come, but for a header.
    fn begin(&mut self, track: usize, access: &Access, bounds: &Bounds<'_>) -> Option<Reach> {
        let end = access.range.end;
        if bounds.size <= SMALL_FILE_MAX.min(bounds.part_max.max(FIRST_RANGE)) {
            self.tracks.at_mut(track).ahead_end = bounds.size;
            return Some(Reach {
                range: end..bounds.size,
                part: bounds.size,
                join_max: u64::MAX,
            });
        }
        if end >= FIRST_RANGE {
            return self.follow(track, access, false, bounds);
        }
        let until = FIRST_RANGE.min(bounds.size);
        self.tracks.at_mut(track).ahead_end = until;
        Some(Reach {
            range: end..until,
            part: FIRST_RANGE,
            join_max: FIRST_RANGE,
        })
    }

    /// What a stream is to ask for, now that it has come to the end of its track.
    fn follow(
        &mut self,
        index: usize,
        access: &Access,
        missed: bool,
        bounds: &Bounds<'_>,
    ) -> Option<Reach> {
        self.open(index, access, bounds);
        let end = self.tracks.at(index).range.end;
        let limit = self.tracks.next_stream_start(index).min(bounds.size);
        let start = self.tracks.at(index).range.start;
        let reach = |habit: &Habit| habit.reach(start, end);
        let limit = limit.min(self.habit.as_deref().map_or(u64::MAX, reach));
        let track = self.tracks.at_mut(index);
        let window = track.window.as_mut().expect("opened above");
        window.advance(end, access, bounds);
        // After a miss blocks may be gone behind it too: they were given back, or another stream consumed them.
        let from = if missed {
            end
        } else {
            track.ahead_end.max(end)
        };
        let part = window.part(bounds);
        let target = end.saturating_add(window.size());
        let until = if target >= limit || (limit == bounds.size && limit - target < part / 4) {
            limit
        } else {
            target - target % part
        };
        // A read that need not wait is not to wait for the sending of a whole window either.
        let until = if access.waits {
            until
        } else {
            until.min((from / part + PARTS_PER_HIT_MAX) * part)
        };
        track.ahead_end = track.ahead_end.max(from).max(until);
        (from < until).then_some(Reach {
            range: from..until,
            part,
            join_max: JOIN_MAX,
        })
    }

    /// Makes the track a stream if it is none.
    fn open(&mut self, index: usize, access: &Access, bounds: &Bounds<'_>) {
        let Track {
            range,
            window: None,
            ..
        } = self.tracks.at(index)
        else {
            return;
        };
        let factor = if self.tracks.is_straying() {
            2
        } else if are_several(bounds.streams) {
            // Halved into parts, it is to have as long ones as the window of one alone.
            16
        } else {
            8
        };
        let run = range.end - range.start;
        // A reader that jumped within what a stream had asked for is that stream, moved on.
        let inherited = self.tracks.iter().filter_map(|other| {
            let window = other.window.as_ref()?;
            (other.range.end < range.start && range.start < other.ahead_end).then(|| window.size())
        });
        let wanted = inherited.max().unwrap_or(0).max(run.saturating_mul(factor));
        let window = Window::open(wanted, range.end, access, bounds.window_max);
        self.tracks.open(index, window);
    }
}

/// Where a read that the kernel has cut likely ends. It cuts at so many pages of the application's buffer, so that what
/// does not begin with a page loses less than a page of the largest read to a second one.
fn end_of_cut(range: &Range<u64>, size: u64) -> Option<u64> {
    let len = range.end - range.start;
    let is_cut =
        READ_SIZE_MAX as u64 - PAGE < len && len < READ_SIZE_MAX as u64 && range.end < size;
    let end = range.end.next_multiple_of(PAGE).min(size);
    (is_cut && range.end < end).then_some(end)
}

/// Cuts a range at multiples of `part`. A last piece shorter than a quarter of a part stays with the one before.
pub(super) fn cut(range: Range<u64>, part: u64) -> impl Iterator<Item = Range<u64>> {
    let mut from = range.start;
    std::iter::from_fn(move || {
        if from >= range.end {
            return None;
        }
        let mut until = (from / part + 1) * part;
        if range.end < until + part / 4 {
            until = range.end;
        }
        let piece = from..until;
        from = until;
        Some(piece)
    })
}

/// Lets the read's own GET run on over the next part if that is short: one request instead of two.
fn join(demand: &mut [Range<u64>], ahead: &mut Vec<Range<u64>>, read_end: u64, join_max: u64) {
    let (Some(last), Some(next)) = (demand.last_mut(), ahead.first()) else {
        return;
    };
    if last.end == read_end && next.start == read_end && next.end - last.start <= join_max {
        last.end = next.end;
        ahead.remove(0);
    }
}

/// Bytes of a page of the application's memory, the smallest that there are.
const PAGE: u64 = 4 << 10;

/// Parts that a read which has its bytes already may send for: one is what it consumed, the other catches up.
const PARTS_PER_HIT_MAX: u64 = 2;

/// Largest GET that serves a stream's read and the part behind it: its bytes are usable as they come, but not
/// every client shows them before the range is complete.
const JOIN_MAX: u64 = 256 << 10;
