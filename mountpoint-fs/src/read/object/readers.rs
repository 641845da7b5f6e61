//! The open files that read one version of an object, and whose stream a read belongs to.
//!
//! Pure: owns no block, takes no lock, reads no clock. Each open file is a *reader* with a planner
//! of its own, because the reads of one reader say nothing of another. Two rules join them. A read
//! that fills the page cache belongs to the reader whose stream it continues: the next process does
//! not ask for pages that one process has filled, and goes on behind them. And blocks that one
//! reader has read stay for readers that come to them soon.
//!
//! Invariant: at most [`SHARERS_MAX`] readers, in the order in which they joined. One reader alone
//! keeps nothing for others.

use std::ops::Range;
use std::time::Duration;

use smallvec::SmallVec;

use crate::config::limits::READER_IDLE;
use crate::read::layout::{KnownLayout, LayoutPrefetch};
use crate::read::plan::{Access, BlockMap, Bounds, Planner, ReadPlan};

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
    layout: LayoutPrefetch,
    /// When it joined, or its planner last saw a read.
    used_at: Duration,
    /// Whether its latest read filled the page cache, or its first one will: it does not ask again
    /// for pages that are there.
    fills_cache: bool,
    has_read: bool,
    /// The reader whose read its planner saw last; itself, if no other's.
    used_by: ReaderId,
}

impl ReaderState {
    /// Forgets everything but that there were reads.
    fn forget(&mut self) {
        self.planner.forget();
        self.layout.stop();
    }
}

/// How long a block stays that one reader has read and another one comes to.
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
            layout: LayoutPrefetch::default(),
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

    /// Removes a reader. Its stream goes to the reader that read on in it last, if that has none.
    /// Returns the layout for the next file of its kind.
    pub(in crate::read) fn leave(&mut self, no: ReaderId) -> Option<KnownLayout> {
        let mut left = self.readers.remove(self.place(no));
        let read = left.layout.finish();
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

    /// Whether there are two readers or more.
    pub(in crate::read) fn is_shared(&self) -> bool {
        self.readers.len() > 1
    }

    /// The place of the planner that sees a read of this reader at `start`.
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
                // The kernel asks for the page again, so the page cache has lost it.
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

    /// The layout of the file before, for the first read of the planner at a place that
    /// [`Readers::reads`] returned last.
    pub(in crate::read) fn expect_layout(&mut self, place: usize, known: KnownLayout) {
        let reader = &mut self.readers[place];
        if !reader.planner.has_begun() {
            reader.layout.expect(known);
        }
    }

    /// The plan of a read, by the planner and the layout at a place that [`Readers::reads`]
    /// returned last.
    pub(in crate::read) fn plan<T>(
        &mut self,
        place: usize,
        access: &Access,
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
    ) -> ReadPlan {
        let ReaderState {
            planner, layout, ..
        } = &mut self.readers[place];
        let mut plan = planner.plan(access, blocks, bounds);
        layout.extend(&mut plan, planner, access, blocks, bounds);
        plan
    }

    /// There was no memory for what the layout of the file before foretells.
    pub(in crate::read) fn refuse_layout(&mut self, place: usize) {
        self.readers[place].layout.stop();
    }

    /// Forgets the reads of all readers.
    pub(in crate::read) fn forget(&mut self) {
        for reader in &mut self.readers {
            reader.forget();
        }
    }

    /// Forgets the reads of readers that have rested for [`READER_IDLE`].
    pub(in crate::read) fn forget_idle(&mut self, now: Duration) {
        for reader in &mut self.readers {
            if reader.used_at + READER_IDLE < now {
                reader.forget();
            }
        }
    }

    /// Streams that are read ahead. Streams that follow each other over the same bytes count once:
    /// the first one asks for the bytes. `is_held` says whether bytes are here or asked for.
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

    /// The bytes that stay: those asked for ahead, and those that a reader not far behind comes to.
    ///
    /// With `asker`, the reader that has just read the bytes, neither it counts nor the readers
    /// that find the bytes in the page cache now. One reader alone needs no `retention`.
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
            wanted.extend(reader.layout.asked_ahead());
            let is_near =
                |it: &RetentionPolicy| !all_cached && it.now <= reader.used_at + READER_IDLE;
            if let Some(retention) = retention.filter(is_near) {
                let comes_to = |from: u64| from..from.saturating_add(retention.behind_max);
                if reader.fills_cache && reader.has_read {
                    // Other readers of the page cache may have read on in its stream: only its own
                    // streams say where it is.
                    wanted.extend(reader.planner.stream_ends().map(comes_to));
                } else {
                    wanted.extend(reader.planner.goes_on_from().map(comes_to));
                }
            }
        }
        RetainedRanges::of(wanted)
    }

    /// Bytes that other readers have read into the page cache, sorted; none if the reader at
    /// `asker` does not use it.
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
    /// others. Readers with direct replies do not count: they come to the bytes all the same.
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

/// The bytes that stay: ranges that are sorted and apart.
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

/// Open files of one version that share their blocks; further ones share with each other.
///
/// Each release of blocks examines the read-ahead of all of them.
pub(in crate::read) const SHARERS_MAX: usize = 64;
