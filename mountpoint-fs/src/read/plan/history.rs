//! Where one open file was read.
//!
//! Pure. An *extent* is a range that was read without a gap; a read that begins at its end
//! continues it. Reads out of order make extents of their own, which merge as soon as they touch,
//! so the kernel's reordering needs no special case. An extent becomes a stream when the planner
//! gives it a window.
//!
//! Invariant: at most `EXTENTS_MAX` extents; each read belongs to exactly one.

use std::ops::Range;

use super::block_map::without;
use super::window::Window;
use crate::config::limits::{EXTENTS_MAX, STREAMS_MAX};

/// The extents of one open file.
#[derive(Debug, Default)]
pub(in crate::read) struct AccessHistory {
    extents: Vec<Extent>,
    /// Number of reads so far: the clock of extents.
    reads: u64,
    /// Whether a read that seemed cut by the kernel was whole.
    has_no_rests: bool,
}

/// A range that was read without a gap.
#[derive(Debug)]
pub(in crate::read) struct Extent {
    pub(in crate::read) range: Range<u64>,
    /// Number of its first read, or of the first one after a long pause.
    began: u64,
    /// Number of its latest read.
    pub(in crate::read) used: u64,
    /// Whether a read continued it soon after the one before.
    is_sequential: bool,
    /// Whether some of its bytes were read again, so that further reads of them are likely.
    is_reread: bool,
    /// End of the range that was requested, read-ahead included.
    pub(in crate::read) ahead_end: u64,
    /// Whether its reader has skipped the bytes up to `ahead_end`.
    is_left: bool,
    /// Expected end of the latest read, if the kernel has cut that in two.
    rest_end: Option<u64>,
    /// Read-ahead window of a stream. Boxed, because most extents of a random reader never have
    /// one.
    pub(in crate::read) window: Option<Box<Window>>,
}

/// Relation of a read to the streams of a planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::read) enum StreamFit {
    /// The read begins at a stream's position.
    Continues,
    /// The read begins within a stream's read-ahead.
    IsAhead,
}

impl AccessHistory {
    /// Whether the file was read.
    pub(in crate::read) fn has_begun(&self) -> bool {
        self.reads > 0
    }

    /// Whether the latest read is the first of all.
    pub(in crate::read) fn is_first_read(&self) -> bool {
        self.reads == 1
    }

    /// All extents.
    pub(in crate::read) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.extents.iter()
    }

    /// The extent at `index`, as [`AccessHistory::place`] has just returned it.
    pub(in crate::read) fn at(&self, index: usize) -> &Extent {
        &self.extents[index]
    }

    /// The extent at `index`, mutable.
    pub(in crate::read) fn at_mut(&mut self, index: usize) -> &mut Extent {
        &mut self.extents[index]
    }

    /// Ranges that were requested ahead of each extent and not read yet. Omits extents that their
    /// reader has left long ago.
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

    /// Relation of a read at `start` to the streams.
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

    /// The stream of the previous read, unless `range` begins within its read-ahead.
    pub(in crate::read) fn stream_left_for(&self, range: &Range<u64>) -> Option<&Extent> {
        let mut streams = self.extents.iter().filter(|extent| extent.window.is_some());
        let before = streams.find(|extent| extent.used + 1 == self.reads)?;
        let is_ahead = before.range.end <= range.start && range.start < before.ahead_end;
        (!is_ahead).then_some(before)
    }

    /// Number of streams.
    pub(in crate::read) fn stream_count(&self) -> usize {
        self.extents
            .iter()
            .filter(|extent| extent.window.is_some())
            .count()
    }

    /// Forgets all extents, but not that the file was read.
    pub(in crate::read) fn forget(&mut self) {
        self.extents = Vec::new();
    }

    /// Moves the previous read's window, if it belonged to a stream, to the extent at `index`.
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

    /// Moves a stream's window to the extent at `index`. Its reader must have skipped there within
    /// its read-ahead.
    ///
    /// The kernel does not request pages that it has, so the stream's reader may not have read the
    /// bytes between. They may still be read, as long as reads may arrive out of order. Returns
    /// whether a window was moved.
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

    /// Gives the extent a window. Too many streams end the one that was idle for longest.
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

    /// Start of the next stream behind this one, whose bytes have been read already.
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

    /// Marks the extents at `offset` as read again: their other bytes will probably be read again,
    /// too.
    pub(in crate::read) fn is_reread(&mut self, offset: u64) {
        let extents = self.extents.iter_mut();
        for extent in extents.filter(|extent| extent.range.contains(&offset)) {
            extent.is_reread = true;
        }
    }

    /// Recently read ranges that are long enough to be omitted from read-ahead.
    pub(in crate::read) fn read_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let read_ranges = self
            .extents
            .iter()
            .filter(|extent| self.is_read_range(extent));
        let ranges = read_ranges.map(|extent| extent.range.clone());
        ranges.filter(|range| range.end - range.start >= READ_RANGE_MIN)
    }

    /// The parts of `range`, ahead of the extent at `index`, that no other extent has read
    /// recently.
    pub(in crate::read) fn unread(&self, index: usize, range: Range<u64>) -> Vec<Range<u64>> {
        let end = self.extents[index].range.end;
        self.without(range, |read_range| end < read_range.start)
    }

    /// The parts of `range` that were not read recently.
    pub(in crate::read) fn without_read(&self, range: Range<u64>) -> Vec<Range<u64>> {
        self.without(range, |_| true)
    }

    /// The parts of `range` outside the recently read ranges for which `counts` returns `true`.
    fn without(&self, range: Range<u64>, counts: impl Fn(&Range<u64>) -> bool) -> Vec<Range<u64>> {
        let overlaps = |read: &Range<u64>| read.start < range.end && range.start < read.end;
        let read_ranges = self.read_ranges();
        let mut read_ranges: Vec<_> = read_ranges
            .filter(|read_range| overlaps(read_range) && counts(read_range))
            .collect();
        read_ranges.sort_unstable_by_key(|read_range| read_range.start);
        without(range, read_ranges.into_iter())
    }

    /// Whether some of `range` was read recently.
    pub(in crate::read) fn has_read(&self, range: &Range<u64>) -> bool {
        self.extents.iter().any(|extent| {
            self.is_read_range(extent)
                && extent.range.start < range.end
                && range.start < extent.range.end
        })
    }

    /// Whether the extent's bytes will probably not be read again by a stream that reaches them.
    fn is_read_range(&self, extent: &Extent) -> bool {
        !extent.is_reread
            && (extent.window.is_some() || self.reads - extent.used <= READ_RANGE_AGE_MAX)
    }

    /// Expects the rest of the extent's latest read, up to `end`. `false` after an expected rest
    /// did not arrive: the application's reads are then whole.
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

    /// Whether reads that seem cut are whole.
    pub(in crate::read) fn has_no_rests(&self) -> bool {
        self.has_no_rests
    }

    /// Records a read that is the rest of the previous one: both count as one read. Returns the
    /// index of its extent.
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

    /// Records a read. Returns the index of its extent, and whether it continues that extent as a
    /// stream or often enough not to be chance.
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

    /// A stream that ends within the extent at `index`, which is no stream: its reader skipped the
    /// bytes that had been read there before.
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

    /// The extent that fits `range` best.
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

    /// Adds an extent for a read that continues none.
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

    /// Merges an extent that touches the one at `index` into it. Returns the new index.
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

    /// Merges the extent at `other`, which ends later, into the one at `index`. Returns the new
    /// index.
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
    /// Begins at the extent's end, or overlaps it.
    Continues,
    /// Ends at the extent's start.
    Precedes,
    /// Lies inside the extent.
    Repeats,
}

/// Reads after which the continuation of an extent counts as chance.
const RECENT_READS: u64 = STREAMS_MAX as u64;

/// Shortest run that is worth reading ahead: Linux itself begins with four pages.
const RUN_MIN: u64 = 16 << 10;

/// Number of reads during which read-ahead omits an extent that is no stream: as many as Linux may
/// have in flight at once.
const READ_RANGE_AGE_MAX: u64 = 64;

/// Shortest run of bytes, read out of order, that read-ahead leaves out.
///
/// Shorter ones would splinter requests.
pub(in crate::read) const READ_RANGE_MIN: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::read::plan::access::Access;

    const KIB: u64 = 1 << 10;

    /// Begins and ends of ranges, in KiB.
    type Ranges<'a> = &'a [(u64, u64)];

    /// The history of reads of `ranges`, in KiB.
    fn read(ranges: &[(u64, u64)]) -> AccessHistory {
        let mut history = AccessHistory::default();
        for (start, end) in ranges {
            history.place(&(start * KIB..end * KIB));
        }
        history
    }

    /// Makes the extent that begins at `start` KiB a stream, read ahead up to `ahead` KiB.
    fn stream(history: &mut AccessHistory, start: u64, ahead: u64) {
        let index = index_of(history, start);
        let end = history.at(index).range.end;
        let access = Access {
            range: end - 1..end,
            waits: false,
            is_alone: true,
            now: Duration::ZERO,
            consumed: end,
        };
        let window = Window::open(64 * KIB, end, &access, 64 << 20);
        history.open(index, window);
        history.at_mut(index).ahead_end = ahead * KIB;
    }

    fn index_of(history: &AccessHistory, start: u64) -> usize {
        let mut extents = history.iter();
        let found = extents.position(|extent| extent.range.start == start * KIB);
        found.expect("it was read")
    }

    /// The extents, in KiB, in order.
    fn extents(history: &AccessHistory) -> Vec<(u64, u64)> {
        let ranges = history.iter().map(|extent| &extent.range);
        let mut extents: Vec<_> = ranges
            .map(|range| (range.start / KIB, range.end / KIB))
            .collect();
        extents.sort_unstable();
        extents
    }

    #[test]
    fn reads_make_extents() {
        let cases: [(Ranges<'_>, Ranges<'_>); 8] = [
            (&[(0, 4), (4, 8), (8, 9)], &[(0, 9)]),
            (&[(0, 4), (8, 12)], &[(0, 4), (8, 12)]),
            // In front of one; both touch, and stay apart until one goes on.
            (&[(8, 12), (4, 8)], &[(4, 12)]),
            (&[(0, 4), (8, 12), (4, 8)], &[(0, 12)]),
            // Over the end of one.
            (&[(0, 4), (3, 6)], &[(0, 6)]),
            // Inside one, up to its ends: bytes that are read again.
            (&[(0, 8), (2, 4)], &[(0, 8), (2, 4)]),
            (&[(0, 8), (0, 8)], &[(0, 8), (0, 8)]),
            (&[(0, 8), (0, 8), (8, 9)], &[(0, 8), (0, 9)]),
        ];
        for (reads, expected) in cases {
            assert_eq!(extents(&read(reads)), expected, "{reads:?}");
        }
    }

    #[test]
    fn a_sequence_is_one_that_is_long_and_goes_on_soon() {
        let mut history = AccessHistory::default();
        let mut place = |start: u64, end: u64| history.place(&(start * KIB..end * KIB)).1;
        assert!(!place(0, 8), "the first read");
        assert!(!place(8, 15), "a short one");
        assert!(place(15, 16));
        assert!(!place(100, 200), "the first of another one");
        for other in 1..RECENT_READS {
            assert!(!place(1000 * other, 1000 * other + 1));
        }
        assert!(place(200, 201), "the other reads were few enough");
        assert!(!place(90_000, 90_100));
        for other in 1..=RECENT_READS {
            assert!(!place(91_000 + 1000 * other, 91_000 + 1000 * other + 1));
        }
        assert!(!place(90_100, 90_101), "the other reads were too many");
    }

    #[test]
    fn the_oldest_stream_ends_for_one_too_many() {
        let starts: Vec<u64> = (0..=STREAMS_MAX as u64).map(|it| it * 100).collect();
        let reads: Vec<_> = starts.iter().map(|start| (*start, start + 4)).collect();
        let mut history = read(&reads);
        for start in &starts {
            stream(&mut history, *start, start + 50);
        }
        let is_stream = |extent: &&Extent| extent.window.is_some();
        assert_eq!(history.iter().filter(is_stream).count(), STREAMS_MAX);
        assert_eq!(history.stream_count(), STREAMS_MAX);
        let oldest = history.at(index_of(&history, 0));
        assert!(oldest.window.is_none());
        assert_eq!(oldest.ahead_end, oldest.range.end);
    }

    #[test]
    fn the_oldest_random_read_is_forgotten_and_no_stream() {
        let count = EXTENTS_MAX as u64;
        let reads: Vec<_> = (0..count).map(|it| (it * 100, it * 100 + 4)).collect();
        let mut history = read(&reads);
        stream(&mut history, 0, 50);
        history.place(&(count * 100 * KIB..count * 100 * KIB + 1));
        let left = extents(&history);
        assert_eq!(left.len(), EXTENTS_MAX);
        assert!(left.contains(&(0, 4)), "the stream is there");
        assert!(!left.contains(&(100, 104)), "the oldest other one is not");
    }

    #[test]
    fn reads_are_seen_in_relation_to_streams() {
        let mut history = read(&[(0, 10), (100, 110), (200, 210)]);
        stream(&mut history, 0, 50);
        stream(&mut history, 100, 110);
        let fit = |start: u64| history.fit(start * KIB);
        assert_eq!(fit(10), Some(StreamFit::Continues));
        assert_eq!(fit(11), Some(StreamFit::IsAhead));
        assert_eq!(history.fit(50 * KIB - 1), Some(StreamFit::IsAhead));
        assert_eq!(fit(50), None);
        assert_eq!(fit(9), None);
        assert_eq!(fit(110), Some(StreamFit::Continues));
        assert_eq!(fit(210), None, "that is no stream");
    }

    #[test]
    fn a_jump_leaves_the_stream_before_it_unless_that_has_asked_so_far() {
        let left = |reads: &[(u64, u64)], start: u64| {
            let mut history = read(&[(0, 10)]);
            stream(&mut history, 0, 50);
            for (from, to) in reads {
                history.place(&(from * KIB..to * KIB));
            }
            let range = start * KIB..(start + 1) * KIB;
            history.place(&range);
            history.stream_left_for(&range).is_some()
        };
        assert!(left(&[], 60));
        assert!(left(&[], 50), "behind what was asked for");
        assert!(!left(&[], 49));
        assert!(!left(&[], 20));
        assert!(!left(&[(100, 101)], 200), "another read was between");
    }

    #[test]
    fn a_stream_moves_to_a_read_within_its_read_ahead() {
        let moved = |start: u64| {
            let mut history = read(&[(0, 10), (start, start + 4)]);
            stream(&mut history, 0, 50);
            let index = index_of(&history, start);
            let moved = history.move_on(index);
            let ahead = |start| history.at(index_of(&history, start)).ahead_end / KIB;
            let is_stream = history.at(index).window.is_some();
            assert_eq!(moved, is_stream);
            (moved, ahead(0), ahead(start))
        };
        assert_eq!(moved(20), (true, 20, 50));
        assert_eq!(moved(49), (true, 49, 53));
        assert_eq!(moved(50), (false, 50, 54), "nothing was asked for there");
    }

    #[test]
    fn a_stream_that_began_later_does_not_move() {
        let mut history = read(&[(20, 24), (0, 10)]);
        stream(&mut history, 0, 50);
        let index = index_of(&history, 20);
        assert!(!history.move_on(index));
    }

    #[test]
    fn a_stream_ends_where_the_next_begins() {
        let mut history = read(&[(0, 10), (10_000, 10_010), (500, 510), (300, 310)]);
        for start in [0, 500, 10_000] {
            stream(&mut history, start, start + 20);
        }
        let next = |history: &AccessHistory, start: u64| {
            let index = index_of(history, start);
            history.next_stream_start(index) / KIB
        };
        assert_eq!(next(&history, 0), 500, "the one at 300 is no stream");
        assert_eq!(next(&history, 500), 10_000);
        assert_eq!(next(&history, 10_000), u64::MAX / KIB);
        history.is_reread(505 * KIB);
        assert_eq!(next(&history, 0), 10_000, "its bytes will be read again");
    }

    #[test]
    fn what_was_read_lately_is_left_out() {
        let mut history = read(&[(0, 64), (200, 263), (400, 464)]);
        let whole = 0..1000 * KIB;
        let kib = |ranges: Vec<Range<u64>>| -> Vec<_> {
            let in_kib = ranges.iter().map(|it| (it.start / KIB, it.end / KIB));
            in_kib.collect()
        };
        let unread = kib(history.without_read(whole.clone()));
        assert_eq!(unread, [(64, 400), (464, 1000)], "short ones do not count");
        let first = index_of(&history, 0);
        let ahead = kib(history.unread(first, 0..1000 * KIB));
        assert_eq!(ahead, [(0, 400), (464, 1000)]);
        for (at, is_read) in [(63, true), (64, false), (199, false), (262, true)] {
            let range = at * KIB..(at + 1) * KIB;
            assert_eq!(history.has_read(&range), is_read, "{at}");
        }
        history.is_reread(10 * KIB);
        assert!(!history.has_read(&(0..KIB)));
        // Long ago.
        for other in 0..READ_RANGE_AGE_MAX {
            history.place(&((5000 + other) * KIB..(5001 + other) * KIB));
        }
        assert!(history.has_read(&(400 * KIB..401 * KIB)));
        history.place(&(9000 * KIB..9001 * KIB));
        assert!(!history.has_read(&(400 * KIB..401 * KIB)));
    }
}
