//! Short reads of a file that go where those of the file before it went.
//!
//! Pure. Who reads the heads of many files of one layout makes the same jumps in each: to the places of tables, groups
//! and attributes. No jump says where the next will be, but the file before does. So the short jumps of an open file are
//! noted, and one that goes where one of the file before went has the next ones asked for ahead: one, and twice as many
//! with each that comes true, so that little more is ever wasted than was won; or all at once, from the first read of the
//! file on, where those of several files before came true. Which file is the one before is for
//! [`Traces`](super::cache::Traces) to know.
//!
//! Invariant: at most [`REPLAY_AHEAD_MAX`] ranges, of [`REPLAY_BYTES_MAX`] bytes together, are asked for and not read.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::config::limits::{
    REPLAY_AHEAD_MAX, REPLAY_BYTES_MAX, SMALL_FILE_MAX, TRACE_READ_MAX, TRACE_READS_MAX,
};
use crate::read::plan::is_apart;
use crate::read::plan::{Access, Bounds};

/// The short jumps that were made in one file, in their order.
pub(in crate::read) type Trace = Vec<Range<u64>>;

/// What is known of the files before.
#[derive(Clone, Debug, Default)]
pub(in crate::read) struct Before {
    pub(in crate::read) trace: Arc<Trace>,
    pub(in crate::read) trust: Trust,
}

/// Whether files of one kind go where the one before went: up by one with each that does, down by two with each that does
/// not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::read) struct Trust(i8);

impl Trust {
    /// So many ranges were asked for ahead, and so many of them were read.
    fn after(self, asked: usize, read: usize) -> Self {
        if asked == 0 {
            self
        } else if read * 4 >= asked * 3 {
            Self((self.0 + 1).min(TRUST_MAX))
        } else {
            Self((self.0 - 2).max(-TRUST_MAX))
        }
    }

    /// Whether all may be asked for at once.
    fn is_sure(self) -> bool {
        self.0 >= TRUST_SURE
    }

    /// Jumps in a row that must go where one of the file before went.
    fn steps_min(self) -> usize {
        if self.0 < 0 { STEPS_DOUBTED } else { 1 }
    }
}

/// What an open file has of this: nothing, until there is something to note or to follow.
#[derive(Debug, Default)]
pub(in crate::read) struct Replays(Option<Box<Replay>>);

/// What a read is to the reads before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum Kind {
    /// There were none.
    First,
    /// It continues one.
    GoesOn,
    /// It continues none.
    Jump,
}

impl Replays {
    /// A read; `missed` if some of its bytes were not asked for. Returns what to ask for because the file before was read
    /// there, most urgent first: nothing where the store is near.
    pub(in crate::read) fn read(
        &mut self,
        kind: Kind,
        missed: bool,
        access: &Access,
        bounds: &Bounds<'_>,
    ) -> Vec<Range<u64>> {
        if kind == Kind::GoesOn && self.0.is_none() {
            return Vec::new();
        }
        let range = &access.range;
        let distance = bounds.least_delays.first_byte(access.now);
        if bounds.size <= SMALL_FILE_MAX || distance.is_some_and(|distance| !is_apart(distance)) {
            return Vec::new();
        }
        let mut asked = Vec::new();
        let first = bounds.traces.filter(|_| kind == Kind::First);
        if let Some(before) = first.and_then(|(traces, key)| traces.before(key, bounds.size)) {
            let replay = self.0.insert(Box::new(Replay::new(before)));
            if is_quick(distance, access, bounds) {
                asked = replay.begin();
            }
        }
        let is_jump = kind == Kind::Jump || (kind == Kind::First && range.start > 0);
        let is_short = range.end - range.start < TRACE_READ_MAX;
        let foretold = self.0.as_mut().is_some_and(|replay| replay.pass(range));
        // What a stream had asked for takes no GET of its own, and needs none the next time.
        if is_jump && is_short && (missed || foretold) {
            let replay = self.0.get_or_insert_default();
            asked.extend(replay.jump(range, foretold));
        }
        if distance.is_none() && !asked.is_empty() {
            self.stop();
            asked.clear();
        }
        asked
    }

    /// See [`Replay::stop`].
    pub(in crate::read) fn stop(&mut self) {
        if let Some(replay) = &mut self.0 {
            replay.stop();
        }
    }

    /// What was asked for ahead and not read.
    pub(in crate::read) fn asked_ahead(&self) -> impl Iterator<Item = Range<u64>> {
        let replay = self.0.iter();
        replay.flat_map(|replay| replay.ahead.iter().cloned())
    }

    /// Whether anything is asked for ahead.
    pub(in crate::read) fn has_ahead(&self) -> bool {
        let replay = self.0.as_ref();
        replay.is_some_and(|replay| !replay.ahead.is_empty())
    }

    /// The file is closed. What the next one of its kind is to know, if there is something.
    pub(in crate::read) fn finish(&mut self) -> Option<Before> {
        self.0.take()?.finish()
    }
}

/// Whether the network brings many short ranges at once in about the time of one, as far as is known.
fn is_quick(distance: Option<Duration>, access: &Access, bounds: &Bounds<'_>) -> bool {
    let whole = bounds.least_delays.of(REPLAY_BYTES_MAX, access.now);
    distance
        .zip(whole)
        .is_none_or(|(distance, whole)| whole <= distance * 3)
}

/// The jumps of one open file, beside those of the file before.
#[derive(Debug, Default)]
struct Replay {
    before: Before,
    /// Place in the trace before that the next jump is expected at.
    next: usize,
    /// Jumps in a row that were expected.
    steps: usize,
    /// How many are to be asked for beyond `next`.
    depth: usize,
    /// Place in the trace before up to which all was asked for.
    asked_until: usize,
    /// Asked for and not read, in order.
    ahead: Vec<Range<u64>>,
    asked: usize,
    read: usize,
    noted: Trace,
    /// More jumps than are noted, or one that was not expected: what is noted says more than what was before.
    is_other: bool,
}

impl Replay {
    fn new(before: Before) -> Self {
        Self {
            before,
            ..Self::default()
        }
    }

    /// The first read of the file. Returns what to ask for ahead at once.
    fn begin(&mut self) -> Vec<Range<u64>> {
        if !self.before.trust.is_sure() {
            return Vec::new();
        }
        self.depth = REPLAY_AHEAD_MAX;
        self.ask()
    }

    /// A short jump; `foretold` if some of its bytes were asked for ahead. Returns what to ask for ahead, most urgent first.
    fn jump(&mut self, range: &Range<u64>, foretold: bool) -> Vec<Range<u64>> {
        self.note(range);
        let from = self.next.saturating_sub(BACK_MAX);
        let until = (self.next + FORTH_MAX).min(self.before.trace.len());
        let mut near = self.before.trace[from.min(until)..until].iter();
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
        if self.steps < self.before.trust.steps_min() {
            return Vec::new();
        }
        self.depth = if self.before.trust.is_sure() {
            REPLAY_AHEAD_MAX
        } else {
            (self.depth * 2).clamp(1, REPLAY_AHEAD_MAX)
        };
        self.ask()
    }

    /// A read of whatever kind. Whether some of its bytes were asked for ahead.
    fn pass(&mut self, range: &Range<u64>) -> bool {
        let count = self.ahead.len();
        self.ahead
            .retain(|ahead| ahead.end <= range.start || range.end <= ahead.start);
        let read = count - self.ahead.len();
        self.read += read;
        read > 0
    }

    fn note(&mut self, range: &Range<u64>) {
        if self.noted.len() < TRACE_READS_MAX {
            self.noted.push(range.clone());
        }
    }

    fn ask(&mut self) -> Vec<Range<u64>> {
        let trace = &self.before.trace;
        let until = (self.next + self.depth).min(trace.len());
        let mut room = REPLAY_BYTES_MAX.saturating_sub(bytes(&self.ahead));
        let mut asked = Vec::new();
        self.asked_until = self.asked_until.max(self.next);
        while self.asked_until < until && self.ahead.len() < REPLAY_AHEAD_MAX {
            let range = &trace[self.asked_until];
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

    /// What was asked for ahead is not held any more, or could not be had.
    fn stop(&mut self) {
        self.asked -= self.ahead.len();
        self.ahead = Vec::new();
        self.depth = 0;
    }

    /// What the next file of its kind is to know. A file that was read less far than the one before says nothing new, and
    /// one that was read at too many places for a layout says nothing at all.
    fn finish(self) -> Option<Before> {
        let trust = self.before.trust.after(self.asked, self.read);
        let is_trace = (TRACE_READS_MIN..TRACE_READS_MAX).contains(&self.noted.len());
        let is_more = self.is_other || self.noted.len() > self.before.trace.len();
        let trace = if is_trace && is_more {
            Arc::new(self.noted)
        } else {
            self.before.trace
        };
        (!trace.is_empty()).then_some(Before { trace, trust })
    }
}

fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Fewer jumps are no layout.
const TRACE_READS_MIN: usize = 2;

/// Places of the trace before, behind the one that is expected and before it, at which a jump is no surprise: a reader
/// leaves some out, and the kernel changes their order.
const BACK_MAX: usize = 4;
const FORTH_MAX: usize = 8;

/// Files of one kind that must have gone where the one before went for the next one to be asked for at once.
const TRUST_SURE: i8 = 2;
const TRUST_MAX: i8 = 3;

/// Jumps in a row that must be expected where files of this kind went elsewhere before.
const STEPS_DOUBTED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Places in KiB, of 4 KiB each.
    fn trace(places: &[u64]) -> Trace {
        places.iter().map(|place| at(*place)).collect()
    }

    fn at(place: u64) -> Range<u64> {
        place << 10..(place + 4) << 10
    }

    /// Reads a file like one of trace `before`; what each jump asks for, as places.
    fn read(before: &Before, jumps: &[u64]) -> (Vec<Vec<u64>>, Option<Before>) {
        let mut replay = Replay::new(before.clone());
        let places = |asked: Vec<Range<u64>>| asked.iter().map(|range| range.start >> 10).collect();
        let mut all = vec![places(replay.begin())];
        all.extend(jumps.iter().map(|place| places(jump(&mut replay, *place))));
        (all, replay.finish())
    }

    fn jump(replay: &mut Replay, place: u64) -> Vec<Range<u64>> {
        let foretold = replay.pass(&at(place));
        replay.jump(&at(place), foretold)
    }

    fn before(places: &[u64], trust: i8) -> Before {
        let (trace, trust) = (Arc::new(trace(places)), Trust(trust));
        Before { trace, trust }
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
        assert_eq!(after.unwrap().trust, Trust(1));
    }

    #[test]
    fn all_at_once_where_files_before_kept_to_it() {
        let places = [900, 100, 500, 300];
        let (asked, after) = read(&before(&places, TRUST_SURE), &places);
        assert_eq!(asked[0], places);
        assert!(asked[1..].iter().all(Vec::is_empty));
        assert_eq!(after.unwrap().trust, Trust(TRUST_SURE + 1));
    }

    #[test]
    fn who_goes_elsewhere_is_asked_nothing_for_and_makes_the_next_one_doubt() {
        let places = [900, 100, 500, 300];
        let (asked, after) = read(&before(&places, 0), &[900, 150, 550, 350]);
        assert_eq!(asked, [vec![], vec![100], vec![], vec![], vec![]]);
        let after = after.unwrap();
        assert_eq!(
            (&*after.trace, after.trust),
            (&trace(&[900, 150, 550, 350]), Trust(-2))
        );
        let (asked, after) = read(&after, &[900, 150, 550, 350]);
        assert_eq!(asked, [vec![], vec![], vec![], vec![350], vec![]]);
        assert_eq!(after.unwrap().trust, Trust(-1));
    }

    #[test]
    fn what_is_left_out_or_comes_in_another_order_is_no_surprise() {
        let places = [900, 100, 500, 300, 700, 200];
        let (asked, after) = read(&before(&places, TRUST_SURE), &[100, 900, 500, 700, 200]);
        assert_eq!(asked[0], places);
        assert!(asked[1..].iter().all(Vec::is_empty));
        let after = after.unwrap();
        assert_eq!(
            (&*after.trace, after.trust),
            (&trace(&places), Trust(TRUST_SURE + 1))
        );
    }

    #[test]
    fn what_is_asked_for_has_a_bound() {
        let places: Vec<_> = (0..200).map(|number| number * 37 % 200 * 100).collect();
        let mut replay = Replay::new(before(&places, TRUST_SURE));
        assert_eq!(replay.begin().len(), REPLAY_AHEAD_MAX);
        for (number, place) in places.iter().enumerate() {
            assert!(replay.ahead.contains(&at(*place)), "{number}");
            jump(&mut replay, *place);
            assert!(replay.ahead.len() <= REPLAY_AHEAD_MAX);
        }
        assert!(replay.ahead.is_empty());
        let long: Trace = (0..40)
            .map(|number| number << 20..(number << 20) + (60 << 10))
            .collect();
        let mut replay = Replay::new(Before {
            trace: Arc::new(long),
            trust: Trust(TRUST_SURE),
        });
        assert!(bytes(&replay.begin()) <= REPLAY_BYTES_MAX);
    }

    #[test]
    fn too_many_places_are_no_layout() {
        let places: Vec<_> = (0..TRACE_READS_MAX as u64)
            .map(|number| number * 37 % 512 * 8)
            .collect();
        assert!(read(&Before::default(), &places).1.is_none());
        assert!(read(&Before::default(), &places[1..]).1.is_some());
        assert!(read(&Before::default(), &[7]).1.is_none());
    }

    #[test]
    fn what_could_not_be_had_is_not_held_against_it() {
        let mut replay = Replay::new(before(&[900, 100, 500], 1));
        assert_eq!(jump(&mut replay, 900), [at(100)]);
        replay.stop();
        assert!(!replay.ahead.contains(&at(100)));
        assert_eq!(replay.finish().unwrap().trust, Trust(1));
    }
}
