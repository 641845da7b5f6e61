//! Those who read one version of an object, and whose stream a read belongs to.
//!
//! Pure: owns no block, takes no lock, reads no clock. Each open file has a *seat* with a planner of its own, because what
//! one reader does says nothing of another. Two things make them one all the same. A read that fills the page cache
//! belongs to whichever seat's stream it continues: pages that one process filled are not asked for by the next, whose
//! reads then go on where the other's would have. And what one has read stays for those who come to it soon.
//!
//! Invariant: at most [`SHARERS_MAX`] seats, in the order in which they were taken. With one seat all is as if there were
//! no seats.

use std::ops::Range;
use std::time::Duration;

use smallvec::SmallVec;

use crate::config::limits::{READER_IDLE, SHARERS_MAX};
use crate::read::layout::Before;
use crate::read::plan::Planner;

/// Names a seat for as long as its version is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) struct SeatNo(u64);

/// Those who read one version.
#[derive(Debug, Default)]
pub(in crate::read) struct Seats {
    seats: SmallVec<[Seat; 1]>,
    taken: u64,
}

#[derive(Debug)]
struct Seat {
    no: SeatNo,
    planner: Planner,
    /// When it was taken, or its planner last saw a read.
    used_at: Duration,
    /// Whether its latest read filled the page cache, or its first one will: what that has it will not ask for again.
    fills_cache: bool,
    has_read: bool,
    /// Which other's read its planner saw last; its own, if none did.
    used_by: SeatNo,
}

/// How well a read fits to what a planner has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::read) enum Fit {
    /// It begins where a stream is.
    Continues,
    /// It begins where a stream will come to, and has asked for the bytes.
    IsAhead,
}

/// How far one reader may be behind another for what that has read to stay for it, and when this is asked.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct Patience {
    pub(in crate::read) behind_max: u64,
    pub(in crate::read) now: Duration,
}

impl Seats {
    /// Takes a seat, if there is one.
    pub(in crate::read) fn join(&mut self, now: Duration) -> Option<SeatNo> {
        if self.seats.len() >= SHARERS_MAX {
            return None;
        }
        let no = SeatNo(self.taken);
        self.taken += 1;
        self.seats.push(Seat {
            no,
            planner: Planner::default(),
            used_at: now,
            fills_cache: false,
            has_read: false,
            used_by: no,
        });
        Some(no)
    }

    /// The reads of a seat will fill the page cache.
    pub(in crate::read) fn expect_pages(&mut self, no: SeatNo) {
        let place = self.place(no);
        self.seats[place].fills_cache = true;
    }

    /// Gives a seat back. A stream that another one reads on goes to that, if it has none. Returns what the next file of its
    /// kind is to know.
    pub(in crate::read) fn leave(&mut self, no: SeatNo) -> Option<Before> {
        let mut left = self.seats.remove(self.place(no));
        let read = left.planner.finish();
        let heir = self.seats.iter_mut().find(|seat| seat.no == left.used_by);
        if let Some(heir) = heir.filter(|heir| heir.planner.stream_count() == 0) {
            heir.planner = left.planner;
            heir.used_by = heir.no;
        }
        read
    }

    /// Whether there are others besides one.
    pub(in crate::read) fn is_shared(&self) -> bool {
        self.seats.len() > 1
    }

    /// Whose planner sees a read of this seat that begins at `start`.
    pub(in crate::read) fn reads(
        &mut self,
        no: SeatNo,
        start: u64,
        fills_cache: bool,
        now: Duration,
    ) -> usize {
        let own = self.place(no);
        self.seats[own].fills_cache = fills_cache;
        self.seats[own].has_read = true;
        let place = if fills_cache && self.seats.len() > 1 {
            let place = self.stream_at(own, start).unwrap_or(own);
            let others = self.seats.iter_mut().enumerate();
            for (_, other) in others.filter(|(other, seat)| *other != place && seat.fills_cache) {
                // It would not be asked for if the page cache still had it.
                other.planner.is_reread(start);
            }
            place
        } else {
            own
        };
        self.seats[own].used_at = now;
        let seat = &mut self.seats[place];
        seat.used_at = now;
        if place != own {
            seat.used_by = no;
        }
        place
    }

    /// The planner at a place that [`Seats::reads`] returned last.
    pub(in crate::read) fn planner(&mut self, place: usize) -> &mut Planner {
        &mut self.seats[place].planner
    }

    /// Forgets what all have read.
    pub(in crate::read) fn forget(&mut self) {
        for seat in &mut self.seats {
            seat.planner.forget();
        }
    }

    /// Forgets what those have read that rest while others do not.
    pub(in crate::read) fn forget_idle(&mut self, now: Duration) {
        for seat in &mut self.seats {
            if seat.used_at + READER_IDLE < now {
                seat.planner.forget();
            }
        }
    }

    /// Streams that are read ahead. Where several come one behind the other over the same bytes, the first is the one that
    /// asks for them; `is_held` says of bytes whether they are here or asked for.
    pub(in crate::read) fn stream_count(&self, is_held: impl Fn(Range<u64>) -> bool) -> usize {
        if let [seat] = &*self.seats {
            return seat.planner.stream_count();
        }
        let planners = self.seats.iter().map(|seat| &seat.planner);
        let mut places: Vec<u64> = planners.flat_map(Planner::stream_ends).collect();
        places.sort_unstable();
        let behind = places.windows(2).filter(|pair| {
            let (from, before) = (pair[0], pair[1]);
            from == before || is_held(from..before)
        });
        places.len() - behind.count()
    }

    /// What is to stay: bytes that were asked for ahead, and those that somebody comes to who is not far behind. Without
    /// what the seat at `reader` wants, where bytes have just been read, and what those want who find them in the page
    /// cache then. `patience` is of no use to one seat alone.
    pub(in crate::read) fn wanted(
        &self,
        reader: Option<usize>,
        patience: Option<Patience>,
    ) -> Wanted {
        let mut wanted = Vec::new();
        let is_cached = reader.is_some_and(|reader| self.seats[reader].fills_cache);
        let all_cached = self.seats.iter().all(|seat| seat.fills_cache);
        for (place, seat) in self.seats.iter().enumerate() {
            if reader == Some(place) || (is_cached && seat.fills_cache) {
                continue;
            }
            wanted.extend(seat.planner.asked_ahead());
            let is_near = |it: &Patience| !all_cached && it.now <= seat.used_at + READER_IDLE;
            if let Some(patience) = patience.filter(is_near) {
                let comes_to = |from: u64| from..from.saturating_add(patience.behind_max);
                if seat.fills_cache && seat.has_read {
                    // The reads of others like it may have gone to their streams: only its own says where it is.
                    wanted.extend(seat.planner.stream_ends().map(comes_to));
                } else {
                    wanted.extend(seat.planner.goes_on_from().map(comes_to));
                }
            }
        }
        Wanted::of(wanted)
    }

    /// Bytes that others than the seat at `reader` have read into the page cache, if it reads them from there; sorted.
    pub(in crate::read) fn in_page_cache(&self, reader: usize) -> Vec<Range<u64>> {
        if !self.seats[reader].fills_cache {
            return Vec::new();
        }
        let others = self.seats.iter().enumerate();
        let others = others.filter(|(place, seat)| *place != reader && seat.fills_cache);
        let mut read: Vec<_> = others
            .flat_map(|(_, seat)| seat.planner.has_read())
            .collect();
        read.sort_unstable_by_key(|range| range.start);
        read
    }

    fn place(&self, no: SeatNo) -> usize {
        let place = self.seats.iter().position(|seat| seat.no == no);
        place.expect("a seat is there until it is given back")
    }

    /// The seat whose stream a read into the page cache at `start` fits best, its own before others. Who has direct replies
    /// comes to those bytes all the same.
    fn stream_at(&self, own: usize, start: u64) -> Option<usize> {
        let seats = self.seats.iter().enumerate();
        let cached = seats.filter(|(_, seat)| seat.fills_cache);
        let fits = cached.filter_map(|(place, seat)| {
            let fit = seat.planner.fit(start)?;
            Some((fit, place != own, place))
        });
        fits.min().map(|(.., place)| place)
    }
}

/// Which bytes are to stay: ranges that are sorted and apart.
pub(in crate::read) struct Wanted(Vec<Range<u64>>);

impl Wanted {
    fn of(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, before| {
            let touches = next.start <= before.end;
            if touches {
                before.end = before.end.max(next.end);
            }
            touches
        });
        Self(ranges)
    }

    /// Whether some of these bytes are wanted.
    pub(in crate::read) fn contains(&self, held: &Range<u64>) -> bool {
        let next = self.0.partition_point(|range| range.end <= held.start);
        let next = self.0.get(next);
        next.is_some_and(|range| range.start < held.end)
    }
}
