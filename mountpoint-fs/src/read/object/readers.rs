//! The open files that read one version of an object, and whose stream a read belongs to.
//!
//! Pure: owns no block, takes no lock, reads no clock. Each open file is a *reader* with a planner
//! of its own, because what one reader does says nothing of another. Two things make them one all
//! the same. A read that fills the page cache belongs to whichever reader's stream it continues:
//! pages that one process filled are not asked for by the next, whose reads then go on where the
//! other's would have. And what one has read stays for those who come to it soon.
//!
//! Invariant: at most [`SHARERS_MAX`] readers, in the order in which they joined. One reader alone
//! shares nothing and keeps nothing for others.

use std::ops::Range;
use std::time::Duration;

use smallvec::SmallVec;

use crate::config::limits::{READER_IDLE, SHARERS_MAX};
use crate::read::layout::KnownLayout;
use crate::read::plan::Planner;

/// Names a reader for as long as its version is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) struct ReaderId(u64);

/// The readers of one version.
#[derive(Debug, Default)]
pub(in crate::read) struct Readers {
    readers: SmallVec<[ReaderState; 1]>,
    taken: u64,
}

#[derive(Debug)]
struct ReaderState {
    no: ReaderId,
    planner: Planner,
    /// When it joined, or its planner last saw a read.
    used_at: Duration,
    /// Whether its latest read filled the page cache, or its first one will: what that has it will
    /// not ask for again.
    fills_cache: bool,
    has_read: bool,
    /// Which other's read its planner saw last; its own, if none did.
    used_by: ReaderId,
}

/// How long blocks stay that one reader has read and another comes to.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct RetentionPolicy {
    /// How far the other reader may be behind.
    pub(in crate::read) behind_max: u64,
    pub(in crate::read) now: Duration,
}

impl Readers {
    /// Adds a reader, if there may be one more.
    pub(in crate::read) fn join(&mut self, now: Duration) -> Option<ReaderId> {
        if self.readers.len() >= SHARERS_MAX {
            return None;
        }
        let no = ReaderId(self.taken);
        self.taken += 1;
        self.readers.push(ReaderState {
            no,
            planner: Planner::default(),
            used_at: now,
            fills_cache: false,
            has_read: false,
            used_by: no,
        });
        Some(no)
    }

    /// The reads of this reader will fill the page cache.
    pub(in crate::read) fn expect_pages(&mut self, no: ReaderId) {
        let place = self.place(no);
        self.readers[place].fills_cache = true;
    }

    /// Removes a reader. A stream that another one reads on goes to that, if it has none. Returns
    /// what the next file of its kind is to know.
    pub(in crate::read) fn leave(&mut self, no: ReaderId) -> Option<KnownLayout> {
        let mut left = self.readers.remove(self.place(no));
        let read = left.planner.finish();
        let heir = self
            .readers
            .iter_mut()
            .find(|reader| reader.no == left.used_by);
        if let Some(heir) = heir.filter(|heir| heir.planner.stream_count() == 0) {
            heir.planner = left.planner;
            heir.used_by = heir.no;
        }
        read
    }

    /// Whether there are others besides one.
    pub(in crate::read) fn is_shared(&self) -> bool {
        self.readers.len() > 1
    }

    /// Whose planner sees a read of this reader that begins at `start`.
    pub(in crate::read) fn reads(
        &mut self,
        no: ReaderId,
        start: u64,
        fills_cache: bool,
        now: Duration,
    ) -> usize {
        let own = self.place(no);
        self.readers[own].fills_cache = fills_cache;
        self.readers[own].has_read = true;
        let place = if fills_cache && self.readers.len() > 1 {
            let place = self.stream_at(own, start).unwrap_or(own);
            let others = self.readers.iter_mut().enumerate();
            for (_, other) in others.filter(|(other, reader)| *other != place && reader.fills_cache)
            {
                // It would not be asked for if the page cache still had it.
                other.planner.is_reread(start);
            }
            place
        } else {
            own
        };
        self.readers[own].used_at = now;
        let reader = &mut self.readers[place];
        reader.used_at = now;
        if place != own {
            reader.used_by = no;
        }
        place
    }

    /// The planner at a place that [`Readers::reads`] returned last.
    pub(in crate::read) fn planner(&mut self, place: usize) -> &mut Planner {
        &mut self.readers[place].planner
    }

    /// Forgets what all have read.
    pub(in crate::read) fn forget(&mut self) {
        for reader in &mut self.readers {
            reader.planner.forget();
        }
    }

    /// Forgets what those have read that rest while others do not.
    pub(in crate::read) fn forget_idle(&mut self, now: Duration) {
        for reader in &mut self.readers {
            if reader.used_at + READER_IDLE < now {
                reader.planner.forget();
            }
        }
    }

    /// Streams that are read ahead. Where several come one behind the other over the same bytes,
    /// the first is the one that asks for them; `is_held` says of bytes whether they are here or
    /// asked for.
    pub(in crate::read) fn stream_count(&self, is_held: impl Fn(Range<u64>) -> bool) -> usize {
        if let [reader] = &*self.readers {
            return reader.planner.stream_count();
        }
        let planners = self.readers.iter().map(|reader| &reader.planner);
        let mut places: Vec<u64> = planners.flat_map(Planner::stream_ends).collect();
        places.sort_unstable();
        let behind = places.windows(2).filter(|pair| {
            let (from, before) = (pair[0], pair[1]);
            from == before || is_held(from..before)
        });
        places.len() - behind.count()
    }

    /// What is to stay: bytes that were asked for ahead, and those that somebody comes to who is
    /// not far behind. Without what the reader at `asker` wants, where bytes have just been read,
    /// and what those want who find them in the page cache then. `retention` is of no use to one
    /// reader alone.
    pub(in crate::read) fn retained(
        &self,
        asker: Option<usize>,
        retention: Option<RetentionPolicy>,
    ) -> RetainedRanges {
        let mut wanted = Vec::new();
        let is_cached = asker.is_some_and(|asker| self.readers[asker].fills_cache);
        let all_cached = self.readers.iter().all(|reader| reader.fills_cache);
        for (place, reader) in self.readers.iter().enumerate() {
            if asker == Some(place) || (is_cached && reader.fills_cache) {
                continue;
            }
            wanted.extend(reader.planner.asked_ahead());
            let is_near =
                |it: &RetentionPolicy| !all_cached && it.now <= reader.used_at + READER_IDLE;
            if let Some(retention) = retention.filter(is_near) {
                let comes_to = |from: u64| from..from.saturating_add(retention.behind_max);
                if reader.fills_cache && reader.has_read {
                    // The reads of others like it may have gone to their streams: only its own says
                    // where it is.
                    wanted.extend(reader.planner.stream_ends().map(comes_to));
                } else {
                    wanted.extend(reader.planner.goes_on_from().map(comes_to));
                }
            }
        }
        RetainedRanges::of(wanted)
    }

    /// Bytes that others than the reader at `asker` have read into the page cache, if it reads them
    /// from there; sorted.
    pub(in crate::read) fn in_page_cache(&self, asker: usize) -> Vec<Range<u64>> {
        if !self.readers[asker].fills_cache {
            return Vec::new();
        }
        let others = self.readers.iter().enumerate();
        let others = others.filter(|(place, reader)| *place != asker && reader.fills_cache);
        let mut read: Vec<_> = others
            .flat_map(|(_, reader)| reader.planner.has_read())
            .collect();
        read.sort_unstable_by_key(|range| range.start);
        read
    }

    fn place(&self, no: ReaderId) -> usize {
        let place = self.readers.iter().position(|reader| reader.no == no);
        place.expect("a reader is there until it leaves")
    }

    /// The reader whose stream a read into the page cache at `start` fits best, its own before
    /// others. Who has direct replies comes to those bytes all the same.
    fn stream_at(&self, own: usize, start: u64) -> Option<usize> {
        let readers = self.readers.iter().enumerate();
        let cached = readers.filter(|(_, reader)| reader.fills_cache);
        let fits = cached.filter_map(|(place, reader)| {
            let fit = reader.planner.fit(start)?;
            Some((fit, place != own, place))
        });
        fits.min().map(|(.., place)| place)
    }
}

/// Which bytes are to stay: ranges that are sorted and apart.
pub(in crate::read) struct RetainedRanges(Vec<Range<u64>>);

impl RetainedRanges {
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
