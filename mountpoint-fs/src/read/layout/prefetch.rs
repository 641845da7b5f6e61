//! Prefetch of short reads at the offsets where the previous file was read.
//!
//! Pure. A program that reads the heads of many files of one layout makes the same jumps in each:
//! to tables, groups and attributes. A jump does not predict the next one, but the previous file
//! does. After a jump to an offset of the previous file the next offsets are read ahead: one, then
//! twice as many after each further match, so that waste hardly exceeds gain. After matches in
//! several files, all are read ahead from the first read on.
//! [`LayoutCache`](super::cache::LayoutCache) chooses the previous file.
//!
//! Invariant: at most [`LAYOUT_AHEAD_MAX`] ranges, of at most [`LAYOUT_AHEAD_BYTES_MAX`] bytes in
//! total, are requested and not read.

use std::ops::Range;
use std::sync::Arc;

use crate::config::limits::SMALL_FILE_MAX;
use crate::read::plan::{Access, AccessKind, BlockMap, Bounds, Planner, ReadPlan};
use crate::store_distance::StoreDistance;

/// The short jumps in one file, in order.
pub(in crate::read) type Layout = Vec<Range<u64>>;

/// The layout of the previous file, and the confidence in it.
#[derive(Clone, Debug, Default)]
pub(in crate::read) struct KnownLayout {
    pub(in crate::read) layout: Arc<Layout>,
    pub(in crate::read) confidence: Confidence,
}

/// Whether files of one kind are read like the previous one. Rises by one with each file that is,
/// and falls by two with each that is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::read) struct Confidence(i8);

impl Confidence {
    /// The confidence after a file in which `read` of `asked` prefetched ranges were read.
    fn after(self, asked: usize, read: usize) -> Self {
        if asked == 0 {
            self
        } else if read * 4 >= asked * 3 {
            Self((self.0 + 1).min(CONFIDENCE_MAX))
        } else {
            Self((self.0 - 2).max(-CONFIDENCE_MAX))
        }
    }

    /// Whether the whole layout may be prefetched at once.
    fn is_sure(self) -> bool {
        self.0 >= CONFIDENCE_SURE
    }

    /// Matching jumps in a row before any prefetch.
    fn steps_min(self) -> usize {
        if self.0 < 0 { STEPS_DOUBTED } else { 1 }
    }
}

/// State of an open file; `None` until there is a jump to record or a layout to follow.
#[derive(Debug, Default)]
pub(in crate::read) struct LayoutPrefetch(Option<Box<LayoutFollower>>);

impl LayoutPrefetch {
    /// Compares the file's reads with the previous file's layout, from the first read on.
    pub(in crate::read) fn expect(&mut self, known: KnownLayout) {
        self.0 = Some(Box::new(LayoutFollower::new(known)));
    }

    /// Adds the ranges to a read's plan that the previous file's layout predicts.
    pub(in crate::read) fn extend<T>(
        &mut self,
        plan: &mut ReadPlan,
        planner: &Planner,
        access: &Access,
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
    ) {
        let had_ahead = self.has_ahead();
        let foretold = self.propose(plan, access, bounds);
        plan.is_time_to_retire |= had_ahead && !self.has_ahead();
        if !foretold.is_empty() {
            planner.ask_elsewhere(plan, foretold, blocks, bounds);
        }
    }

    /// Ranges to prefetch, most urgent first. None for a file that is fetched whole, or if the
    /// store is local.
    fn propose(
        &mut self,
        plan: &ReadPlan,
        access: &Access,
        bounds: &Bounds<'_>,
    ) -> Vec<Range<u64>> {
        let kind = plan.kind;
        let is_idle = kind == AccessKind::GoesOn && self.0.is_none();
        if is_idle || kind == AccessKind::Rest || bounds.size <= SMALL_FILE_MAX {
            return Vec::new();
        }
        let distance = bounds.min_latencies.distance(access.now);
        if distance == Some(StoreDistance::Local) {
            return Vec::new();
        }
        let is_begun = kind == AccessKind::First && is_quick(access, bounds);
        let follower = self.0.as_mut().filter(|_| is_begun);
        let mut asked = follower.map_or_else(Vec::new, |follower| follower.begin());
        asked.extend(self.read(kind, &access.range, !plan.demand.is_empty()));
        if distance.is_none() && !asked.is_empty() {
            self.stop();
            asked.clear();
        }
        asked
    }

    /// Shows a read; `missed` if some of its bytes were not requested yet. Returns the ranges to
    /// prefetch, most urgent first.
    fn read(&mut self, kind: AccessKind, range: &Range<u64>, missed: bool) -> Vec<Range<u64>> {
        let is_jump = kind == AccessKind::Jump || (kind == AccessKind::First && range.start > 0);
        let is_short = range.end - range.start < LAYOUT_READ_MAX;
        let foretold = self.0.as_mut().is_some_and(|follower| follower.pass(range));
        // A read within a stream's read-ahead needs no GET of its own, and so no prefetch the next
        // time.
        if is_jump && is_short && (missed || foretold) {
            let follower = self.0.get_or_insert_default();
            follower.jump(range, foretold)
        } else {
            Vec::new()
        }
    }

    /// Stops the prefetch: memory was short, or the blocks were dropped.
    pub(in crate::read) fn stop(&mut self) {
        if let Some(follower) = &mut self.0 {
            follower.stop();
        }
    }

    /// Ranges that were prefetched and not read yet.
    pub(in crate::read) fn asked_ahead(&self) -> impl Iterator<Item = Range<u64>> {
        let follower = self.0.iter();
        follower.flat_map(|follower| follower.ahead.iter().cloned())
    }

    /// Whether ranges are prefetched.
    fn has_ahead(&self) -> bool {
        let follower = self.0.as_ref();
        follower.is_some_and(|follower| !follower.ahead.is_empty())
    }

    /// Ends with the file. Returns the layout for the next file of its kind, if there is one.
    pub(in crate::read) fn finish(&mut self) -> Option<KnownLayout> {
        self.0.take()?.finish()
    }
}

/// The jumps of one open file, compared with those of the previous file.
#[derive(Debug, Default)]
struct LayoutFollower {
    before: KnownLayout,
    /// Index of the next expected jump in the previous layout.
    next: usize,
    /// Number of matching jumps in a row.
    steps: usize,
    /// Number of jumps to prefetch from `next` on.
    depth: usize,
    /// Index in the previous layout up to which all jumps were prefetched.
    asked_until: usize,
    /// Ranges that were prefetched and not read yet, in order.
    ahead: Vec<Range<u64>>,
    asked: usize,
    read: usize,
    noted: Layout,
    /// Whether a jump did not match: the new layout then replaces the previous one.
    is_other: bool,
}

impl LayoutFollower {
    fn new(before: KnownLayout) -> Self {
        Self {
            before,
            ..Self::default()
        }
    }

    /// Shows the beginning of the file. Returns the ranges to prefetch at once.
    fn begin(&mut self) -> Vec<Range<u64>> {
        if !self.before.confidence.is_sure() {
            return Vec::new();
        }
        self.depth = LAYOUT_AHEAD_MAX;
        self.ask()
    }

    /// Shows a short jump; `foretold` if some of its bytes were prefetched. Returns the ranges to
    /// prefetch, most urgent first.
    fn jump(&mut self, range: &Range<u64>, foretold: bool) -> Vec<Range<u64>> {
        self.note(range);
        let from = self.next.saturating_sub(BACK_MAX);
        let until = (self.next + FORTH_MAX).min(self.before.layout.len());
        let mut near = self.before.layout[from.min(until)..until].iter();
        let Some(place) = near.position(|before| before.start == range.start) else {
            if !foretold {
                self.steps = 0;
                self.depth = 0;
                self.is_other = true;
            }
            return Vec::new();
        };
        self.next = self.next.max(from + place + 1);
        self.steps += 1;
        if self.steps < self.before.confidence.steps_min() {
            return Vec::new();
        }
        self.depth = if self.before.confidence.is_sure() {
            LAYOUT_AHEAD_MAX
        } else {
            (self.depth * 2).clamp(1, LAYOUT_AHEAD_MAX)
        };
        self.ask()
    }

    /// Shows any read. Returns whether some of its bytes were prefetched.
    fn pass(&mut self, range: &Range<u64>) -> bool {
        let count = self.ahead.len();
        self.ahead
            .retain(|ahead| ahead.end <= range.start || range.end <= ahead.start);
        let read = count - self.ahead.len();
        self.read += read;
        read > 0
    }

    fn note(&mut self, range: &Range<u64>) {
        if self.noted.len() < LAYOUT_READS_MAX {
            self.noted.push(range.clone());
        }
    }

    fn ask(&mut self) -> Vec<Range<u64>> {
        let layout = &self.before.layout;
        let until = (self.next + self.depth).min(layout.len());
        let mut room = LAYOUT_AHEAD_BYTES_MAX.saturating_sub(bytes(&self.ahead));
        let mut asked = Vec::new();
        self.asked_until = self.asked_until.max(self.next);
        while self.asked_until < until && self.ahead.len() < LAYOUT_AHEAD_MAX {
            let range = &layout[self.asked_until];
            let len = range.end - range.start;
            if room < len {
                break;
            }
            self.asked_until += 1;
            if self.noted.contains(range) || self.ahead.contains(range) {
                continue;
            }
            room -= len;
            self.asked += 1;
            self.ahead.push(range.clone());
            asked.push(range.clone());
        }
        asked
    }

    /// Stops the prefetch: memory was short, or the blocks were dropped.
    fn stop(&mut self) {
        self.asked -= self.ahead.len();
        self.ahead = Vec::new();
        self.depth = 0;
    }

    /// Returns the layout for the next file of its kind. A file with fewer jumps than the previous
    /// one keeps the previous layout, and so does one with too many jumps for a layout.
    fn finish(self) -> Option<KnownLayout> {
        let confidence = self.before.confidence.after(self.asked, self.read);
        let is_layout = (LAYOUT_READS_MIN..LAYOUT_READS_MAX).contains(&self.noted.len());
        let is_more = self.is_other || self.noted.len() > self.before.layout.len();
        let layout = if is_layout && is_more {
            Arc::new(self.noted)
        } else {
            self.before.layout
        };
        (!layout.is_empty()).then_some(KnownLayout { layout, confidence })
    }
}

/// Whether many short ranges at once take hardly longer than one, as far as is known.
fn is_quick(access: &Access, bounds: &Bounds<'_>) -> bool {
    let first_byte = bounds.min_latencies.first_byte(access.now);
    let whole = bounds.min_latencies.of(LAYOUT_AHEAD_BYTES_MAX, access.now);
    first_byte
        .zip(whole)
        .is_none_or(|(first_byte, whole)| whole <= first_byte * 3)
}

fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Fewer jumps are no layout.
const LAYOUT_READS_MIN: usize = 2;

/// Jumps behind and in front of the expected one that also match: a reader skips some, and the
/// kernel reorders them.
const BACK_MAX: usize = 4;
const FORTH_MAX: usize = 8;

/// Matching files in a row before the whole layout is prefetched at once.
const CONFIDENCE_SURE: i8 = 2;
const CONFIDENCE_MAX: i8 = 3;

/// Matching jumps in a row that are needed after files that did not match.
const STEPS_DOUBTED: usize = 3;

/// Longest read that belongs to a file's layout: a table, a group, an attribute, not data.
const LAYOUT_READ_MAX: u64 = 64 << 10;

/// Largest number of reads of a file's layout; a file with more is a database.
///
/// Each open file that is read so takes 16 bytes for each.
const LAYOUT_READS_MAX: usize = 512;

/// Ranges fetched ahead because the file before was read there.
///
/// At 20 ms a request, the heads of most files have fewer.
const LAYOUT_AHEAD_MAX: usize = 32;

/// Bytes of such ranges that one open file holds.
const LAYOUT_AHEAD_BYTES_MAX: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges of 4 KiB each, by their offset in KiB.
    fn layout(places: &[u64]) -> Layout {
        places.iter().map(|place| at(*place)).collect()
    }

    fn at(place: u64) -> Range<u64> {
        place << 10..(place + 4) << 10
    }

    /// Reads a file after one with the layout `before`. Returns the prefetch after each jump, as
    /// offsets.
    fn read(before: &KnownLayout, jumps: &[u64]) -> (Vec<Vec<u64>>, Option<KnownLayout>) {
        let mut follower = LayoutFollower::new(before.clone());
        let places = |asked: Vec<Range<u64>>| asked.iter().map(|range| range.start >> 10).collect();
        let mut all = vec![places(follower.begin())];
        all.extend(
            jumps
                .iter()
                .map(|place| places(jump(&mut follower, *place))),
        );
        (all, follower.finish())
    }

    fn jump(follower: &mut LayoutFollower, place: u64) -> Vec<Range<u64>> {
        let foretold = follower.pass(&at(place));
        follower.jump(&at(place), foretold)
    }

    fn before(places: &[u64], confidence: i8) -> KnownLayout {
        let (layout, confidence) = (Arc::new(layout(places)), Confidence(confidence));
        KnownLayout { layout, confidence }
    }

    #[test]
    fn twice_as_many_with_each_jump_that_comes_true() {
        let places = [900, 100, 500, 300, 700, 200, 800, 400];
        let (asked, after) = read(&before(&places, 0), &places);
        let expected: [&[u64]; 9] = [
            &[],
            &[100],
            &[500, 300],
            &[700, 200, 800, 400][..3],
            &[400],
            &[],
            &[],
            &[],
            &[],
        ];
        assert_eq!(asked, expected);
        assert_eq!(after.unwrap().confidence, Confidence(1));
    }

    #[test]
    fn all_at_once_where_files_before_kept_to_it() {
        let places = [900, 100, 500, 300];
        let (asked, after) = read(&before(&places, CONFIDENCE_SURE), &places);
        assert_eq!(asked[0], places);
        assert!(asked[1..].iter().all(Vec::is_empty));
        assert_eq!(after.unwrap().confidence, Confidence(CONFIDENCE_SURE + 1));
    }

    #[test]
    fn who_goes_elsewhere_is_asked_nothing_for_and_makes_the_next_one_doubt() {
        let places = [900, 100, 500, 300];
        let (asked, after) = read(&before(&places, 0), &[900, 150, 550, 350]);
        assert_eq!(asked, [vec![], vec![100], vec![], vec![], vec![]]);
        let after = after.unwrap();
        assert_eq!(
            (&*after.layout, after.confidence),
            (&layout(&[900, 150, 550, 350]), Confidence(-2))
        );
        let (asked, after) = read(&after, &[900, 150, 550, 350]);
        assert_eq!(asked, [vec![], vec![], vec![], vec![350], vec![]]);
        assert_eq!(after.unwrap().confidence, Confidence(-1));
    }

    #[test]
    fn what_is_left_out_or_comes_in_another_order_is_no_surprise() {
        let places = [900, 100, 500, 300, 700, 200];
        let (asked, after) = read(
            &before(&places, CONFIDENCE_SURE),
            &[100, 900, 500, 700, 200],
        );
        assert_eq!(asked[0], places);
        assert!(asked[1..].iter().all(Vec::is_empty));
        let after = after.unwrap();
        assert_eq!(
            (&*after.layout, after.confidence),
            (&layout(&places), Confidence(CONFIDENCE_SURE + 1))
        );
    }

    #[test]
    fn what_is_asked_for_has_a_bound() {
        let places: Vec<_> = (0..200).map(|number| number * 37 % 200 * 100).collect();
        let mut follower = LayoutFollower::new(before(&places, CONFIDENCE_SURE));
        assert_eq!(follower.begin().len(), LAYOUT_AHEAD_MAX);
        for (number, place) in places.iter().enumerate() {
            assert!(follower.ahead.contains(&at(*place)), "{number}");
            jump(&mut follower, *place);
            assert!(follower.ahead.len() <= LAYOUT_AHEAD_MAX);
        }
        assert!(follower.ahead.is_empty());
        let long: Layout = (0..40)
            .map(|number| number << 20..(number << 20) + (60 << 10))
            .collect();
        let mut follower = LayoutFollower::new(KnownLayout {
            layout: Arc::new(long),
            confidence: Confidence(CONFIDENCE_SURE),
        });
        assert!(bytes(&follower.begin()) <= LAYOUT_AHEAD_BYTES_MAX);
    }

    #[test]
    fn too_many_places_are_no_layout() {
        let places: Vec<_> = (0..LAYOUT_READS_MAX as u64)
            .map(|number| number * 37 % 512 * 8)
            .collect();
        assert!(read(&KnownLayout::default(), &places).1.is_none());
        assert!(read(&KnownLayout::default(), &places[1..]).1.is_some());
        assert!(read(&KnownLayout::default(), &[7]).1.is_none());
    }

    #[test]
    fn what_could_not_be_had_is_not_held_against_it() {
        let mut follower = LayoutFollower::new(before(&[900, 100, 500], 1));
        assert_eq!(jump(&mut follower, 900), [at(100)]);
        follower.stop();
        assert!(!follower.ahead.contains(&at(100)));
        assert_eq!(follower.finish().unwrap().confidence, Confidence(1));
    }
}
