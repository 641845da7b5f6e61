//! The contents of a staged file while it changes.
//!
//! A byte is local if it was changed, else the base's as far as the base shows through, else zero.
//! A store sends a [`Snapshot`], while the file goes on changing: bytes that the snapshot has in
//! one data file are then written to the other, so nothing is ever copied for it. Changes have the
//! number of their generation, which a snapshot raises; so after a store it is known which are
//! stored. Where commits are local, the version of the last one is such a snapshot as well, from
//! the first change behind it on.
//!
//! Invariants: no change begins behind the end; the base shows through below `base_len` only, which
//! never rises but by a store.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::last_commit::{Apart, LastCommit, Sparing, Storing};
use super::piece::{CopyPlace, DataFileNo, Piece};
use super::snapshot::{Change, LocalRange, Place, Snapshot};
use crate::write::CopiedRange;

/// The contents of one file.
#[derive(Debug)]
pub(in crate::file) struct Contents {
    now: Snapshot,
    /// The generation of the latest change of any kind.
    changed: u64,
    storing: Option<Storing>,
    last_commit: LastCommit,
    /// An upload found the bytes of the last commit written over: those of the next one stay.
    pins_next_commit: bool,
}

impl Contents {
    /// A file without an object. An empty one is to be stored.
    pub(in crate::file) fn new() -> Self {
        Self {
            changed: FIRST_GENERATION,
            ..Self::over(0)
        }
    }

    /// A file of `size` bytes, all of which its base has.
    pub(in crate::file) fn over(size: u64) -> Self {
        Self {
            now: Snapshot {
                size,
                base_len: size,
                changes: rangemap::RangeMap::new(),
                generation: FIRST_GENERATION,
                stored: 0,
                copied: Arc::default(),
            },
            changed: 0,
            storing: None,
            last_commit: LastCommit::None,
            pins_next_commit: false,
        }
    }

    /// The contents of a record, which the bucket lacks.
    pub(in crate::file) fn restored(
        size: u64,
        base_len: u64,
        local: impl IntoIterator<Item = LocalRange>,
    ) -> Self {
        let mut contents = Self::over(size);
        contents.now.base_len = base_len.min(size);
        contents.changed = FIRST_GENERATION;
        for LocalRange {
            range,
            place,
            is_in_base,
        } in local
        {
            let generation = if is_in_base { 0 } else { FIRST_GENERATION };
            let place = place.map_or(Place::Zeros, Place::Data);
            contents
                .now
                .changes
                .insert(range, Change { place, generation });
        }
        contents
    }

    /// The content that a store is sending.
    pub(in crate::file) fn sending(&self) -> Option<&Arc<Snapshot>> {
        self.storing.as_ref().map(|storing| &storing.snapshot)
    }

    /// Bytes of the file.
    pub(in crate::file) fn size(&self) -> u64 {
        self.now.size
    }

    /// The contents as they are.
    pub(in crate::file) fn now(&self) -> &Snapshot {
        &self.now
    }

    /// Whether anything changed since the last store.
    pub(in crate::file) fn is_changed(&self) -> bool {
        self.changed > self.now.stored
    }

    /// The pieces of `range`, in order and cut at the end of the file.
    pub(in crate::file) fn pieces(&self, range: Range<u64>) -> Vec<Piece> {
        self.now.pieces(range)
    }

    /// The contents are those of a commit, whose upload is to come.
    pub(in crate::file) fn committed(&mut self) {
        if let Some(storing) = &mut self.storing {
            storing.is_last_commit = false;
        }
        self.last_commit = LastCommit::Newest;
    }

    /// Where the version of the last commit is.
    pub(in crate::file) fn last_commit(&self) -> &LastCommit {
        &self.last_commit
    }

    /// The upload of the last commit is not to come.
    pub(in crate::file) fn forget_commit(&mut self) {
        if let Some(storing) = &mut self.storing {
            storing.is_last_commit = false;
        }
        self.last_commit = LastCommit::None;
    }

    /// Ends the sparing of the last commit: changes may be written over its bytes. Returns whether
    /// it was spared.
    pub(in crate::file) fn end_sparing(&mut self) -> bool {
        match &mut self.last_commit {
            LastCommit::Apart(apart) => {
                std::mem::replace(&mut apart.sparing, Sparing::Ended) != Sparing::Ended
            }
            _ => false,
        }
    }

    /// The version of the last commit, which the contents have left behind, is not uploaded.
    pub(in crate::file) fn lose_commit(&mut self) {
        if let LastCommit::Apart(_) | LastCommit::Sending = self.last_commit {
            self.forget_commit();
            self.last_commit = LastCommit::Lost;
        }
    }

    /// The bytes at the `places` are about to be written. Returns whether the last commit is lost
    /// by that.
    pub(in crate::file) fn write_over(&mut self, places: &[(Range<u64>, DataFileNo)]) -> bool {
        let is_lost = places
            .iter()
            .any(|(range, file)| self.last_commit.has(range, *file));
        if is_lost {
            self.lose_commit();
        }
        is_lost
    }

    /// An upload waits for the next commit, as the bytes of the last one were written over.
    pub(in crate::file) fn await_commit(&mut self) {
        self.pins_next_commit = true;
    }

    /// The contents are about to change: they leave the version of the last commit behind. It is
    /// lost if the file `is_rewritten` all the time and no upload waits for it. Returns whether
    /// they were that version.
    pub(in crate::file) fn leave_commit(&mut self, is_rewritten: bool) -> bool {
        if !matches!(self.last_commit, LastCommit::Newest) {
            return false;
        }
        self.last_commit = match &self.storing {
            Some(storing) if storing.is_last_commit => LastCommit::Sending,
            _ if is_rewritten && !self.pins_next_commit => LastCommit::Lost,
            storing => {
                let sent = storing
                    .as_ref()
                    .map(|it| (it.snapshot.generation, it.base_len));
                self.merge(sent.map_or(0, |(generation, _)| generation));
                let snapshot = Arc::new(self.now.clone());
                self.now.generation += 1;
                LastCommit::Apart(Apart {
                    rebased_len: sent.map_or(self.now.base_len, |(_, base_len)| base_len),
                    sparing: self.sparing(),
                    version: Storing {
                        base_len: snapshot.size,
                        snapshot,
                        is_last_commit: true,
                    },
                })
            }
        };
        true
    }

    fn sparing(&self) -> Sparing {
        match self.pins_next_commit {
            true => Sparing::Always,
            false => Sparing::FewRanges,
        }
    }

    /// The data files for the bytes of a write to `range`: others than those that a store sends,
    /// and than those of the last commit where that is possible.
    pub(in crate::file) fn places(&self, range: &Range<u64>) -> Vec<(Range<u64>, DataFileNo)> {
        let storing = self.storing.as_ref().map(|storing| &*storing.snapshot);
        let spared = self.last_commit.spared(self.now.range_count());
        let mut places: Vec<(Range<u64>, DataFileNo)> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let look = |version: Option<&Snapshot>, run: Range<u64>| match version {
                Some(version) => version.data_at(run),
                None => (None, run),
            };
            let (sent, run) = look(storing, at..range.end);
            let (kept, run) = look(spared, run);
            let place = match sent.or(kept) {
                Some(DataFileNo::First) => DataFileNo::Second,
                Some(DataFileNo::Second) | None => DataFileNo::First,
            };
            at = run.end;
            match places.last_mut().filter(|(_, last)| *last == place) {
                Some((last, _)) => last.end = at,
                None => places.push((run, place)),
            }
        }
        places
    }

    /// Notes that the bytes of `range` were written to a data file.
    pub(in crate::file) fn wrote(&mut self, range: Range<u64>, file: DataFileNo) {
        self.now.size = self.now.size.max(range.end);
        self.change(range, Place::Data(file));
    }

    /// Makes `range` zeros, as far as it is in the file. Returns whether some of it is.
    pub(in crate::file) fn zero(&mut self, range: &Range<u64>) -> bool {
        let range = range.start..range.end.min(self.now.size);
        let is_there = range.start < range.end;
        if is_there {
            self.change(range, Place::Zeros);
        }
        is_there
    }

    /// Has the server copy the range of `source` to `offset`. `false`, and no change, if the file
    /// has bytes of too many objects.
    pub(in crate::file) fn copy(&mut self, offset: u64, source: &CopiedRange) -> bool {
        let whole = CopiedRange {
            range: 0..source.object_size,
            ..source.clone()
        };
        let known = self.now.copied.iter().position(|known| *known == whole);
        let object = known.unwrap_or(self.now.copied.len());
        if object >= COPIED_OBJECTS_MAX {
            return false;
        }
        if known.is_none() {
            Arc::make_mut(&mut self.now.copied).push(whole);
        }
        let range = offset..offset + (source.range.end - source.range.start);
        let shift = source.range.start.cast_signed() - offset.cast_signed();
        self.now.size = self.now.size.max(range.end);
        self.change(range, Place::Copied(CopyPlace { object, shift }));
        true
    }

    fn change(&mut self, range: Range<u64>, place: Place) {
        let generation = self.now.generation;
        self.now.changes.insert(range, Change { place, generation });
        self.touch();
    }

    /// Notes a change beside the bytes.
    pub(in crate::file) fn touch(&mut self) {
        self.changed = self.now.generation;
    }

    /// Sets the size: bytes behind the old one are zeros. Returns whether it is another one.
    pub(in crate::file) fn set_len(&mut self, len: u64) -> bool {
        if len < self.now.size {
            self.now.changes.remove(len..u64::MAX);
            self.now.base_len = self.now.base_len.min(len);
            if let Some(storing) = &mut self.storing {
                storing.base_len = storing.base_len.min(len);
            }
            self.last_commit.cut(len);
        }
        let is_other = len != self.now.size;
        if is_other {
            self.now.size = len;
            self.touch();
        }
        is_other
    }

    /// Whether some bytes of `range` were written.
    pub(in crate::file) fn was_written(&self, range: &Range<u64>) -> bool {
        self.now.changes.overlaps(range)
    }

    /// The end of the last range that was written; 0 without one.
    pub(in crate::file) fn last_written(&self) -> u64 {
        let last = self.now.changes.last_range_value();
        last.map_or(0, |(range, _)| range.end)
    }

    /// The end of the bytes from the first on that were written, or that the base has.
    pub(in crate::file) fn written_until(&self) -> u64 {
        let mut at = 0;
        for (range, change) in self.now.changes.iter() {
            if range.start > at.max(self.now.base_len) || change.place == Place::Zeros {
                break;
            }
            at = range.end;
        }
        at
    }

    /// Ranges that are local. Their number is what the contents take of memory.
    pub(in crate::file) fn range_count(&self) -> usize {
        self.now.range_count()
    }

    /// Begins a store of the contents as they are: those of the last commit, if it `is_committed`.
    /// One at a time.
    pub(in crate::file) fn begin_store(&mut self, is_committed: bool) -> Arc<Snapshot> {
        let is_last_commit = is_committed && !matches!(self.last_commit, LastCommit::None);
        match is_last_commit {
            true => self.last_commit = LastCommit::Newest,
            // The store may end with changes behind the last commit.
            false => self.lose_commit(),
        }
        let snapshot = self.begin_store_until(self.now.size);
        if let Some(storing) = &mut self.storing {
            storing.is_last_commit = is_last_commit;
        }
        snapshot
    }

    /// Begins a store of the bytes before `limit`, behind which nothing shows the base. Those
    /// behind it count as changed since. For files without commits.
    pub(in crate::file) fn begin_store_until(&mut self, limit: u64) -> Arc<Snapshot> {
        debug_assert!(limit >= self.now.base_len, "the base is before the limit");
        debug_assert!(self.storing.is_none(), "one store at a time");
        self.merge(0);
        let mut snapshot = self.now.clone();
        self.now.generation += 1;
        if limit < self.now.size {
            snapshot.size = limit;
            snapshot.changes.remove(limit..u64::MAX);
            let generation = self.now.generation;
            let behind = self.now.changes.overlapping(limit..u64::MAX);
            let behind: Vec<_> = behind
                .map(|(range, change)| {
                    let range = range.start.max(limit)..range.end;
                    (
                        range,
                        Change {
                            generation,
                            ..*change
                        },
                    )
                })
                .collect();
            self.now.changes.extend(behind);
            self.touch();
        }
        let snapshot = Arc::new(snapshot);
        self.storing = Some(Storing {
            snapshot: Arc::clone(&snapshot),
            base_len: snapshot.size,
            is_last_commit: false,
        });
        snapshot
    }

    /// Begins a store of the last commit, if the contents have left it behind and its bytes are
    /// there. One at a time.
    pub(in crate::file) fn begin_store_of_commit(&mut self) -> Option<Arc<Snapshot>> {
        debug_assert!(self.storing.is_none(), "one store at a time");
        match std::mem::take(&mut self.last_commit) {
            LastCommit::Apart(apart) => {
                let snapshot = Arc::clone(&apart.version.snapshot);
                self.last_commit = LastCommit::Sending;
                self.storing = Some(apart.version);
                Some(snapshot)
            }
            other => {
                self.last_commit = other;
                None
            }
        }
    }

    /// Joins neighbours that were stored, those that a store sends, up to the generation `sent`,
    /// and the others.
    fn merge(&mut self, sent: u64) {
        let (stored, now) = (self.now.stored, self.now.generation);
        let changes = std::mem::take(&mut self.now.changes).into_iter();
        let merged = changes.map(|(range, change)| {
            let generation = match change.generation {
                its if its <= stored => 0,
                its if its <= sent => sent,
                _ => now,
            };
            (
                range,
                Change {
                    generation,
                    ..change
                },
            )
        });
        self.now.changes = merged.collect();
    }

    /// The store has ended. With `is_stored` the stored version is the base.
    pub(in crate::file) fn end_store(&mut self, is_stored: bool) {
        let Some(storing) = self.storing.take() else {
            return;
        };
        if !is_stored {
            if let LastCommit::Sending = self.last_commit {
                self.last_commit = LastCommit::Apart(Apart {
                    rebased_len: storing.snapshot.base_len,
                    sparing: self.sparing(),
                    version: storing,
                });
            }
            return;
        }
        match storing.is_last_commit {
            true => {
                self.last_commit = LastCommit::None;
                self.pins_next_commit = false;
            }
            false => self.last_commit.rebase(storing.snapshot.generation),
        }
        self.now.stored = storing.snapshot.generation;
        self.now.base_len = storing.base_len;
        self.drop_sent();
    }

    /// Bytes that an upload alone had, or the server has copied, show through from the base that it
    /// has become.
    fn drop_sent(&mut self) {
        let stored = self.now.stored;
        let is_remote = |place: Place| matches!(place, Place::Sent | Place::Copied(_));
        if !self.now.changes.iter().any(|(_, it)| is_remote(it.place)) {
            return;
        }
        let changes = std::mem::take(&mut self.now.changes).into_iter();
        let kept =
            changes.filter(|(_, change)| !is_remote(change.place) || change.generation > stored);
        self.now.changes = kept.collect();
    }

    /// Notes that the data files have the bytes of `range` no longer, and an unfinished upload has
    /// them.
    pub(in crate::file) fn mark_sent(&mut self, range: &Range<u64>) {
        let changes = self.now.changes.overlapping(range.clone());
        let sent: Vec<_> = changes
            .map(|(known, change)| {
                let part = known.start.max(range.start)..known.end.min(range.end);
                (
                    part,
                    Change {
                        place: Place::Sent,
                        ..*change
                    },
                )
            })
            .collect();
        self.now.changes.extend(sent);
    }

    /// Forgets local bytes that the base has as well, unless a store is about to send them. Returns
    /// their ranges.
    pub(in crate::file) fn drop_stored(&mut self) -> Vec<(Range<u64>, DataFileNo)> {
        if self.storing.is_some() {
            return Vec::new();
        }
        let stored = self.now.stored;
        let mut dropped = Vec::new();
        let changes = std::mem::take(&mut self.now.changes).into_iter();
        let kept = changes.filter(|(range, change)| {
            let is_kept = change.generation > stored;
            if let (Place::Data(file), false) = (change.place, is_kept) {
                dropped.push((range.clone(), file));
            }
            is_kept
        });
        self.now.changes = kept.collect();
        dropped
    }

    /// The ranges of a data file of `len` bytes that the contents have no use for. None while a
    /// store is in progress.
    pub(in crate::file) fn unused(&self, file: DataFileNo, len: u64) -> Vec<Range<u64>> {
        if self.storing.is_some() {
            return Vec::new();
        }
        let changes = self.now.changes.iter();
        let used = changes.filter(|(_, change)| change.place == Place::Data(file));
        let used = used.map(|(range, _)| range.clone());
        let (mut unused, mut at) = (Vec::new(), 0);
        for range in used.chain(iter::once(len..u64::MAX)) {
            if at < range.start {
                unused.push(at..range.start);
            }
            at = range.end;
        }
        unused
    }
}

const FIRST_GENERATION: u64 = 1;

/// Most objects whose bytes the server copies into one file.
const COPIED_OBJECTS_MAX: usize = 1024;
