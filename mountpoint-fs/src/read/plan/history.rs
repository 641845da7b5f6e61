//! Where reads of one open file have been.
//!
//! Pure. An *extent* is bytes that were read without a gap; a read that begins where one ends
//! continues it. Reads that arrive out of order make extents of their own, which merge as soon as
//! they touch, so the kernel's reordering needs no special case. An extent that is continued
//! becomes a stream when the planner gives it a window.
//!
//! Invariant: at most `EXTENTS_MAX` extents; a read belongs to exactly one.

use std::ops::Range;

use super::block_map::without;
use super::window::Window;
use crate::config::limits::{EXTENTS_MAX, READ_RANGE_MIN, STREAMS_MAX};

/// The extents of one open file.
#[derive(Debug, Default)]
pub(in crate::read) struct AccessHistory {
    extents: Vec<Extent>,
    /// Reads so far: the time of extents.
    reads: u64,
    /// A read that looked as if the kernel had cut it was whole.
    has_no_rests: bool,
}

/// Bytes that were read without a gap.
#[derive(Debug)]
pub(in crate::read) struct Extent {
    pub(in crate::read) range: Range<u64>,
    /// Number of its first read, or of the one that came to it after a long while.
    began: u64,
    /// Number of its latest read.
    pub(in crate::read) used: u64,
    /// A read continued it soon after the one before.
    is_sequential: bool,
    /// Some of its bytes were read again: having been read says no longer that they will not be.
    is_reread: bool,
    /// Everything before it was asked for.
    pub(in crate::read) ahead_end: u64,
    /// Its reader has moved on, and left out what is until `ahead_end`.
    is_left: bool,
    /// Where the rest of its latest read ends, if the kernel has cut that in two.
    rest_end: Option<u64>,
    /// How far to ask ahead, if it is a stream. Boxed, because most extents of a random reader
    /// never are.
    pub(in crate::read) window: Option<Box<Window>>,
}

/// How well a read fits to what a planner has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::read) enum StreamFit {
    /// It begins where a stream is.
    Continues,
    /// It begins where a stream will come to, and has asked for the bytes.
    IsAhead,
}

impl AccessHistory {
    /// Whether there was a read.
    pub(in crate::read) fn has_begun(&self) -> bool {
        self.reads > 0
    }

    /// Whether this is the first read of all.
    pub(in crate::read) fn is_first_read(&self) -> bool {
        self.reads == 1
    }

    /// All of them.
    pub(in crate::read) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.extents.iter()
    }

    /// The extent at an index that [`AccessHistory::place`] returned last.
    pub(in crate::read) fn at(&self, index: usize) -> &Extent {
        &self.extents[index]
    }

    /// The same, to be changed.
    pub(in crate::read) fn at_mut(&mut self, index: usize) -> &mut Extent {
        &mut self.extents[index]
    }

    /// What was asked for ahead of each extent and not read yet, but for those that their reader
    /// has left long ago.
    pub(in crate::read) fn asked_ahead(&self) -> impl Iterator<Item = Range<u64>> {
        let is_given_up =
            |extent: &Extent| extent.is_left && self.reads - extent.used > READ_RANGE_AGE_MAX;
        let extents = self
            .extents
            .iter()
            .filter(move |extent| !is_given_up(extent));
        let ahead = extents.map(|extent| extent.range.end..extent.ahead_end);
        ahead.filter(|range| range.start < range.end)
    }

    /// Offsets where a sequential read is expected next.
    pub(in crate::read) fn goes_on_from(&self) -> impl Iterator<Item = u64> {
        let goes_on = |extent: &&Extent| extent.window.is_some() || extent.range.start == 0;
        let extents = self.extents.iter().filter(goes_on);
        let begins = (self.reads == 0).then_some(0);
        extents.map(|extent| extent.range.end).chain(begins)
    }

    /// How well a read that begins at `start` fits to a stream.
    pub(in crate::read) fn fit(&self, start: u64) -> Option<StreamFit> {
        let streams = self.extents.iter().filter(|extent| extent.window.is_some());
        let fits = streams.filter_map(|extent| {
            let end = extent.range.end;
            let is_ahead = (end..extent.ahead_end).contains(&start);
            let ahead = is_ahead.then_some(StreamFit::IsAhead);
            if start == end {
                Some(StreamFit::Continues)
            } else {
                ahead
            }
        });
        fits.min()
    }

    /// The stream that the read before this one belonged to, unless this one is within what that
    /// has asked for.
    pub(in crate::read) fn stream_left_for(&self, range: &Range<u64>) -> Option<&Extent> {
        let mut streams = self.extents.iter().filter(|extent| extent.window.is_some());
        let before = streams.find(|extent| extent.used + 1 == self.reads)?;
        let is_ahead = before.range.end <= range.start && range.start < before.ahead_end;
        (!is_ahead).then_some(before)
    }

    /// Extents that are read ahead.
    pub(in crate::read) fn stream_count(&self) -> usize {
        self.extents
            .iter()
            .filter(|extent| extent.window.is_some())
            .count()
    }

    /// Forgets everything but that there were reads.
    pub(in crate::read) fn forget(&mut self) {
        self.extents = Vec::new();
    }

    /// The stream that the read before the latest belonged to, if it did, goes on with the extent
    /// at `index`.
    pub(in crate::read) fn carry(&mut self, index: usize) {
        let reads = self.reads;
        let is_before = |extent: &&mut Extent| extent.window.is_some() && extent.used + 1 == reads;
        if let Some(before) = self.extents.iter_mut().find(is_before) {
            let window = before.window.take();
            let ahead_end = std::mem::replace(&mut before.ahead_end, before.range.end);
            let extent = &mut self.extents[index];
            extent.window = window;
            extent.ahead_end = extent.ahead_end.max(ahead_end);
        }
    }

    /// The stream whose reader goes on with the extent at `index`, if it has left out some of what
    /// that stream had asked for and has not read there since: the kernel asks for nothing that it
    /// has. What was left out may still come, as long as reads may come out of order.
    pub(in crate::read) fn move_on(&mut self, index: usize) -> bool {
        let Extent { range, began, .. } = &self.extents[index];
        let (start, began) = (range.start, *began);
        let is_before = |extent: &&mut Extent| {
            extent.window.is_some()
                && extent.range.end < start
                && start < extent.ahead_end
                && extent.used < began
        };
        let befores = self.extents.iter_mut().filter(is_before);
        let Some(before) = befores.max_by_key(|extent| extent.range.end) else {
            return false;
        };
        let window = before.window.take();
        let ahead_end = std::mem::replace(&mut before.ahead_end, start);
        before.is_left = true;
        let extent = &mut self.extents[index];
        extent.window = window;
        extent.ahead_end = extent.ahead_end.max(ahead_end);
        true
    }

    /// Makes the extent a stream; if there are too many, the one that rested longest ends.
    pub(in crate::read) fn open(&mut self, index: usize, window: Window) {
        if self.stream_count() >= STREAMS_MAX {
            let streams = self
                .extents
                .iter_mut()
                .filter(|extent| extent.window.is_some());
            if let Some(oldest) = streams.min_by_key(|extent| extent.used) {
                oldest.window = None;
                oldest.ahead_end = oldest.range.end;
            }
        }
        self.extents[index].window = Some(Box::new(window));
    }

    /// Where the territory of the next stream behind this one begins: what it has read already.
    pub(in crate::read) fn next_stream_start(&self, index: usize) -> u64 {
        let end = self.extents[index].range.end;
        let others = self
            .extents
            .iter()
            .filter(|other| other.window.is_some() && !other.is_reread);
        others
            .map(|other| other.range.start)
            .filter(|&start| start >= end)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// The byte at `offset` is read again: what was read together with it is likely to be, too.
    pub(in crate::read) fn is_reread(&mut self, offset: u64) {
        let extents = self.extents.iter_mut();
        for extent in extents.filter(|extent| extent.range.contains(&offset)) {
            extent.is_reread = true;
        }
    }

    /// What was read of late, in stretches that are long enough to be left out.
    pub(in crate::read) fn read_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let read_ranges = self
            .extents
            .iter()
            .filter(|extent| self.is_read_range(extent));
        let ranges = read_ranges.map(|extent| extent.range.clone());
        ranges.filter(|range| range.end - range.start >= READ_RANGE_MIN)
    }

    /// What of `range`, ahead of the extent at `index`, no other extent has read in passing.
    pub(in crate::read) fn unread(&self, index: usize, range: Range<u64>) -> Vec<Range<u64>> {
        let end = self.extents[index].range.end;
        self.without(range, |read_range| end < read_range.start)
    }

    /// What of `range` was not read a short while ago.
    pub(in crate::read) fn without_read(&self, range: Range<u64>) -> Vec<Range<u64>> {
        self.without(range, |_| true)
    }

    /// What of `range` is in none of the stretches, read of late, that `counts`.
    fn without(&self, range: Range<u64>, counts: impl Fn(&Range<u64>) -> bool) -> Vec<Range<u64>> {
        let overlaps = |read: &Range<u64>| read.start < range.end && range.start < read.end;
        let read_ranges = self.read_ranges();
        let mut read_ranges: Vec<_> = read_ranges
            .filter(|read_range| overlaps(read_range) && counts(read_range))
            .collect();
        read_ranges.sort_unstable_by_key(|read_range| read_range.start);
        without(range, read_ranges.into_iter())
    }

    /// Whether some of `range` was read a short while ago.
    pub(in crate::read) fn has_read(&self, range: &Range<u64>) -> bool {
        self.extents.iter().any(|extent| {
            self.is_read_range(extent)
                && extent.range.start < range.end
                && range.start < extent.range.end
        })
    }

    /// Whether what the extent has read is likely not to be read again by one that comes to it.
    fn is_read_range(&self, extent: &Extent) -> bool {
        !extent.is_reread
            && (extent.window.is_some() || self.reads - extent.used <= READ_RANGE_AGE_MAX)
    }

    /// The latest read of the extent, which ends it, looks like the first part of one that goes on
    /// until `end`. Whether the rest is worth asking for: not once one did not come.
    pub(in crate::read) fn expects_rest(&mut self, index: usize, end: u64) -> bool {
        let now = self.reads;
        let is_late =
            |extent: &Extent| extent.rest_end.is_some() && now - extent.used > RECENT_READS;
        self.has_no_rests |= self.extents.iter().any(is_late);
        if self.has_no_rests {
            for extent in &mut self.extents {
                if extent.rest_end.take().is_some() {
                    extent.ahead_end = extent.range.end;
                }
            }
            return false;
        }
        let extent = &mut self.extents[index];
        extent.rest_end = Some(end);
        extent.ahead_end = extent.ahead_end.max(end);
        true
    }

    /// Whether reads that look cut are whole.
    pub(in crate::read) fn has_no_rests(&self) -> bool {
        self.has_no_rests
    }

    /// Takes note of a read if it is the rest of the one before: that is one read, not two in
    /// sequence. Returns the index of its extent.
    pub(in crate::read) fn place_rest(&mut self, range: &Range<u64>) -> Option<usize> {
        let is_rest = |extent: &Extent| {
            extent.window.is_none()
                && extent.range.end == range.start
                && extent.rest_end.is_some_and(|end| range.end <= end)
        };
        let index = self.extents.iter().position(is_rest)?;
        self.reads += 1;
        let extent = &mut self.extents[index];
        extent.range.end = range.end;
        extent.used = self.reads;
        extent.rest_end = None;
        Some(self.merge(index))
    }

    /// Takes note of a read. Returns the index of the extent it belongs to now, and whether it
    /// continues that forwards, and often enough to be no accident.
    pub(in crate::read) fn place(&mut self, range: &Range<u64>) -> (usize, bool) {
        self.reads += 1;
        match self.find(range) {
            Some((index, Placement::Continues)) => {
                let extent = &mut self.extents[index];
                let is_recent = self.reads - extent.used <= RECENT_READS;
                extent.range.end = range.end;
                extent.rest_end = None;
                extent.is_left = false;
                extent.used = self.reads;
                if is_recent {
                    extent.is_sequential = true;
                } else {
                    extent.began = self.reads;
                }
                let is_long = extent.range.end - extent.range.start >= RUN_MIN;
                let continues = extent.window.is_some() || (extent.is_sequential && is_long);
                let index = self.merge(index);
                match self.stream_up_to(index) {
                    Some(stream) => (self.unite(stream, index), true),
                    None => (index, continues),
                }
            }
            Some((index, Placement::Precedes)) => {
                let extent = &mut self.extents[index];
                extent.range.start = range.start;
                if self.reads - extent.used > RECENT_READS {
                    extent.began = self.reads;
                }
                extent.used = self.reads;
                (index, false)
            }
            Some((index, Placement::Repeats)) => {
                self.extents[index].is_reread = true;
                (self.add_random_read(range), false)
            }
            None => (self.add_random_read(range), false),
        }
    }

    /// The stream that has come to the extent at `index`, which is none: its reader left out what
    /// had been read there before.
    fn stream_up_to(&self, index: usize) -> Option<usize> {
        let Extent { range, window, .. } = &self.extents[index];
        let is_up_to = |stream: &Extent| {
            let end = stream.range.end;
            stream.window.is_some()
                && stream.range.start < range.start
                && range.start <= end
                && end < range.end
        };
        let found = self.extents.iter().position(is_up_to);
        found.filter(|_| window.is_none())
    }

    /// The extent that `range` fits best.
    fn find(&self, range: &Range<u64>) -> Option<(usize, Placement)> {
        let fits = self
            .extents
            .iter()
            .enumerate()
            .filter_map(|(index, extent)| {
                let (start, end) = (extent.range.start, extent.range.end);
                let (fit, rank) = if end == range.start {
                    (
                        Placement::Continues,
                        if extent.window.is_some() { 0 } else { 1 },
                    )
                } else if start <= range.start && range.start < end && end < range.end {
                    (Placement::Continues, 2)
                } else if start == range.end {
                    (Placement::Precedes, 3)
                } else if start <= range.start && range.end <= end {
                    (Placement::Repeats, 4)
                } else {
                    return None;
                };
                Some((rank, index, fit))
            });
        fits.min_by_key(|(rank, ..)| *rank)
            .map(|(_, index, fit)| (index, fit))
    }

    /// A new extent for a read that continues none.
    fn add_random_read(&mut self, range: &Range<u64>) -> usize {
        let extent = Extent {
            range: range.clone(),
            began: self.reads,
            used: self.reads,
            is_sequential: false,
            is_reread: false,
            ahead_end: range.end,
            is_left: false,
            rest_end: None,
            window: None,
        };
        if self.extents.len() < EXTENTS_MAX {
            self.extents.push(extent);
            return self.extents.len() - 1;
        }
        let oldest = self
            .extents
            .iter()
            .enumerate()
            .min_by_key(|(_, old)| (old.window.is_some(), old.used));
        let (index, _) = oldest.expect("EXTENTS_MAX is not 0");
        self.extents[index] = extent;
        index
    }

    /// Joins to the extent at `index` those that it has come to touch. Returns where it is now.
    fn merge(&mut self, index: usize) -> usize {
        let Range { start, end } = self.extents[index].range;
        let touched = self.extents.iter().position(|other| {
            self.is_read_range(other)
                && start < other.range.start
                && other.range.start <= end
                && end < other.range.end
        });
        touched.map_or(index, |touched| self.unite(index, touched))
    }

    /// Joins the extent at `other`, which goes farther, to the one at `index`. Returns where that
    /// is now.
    fn unite(&mut self, index: usize, other: usize) -> usize {
        let place = other;
        let other = self.extents.swap_remove(place);
        let index = if index == self.extents.len() {
            place
        } else {
            index
        };
        let extent = &mut self.extents[index];
        extent.range.end = other.range.end;
        extent.ahead_end = extent.ahead_end.max(other.ahead_end);
        if other.window.as_ref().map(|window| window.size())
            > extent.window.as_ref().map(|window| window.size())
        {
            extent.window = other.window;
        }
        index
    }
}

#[derive(Clone, Copy)]
enum Placement {
    /// Begins where the extent ends, or overlaps its end.
    Continues,
    /// Ends where the extent begins.
    Precedes,
    /// Lies inside.
    Repeats,
}

/// An extent that was not continued within so many reads is continued by accident.
const RECENT_READS: u64 = STREAMS_MAX as u64;

/// Shortest run that is worth reading ahead: Linux itself begins with four pages.
const RUN_MIN: u64 = 16 << 10;

/// An extent that is no stream is left out of read-ahead for so many reads: as many as Linux may
/// have in flight at once.
const READ_RANGE_AGE_MAX: u64 = 64;
