//! Where reads of one open file have been.
//!
//! Pure. A track is bytes that were read without a gap; a read that begins where one ends continues it. Reads that
//! arrive out of order make tracks of their own, which merge as soon as they touch, so the kernel's reordering
//! needs no special case. A track that is continued becomes a stream when the planner gives it a window.
//!
//! Invariant: at most `TRACKS_MAX` tracks; a read belongs to exactly one.

use std::ops::Range;

use super::block_map::without;
use super::window::Window;
use crate::config::limits::{ISLAND_MIN, STREAMS_MAX, TRACKS_MAX};
use crate::read::object::Fit as StreamFit;

/// The tracks of one open file.
#[derive(Debug, Default)]
pub(in crate::read) struct Tracks {
    tracks: Vec<Track>,
    /// Reads so far: the time of tracks.
    reads: u64,
    /// How many of the latest reads continued nothing, fading as others do.
    strays: u8,
    /// A read that looked as if the kernel had cut it was whole.
    has_no_rests: bool,
}

/// Bytes that were read without a gap.
#[derive(Debug)]
pub(in crate::read) struct Track {
    pub(in crate::read) range: Range<u64>,
    /// Number of its first read, or of the one that came to it after a long while.
    began: u64,
    /// Number of its latest read.
    pub(in crate::read) used: u64,
    /// Reads that continued it forwards.
    steps: u8,
    /// Some of its bytes were read again: having been read says no longer that they will not be.
    is_reread: bool,
    /// Everything before it was asked for.
    pub(in crate::read) ahead_end: u64,
    /// Its reader has moved on, and left out what is until `ahead_end`.
    is_left: bool,
    /// Where the rest of its latest read ends, if the kernel has cut that in two.
    rest_end: Option<u64>,
    /// How far to ask ahead, if it is a stream. Boxed, because most tracks of a random reader never are.
    pub(in crate::read) window: Option<Box<Window>>,
}

impl Tracks {
    /// Whether this is the first read of all.
    pub(in crate::read) fn is_first_read(&self) -> bool {
        self.reads == 1
    }

    /// Whether many of the latest reads continued nothing.
    pub(in crate::read) fn is_straying(&self) -> bool {
        self.strays > STRAYS_MAX / 2
    }

    /// All of them.
    pub(in crate::read) fn iter(&self) -> impl Iterator<Item = &Track> {
        self.tracks.iter()
    }

    /// The track at an index that [`Tracks::place`] returned last.
    pub(in crate::read) fn at(&self, index: usize) -> &Track {
        &self.tracks[index]
    }

    /// The same, to be changed.
    pub(in crate::read) fn at_mut(&mut self, index: usize) -> &mut Track {
        &mut self.tracks[index]
    }

    /// What was asked for ahead of each track and not read yet, but for those that their reader has left long ago.
    pub(in crate::read) fn asked_ahead(&self) -> impl Iterator<Item = Range<u64>> {
        let is_given_up = |track: &Track| track.is_left && self.reads - track.used > ISLAND_AGE_MAX;
        let tracks = self.tracks.iter().filter(move |track| !is_given_up(track));
        let ahead = tracks.map(|track| track.range.end..track.ahead_end);
        ahead.filter(|range| range.start < range.end)
    }

    /// Where those are who will likely read on: the streams, who has read nothing but the beginning, and who has not begun.
    pub(in crate::read) fn goes_on_from(&self) -> impl Iterator<Item = u64> {
        let goes_on = |track: &&Track| track.window.is_some() || track.range.start == 0;
        let tracks = self.tracks.iter().filter(goes_on);
        let begins = (self.reads == 0).then_some(0);
        tracks.map(|track| track.range.end).chain(begins)
    }

    /// How well a read that begins at `start` fits to a stream.
    pub(in crate::read) fn fit(&self, start: u64) -> Option<StreamFit> {
        let streams = self.tracks.iter().filter(|track| track.window.is_some());
        let fits = streams.filter_map(|track| {
            let end = track.range.end;
            let is_ahead = (end..track.ahead_end).contains(&start);
            let ahead = is_ahead.then_some(StreamFit::IsAhead);
            if start == end {
                Some(StreamFit::Continues)
            } else {
                ahead
            }
        });
        fits.min()
    }

    /// The stream that the read before this one belonged to, unless this one is within what that has asked for.
    pub(in crate::read) fn stream_left_for(&self, range: &Range<u64>) -> Option<&Track> {
        let mut streams = self.tracks.iter().filter(|track| track.window.is_some());
        let before = streams.find(|track| track.used + 1 == self.reads)?;
        let is_ahead = before.range.end <= range.start && range.start < before.ahead_end;
        (!is_ahead).then_some(before)
    }

    /// Tracks that are read ahead.
    pub(in crate::read) fn stream_count(&self) -> usize {
        self.tracks
            .iter()
            .filter(|track| track.window.is_some())
            .count()
    }

    /// Forgets everything but that there were reads.
    pub(in crate::read) fn forget(&mut self) {
        self.tracks = Vec::new();
        self.strays = 0;
    }

    /// The stream that the read before the latest belonged to, if it did, goes on with the track at `index`.
    pub(in crate::read) fn carry(&mut self, index: usize) {
        let reads = self.reads;
        let is_before = |track: &&mut Track| track.window.is_some() && track.used + 1 == reads;
        if let Some(before) = self.tracks.iter_mut().find(is_before) {
            let window = before.window.take();
            let ahead_end = std::mem::replace(&mut before.ahead_end, before.range.end);
            let track = &mut self.tracks[index];
            track.window = window;
            track.ahead_end = track.ahead_end.max(ahead_end);
        }
    }

    /// The stream whose reader goes on with the track at `index`, if it has left out some of what that stream had asked
    /// for and has not read there since: the kernel asks for nothing that it has. What was left out may still come, as
    /// long as reads may come out of order.
    pub(in crate::read) fn move_on(&mut self, index: usize) -> bool {
        let Track { range, began, .. } = &self.tracks[index];
        let (start, began) = (range.start, *began);
        let is_before = |track: &&mut Track| {
            track.window.is_some()
                && track.range.end < start
                && start < track.ahead_end
                && track.used < began
        };
        let befores = self.tracks.iter_mut().filter(is_before);
        let Some(before) = befores.max_by_key(|track| track.range.end) else {
            return false;
        };
        let window = before.window.take();
        let ahead_end = std::mem::replace(&mut before.ahead_end, start);
        before.is_left = true;
        let track = &mut self.tracks[index];
        track.window = window;
        track.ahead_end = track.ahead_end.max(ahead_end);
        true
    }

    /// Makes the track a stream; if there are too many, the one that rested longest ends.
    pub(in crate::read) fn open(&mut self, index: usize, window: Window) {
        if self.stream_count() >= STREAMS_MAX {
            let streams = self
                .tracks
                .iter_mut()
                .filter(|track| track.window.is_some());
            if let Some(oldest) = streams.min_by_key(|track| track.used) {
                oldest.window = None;
                oldest.ahead_end = oldest.range.end;
            }
        }
        self.tracks[index].window = Some(Box::new(window));
    }

    /// Where the territory of the next stream behind this one begins: what it has read already.
    pub(in crate::read) fn next_stream_start(&self, index: usize) -> u64 {
        let end = self.tracks[index].range.end;
        let others = self
            .tracks
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
        let tracks = self.tracks.iter_mut();
        for track in tracks.filter(|track| track.range.contains(&offset)) {
            track.is_reread = true;
        }
    }

    /// What was read of late, in stretches that are long enough to be left out.
    pub(in crate::read) fn islands(&self) -> impl Iterator<Item = Range<u64>> {
        let islands = self.tracks.iter().filter(|track| self.is_island(track));
        let ranges = islands.map(|track| track.range.clone());
        ranges.filter(|range| range.end - range.start >= ISLAND_MIN)
    }

    /// What of `range`, ahead of the track at `index`, no other track has read in passing.
    pub(in crate::read) fn unread(&self, index: usize, range: Range<u64>) -> Vec<Range<u64>> {
        let end = self.tracks[index].range.end;
        let ahead = |island: &Range<u64>| end < island.start && island.start < range.end;
        let mut islands: Vec<_> = self
            .tracks
            .iter()
            .filter(|other| self.is_island(other) && ahead(&other.range))
            .map(|other| other.range.clone())
            .filter(|island| island.end - island.start >= ISLAND_MIN)
            .collect();
        islands.sort_unstable_by_key(|island| island.start);
        without(range, islands.into_iter())
    }

    /// Whether some of `range` was read a short while ago.
    pub(in crate::read) fn has_read(&self, range: &Range<u64>) -> bool {
        self.tracks.iter().any(|track| {
            self.is_island(track) && track.range.start < range.end && range.start < track.range.end
        })
    }

    /// Whether what the track has read is likely not to be read again by one that comes to it.
    fn is_island(&self, track: &Track) -> bool {
        !track.is_reread && (track.window.is_some() || self.reads - track.used <= ISLAND_AGE_MAX)
    }

    /// The latest read of the track, which ends it, looks like the first part of one that goes on until `end`. Whether the
    /// rest is worth asking for: not once one did not come.
    pub(in crate::read) fn expects_rest(&mut self, index: usize, end: u64) -> bool {
        let now = self.reads;
        let is_late = |track: &Track| track.rest_end.is_some() && now - track.used > RECENT_READS;
        self.has_no_rests |= self.tracks.iter().any(is_late);
        if self.has_no_rests {
            for track in &mut self.tracks {
                if track.rest_end.take().is_some() {
                    track.ahead_end = track.range.end;
                }
            }
            return false;
        }
        let track = &mut self.tracks[index];
        track.rest_end = Some(end);
        track.ahead_end = track.ahead_end.max(end);
        true
    }

    /// Whether reads that look cut are whole.
    pub(in crate::read) fn has_no_rests(&self) -> bool {
        self.has_no_rests
    }

    /// Takes note of a read if it is the rest of the one before: that is one read, not two in sequence. Returns the index
    /// of its track.
    pub(in crate::read) fn place_rest(&mut self, range: &Range<u64>) -> Option<usize> {
        let is_rest = |track: &Track| {
            track.window.is_none()
                && track.range.end == range.start
                && track.rest_end.is_some_and(|end| range.end <= end)
        };
        let index = self.tracks.iter().position(is_rest)?;
        self.reads += 1;
        let track = &mut self.tracks[index];
        track.range.end = range.end;
        track.used = self.reads;
        track.rest_end = None;
        Some(self.merge(index))
    }

    /// Takes note of a read. Returns the index of the track it belongs to now, and whether it continues that
    /// forwards, and often enough to be no accident.
    pub(in crate::read) fn place(&mut self, range: &Range<u64>) -> (usize, bool) {
        self.reads += 1;
        match self.find(range) {
            Some((index, Fit::Continues)) => {
                let track = &mut self.tracks[index];
                let is_recent = self.reads - track.used <= RECENT_READS;
                track.range.end = range.end;
                track.rest_end = None;
                track.is_left = false;
                track.used = self.reads;
                if is_recent {
                    track.steps = track.steps.saturating_add(1);
                } else {
                    track.began = self.reads;
                }
                let steps_min = if self.strays > STRAYS_MAX { 2 } else { 1 };
                let continues = track.window.is_some()
                    || (track.steps >= steps_min && track.range.end - track.range.start >= RUN_MIN);
                self.strays /= 2;
                let index = self.merge(index);
                match self.stream_up_to(index) {
                    Some(stream) => (self.unite(stream, index), true),
                    None => (index, continues),
                }
            }
            Some((index, Fit::Precedes)) => {
                let track = &mut self.tracks[index];
                track.range.start = range.start;
                if self.reads - track.used > RECENT_READS {
                    track.began = self.reads;
                }
                track.used = self.reads;
                (index, false)
            }
            Some((index, Fit::Repeats)) => {
                self.tracks[index].is_reread = true;
                (self.stray(range), false)
            }
            None => (self.stray(range), false),
        }
    }

    /// The stream that has come to the track at `index`, which is none: its reader left out what had been read there before.
    fn stream_up_to(&self, index: usize) -> Option<usize> {
        let Track { range, window, .. } = &self.tracks[index];
        let is_up_to = |stream: &Track| {
            let end = stream.range.end;
            stream.window.is_some()
                && stream.range.start < range.start
                && range.start <= end
                && end < range.end
        };
        let found = self.tracks.iter().position(is_up_to);
        found.filter(|_| window.is_none())
    }

    /// The track that `range` fits best.
    fn find(&self, range: &Range<u64>) -> Option<(usize, Fit)> {
        let fits = self.tracks.iter().enumerate().filter_map(|(index, track)| {
            let (start, end) = (track.range.start, track.range.end);
            let (fit, rank) = if end == range.start {
                (Fit::Continues, if track.window.is_some() { 0 } else { 1 })
            } else if start <= range.start && range.start < end && end < range.end {
                (Fit::Continues, 2)
            } else if start == range.end {
                (Fit::Precedes, 3)
            } else if start <= range.start && range.end <= end {
                (Fit::Repeats, 4)
            } else {
                return None;
            };
            Some((rank, index, fit))
        });
        fits.min_by_key(|(rank, ..)| *rank)
            .map(|(_, index, fit)| (index, fit))
    }

    /// A new track for a read that continues none.
    fn stray(&mut self, range: &Range<u64>) -> usize {
        self.strays = (self.strays + 1).min(STRAYS_MAX * 2);
        let track = Track {
            range: range.clone(),
            began: self.reads,
            used: self.reads,
            steps: 0,
            is_reread: false,
            ahead_end: range.end,
            is_left: false,
            rest_end: None,
            window: None,
        };
        if self.tracks.len() < TRACKS_MAX {
            self.tracks.push(track);
            return self.tracks.len() - 1;
        }
        let oldest = self
            .tracks
            .iter()
            .enumerate()
            .min_by_key(|(_, old)| (old.window.is_some(), old.used));
        let (index, _) = oldest.expect("TRACKS_MAX is not 0");
        self.tracks[index] = track;
        index
    }

    /// Joins to the track at `index` those that it has come to touch. Returns where it is now.
    fn merge(&mut self, index: usize) -> usize {
        let Range { start, end } = self.tracks[index].range;
        let touched = self.tracks.iter().position(|other| {
            self.is_island(other)
                && start < other.range.start
                && other.range.start <= end
                && end < other.range.end
        });
        touched.map_or(index, |touched| self.unite(index, touched))
    }

    /// Joins the track at `other`, which goes farther, to the one at `index`. Returns where that is now.
    fn unite(&mut self, index: usize, other: usize) -> usize {
        let place = other;
        let other = self.tracks.swap_remove(place);
        let index = if index == self.tracks.len() {
            place
        } else {
            index
        };
        let track = &mut self.tracks[index];
        track.range.end = other.range.end;
        track.ahead_end = track.ahead_end.max(other.ahead_end);
        if other.window.as_ref().map(|window| window.size())
            > track.window.as_ref().map(|window| window.size())
        {
            track.window = other.window;
        }
        index
    }
}

#[derive(Clone, Copy)]
enum Fit {
    /// Begins where the track ends, or overlaps its end.
    Continues,
    /// Ends where the track begins.
    Precedes,
    /// Lies inside.
    Repeats,
}

/// A track that was not continued within so many reads is continued by accident.
const RECENT_READS: u64 = STREAMS_MAX as u64;

/// Reads that continue nothing, after which a single continuation may be an accident.
const STRAYS_MAX: u8 = 4;

/// Shortest run that is worth reading ahead: Linux itself begins with four pages.
const RUN_MIN: u64 = 16 << 10;

/// A track that is no stream is an island for so many reads: those that Linux may have in the air at once.
const ISLAND_AGE_MAX: u64 = 64;
