//! Which records live, and where they are.
//!
//! Pure. A record lives from the moment it is durable until a newer one of its key, or its release,
//! is durable. Segments are removed in their order, oldest first, so that a record never outlives
//! the release that hides it.

use std::collections::{BTreeMap, HashMap};

use super::types::{RecordId, RecordKey};

/// Where a record's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// CRC32C of the payload.
    pub(super) sum: u32,
    /// Bytes of the record, with header and padding.
    pub(super) record_len: u64,
}

/// Live records and the use of segments. `F` is an open segment file.
#[derive(Debug)]
pub(super) struct Index<F> {
    live: HashMap<RecordKey, (u64, Place)>,
    segments: BTreeMap<u64, SegmentUse<F>>,
    live_bytes: u64,
    /// Bytes of all segments on the disk.
    bytes: u64,
}

#[derive(Debug)]
struct SegmentUse<F> {
    file: F,
    /// Bytes that it has on the disk.
    len: u64,
    live_records: u64,
}

impl<F: Clone> Index<F> {
    pub(super) fn new() -> Self {
        Self {
            live: HashMap::new(),
            segments: BTreeMap::new(),
            live_bytes: 0,
            bytes: 0,
        }
    }

    /// A segment was begun.
    pub(super) fn add_segment(&mut self, number: u64, file: F, len: u64) {
        self.bytes += len;
        let live_records = 0;
        let before = self.segments.insert(
            number,
            SegmentUse {
                file,
                len,
                live_records,
            },
        );
        assert!(before.is_none(), "segment {number} is there already");
    }

    /// A record became durable.
    pub(super) fn insert(&mut self, id: RecordId, place: Place) {
        let known = self.live.get(&id.key).map(|(version, _)| *version);
        if known.is_some_and(|known| known > id.version) {
            return;
        }
        self.forget(id.key);
        self.live.insert(id.key, (id.version, place));
        self.live_bytes += place.record_len;
        self.segment(place.segment).live_records += 1;
    }

    /// A copy of a record became durable, behind all that hides the record.
    pub(super) fn moved(&mut self, id: RecordId, place: Place) {
        if self.is_live(id) {
            self.insert(id, place);
        }
    }

    /// The release of a record became durable.
    pub(super) fn release(&mut self, id: RecordId) {
        let known = self.live.get(&id.key);
        if known.is_some_and(|(version, _)| *version <= id.version) {
            self.forget(id.key);
        }
    }

    fn forget(&mut self, key: RecordKey) {
        if let Some((_, place)) = self.live.remove(&key) {
            self.live_bytes -= place.record_len;
            self.segment(place.segment).live_records -= 1;
        }
    }

    fn segment(&mut self, number: u64) -> &mut SegmentUse<F> {
        let segment = self.segments.get_mut(&number);
        segment.expect("a segment stays as long as a record in it lives")
    }

    /// Whether a record is the newest one of its key and not released.
    pub(super) fn is_live(&self, id: RecordId) -> bool {
        self.live
            .get(&id.key)
            .is_some_and(|(it, _)| *it == id.version)
    }

    /// Where a live record is; `None` if it is not live.
    pub(super) fn find(&self, id: RecordId) -> Option<(F, Place)> {
        let (version, place) = self.live.get(&id.key)?;
        let segment = self.segments.get(&place.segment)?;
        (*version == id.version).then(|| (segment.file.clone(), *place))
    }

    /// All live records, oldest first.
    pub(super) fn live(&self) -> Vec<(RecordId, Place)> {
        let all = self.live.iter();
        let all = all.map(|(key, (version, place))| {
            let (key, version) = (*key, *version);
            (RecordId { key, version }, *place)
        });
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|(id, _)| id.version);
        all
    }

    /// Whether there is a segment.
    pub(super) fn has_segments(&self) -> bool {
        !self.segments.is_empty()
    }

    /// The oldest segment, if no record in it lives and it is not the newest one, which shows that
    /// there is a journal.
    pub(super) fn dead_segment(&self) -> Option<u64> {
        let (number, segment) = self.segments.first_key_value()?;
        let is_dead = segment.live_records == 0 && self.segments.len() > 1;
        is_dead.then_some(*number)
    }

    /// A segment was removed.
    pub(super) fn remove_segment(&mut self, number: u64) {
        if let Some(segment) = self.segments.remove(&number) {
            assert_eq!(segment.live_records, 0, "segment {number} is in use");
            self.bytes -= segment.len;
        }
    }

    /// The oldest segment, if what lives there shall be copied to the end of the journal so that it
    /// can be removed.
    pub(super) fn segment_to_empty(&self, current: Option<u64>) -> Option<u64> {
        let (number, segment) = self.segments.first_key_value()?;
        let garbage = self.bytes - self.live_bytes.min(self.bytes);
        let is_due = garbage > self.live_bytes.saturating_mul(GARBAGE_PER_LIVE_MAX)
            && garbage > segment.len.saturating_mul(GARBAGE_SEGMENTS_MIN);
        (is_due && current != Some(*number)).then_some(*number)
    }

    /// The live records of a segment, in the order of their places.
    pub(super) fn live_in(&self, segment: u64) -> Vec<RecordId> {
        let all = self.live().into_iter();
        let mut here: Vec<_> = all.filter(|(_, place)| place.segment == segment).collect();
        here.sort_unstable_by_key(|(_, place)| place.offset);
        here.into_iter().map(|(id, _)| id).collect()
    }

    /// Bytes of all live records.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }
}

/// Garbage that the journal keeps for each live byte. With 1, the disk has at most twice what
/// lives, and each byte is copied once on average before it is released.
const GARBAGE_PER_LIVE_MAX: u64 = 1;

/// Segments of garbage that are kept in any case: the one that is written, and one that ends.
const GARBAGE_SEGMENTS_MIN: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(key: u64, version: u64) -> RecordId {
        let key = RecordKey(key);
        RecordId { key, version }
    }

    fn place(segment: u64, offset: u64) -> Place {
        Place {
            segment,
            offset,
            len: 60,
            sum: 0,
            record_len: 100,
        }
    }

    fn index(segments: u64) -> Index<()> {
        let mut index = Index::new();
        for number in 1..=segments {
            index.add_segment(number, (), 1000);
        }
        index
    }

    #[test]
    fn the_newest_record_of_a_key_lives() {
        let mut index = index(1);
        index.insert(id(1, 10), place(1, 48));
        index.insert(id(1, 12), place(1, 148));
        index.insert(id(1, 11), place(1, 248));
        assert_eq!(index.live(), [(id(1, 12), place(1, 148))]);
        assert!(index.find(id(1, 10)).is_none());
        assert_eq!(index.live_bytes(), 100);
    }

    #[test]
    fn a_release_ends_what_it_names_and_what_is_older() {
        for (released, lives) in [(9, true), (10, false), (11, false)] {
            let mut index = index(1);
            index.insert(id(1, 10), place(1, 48));
            index.release(id(1, released));
            assert_eq!(index.is_live(id(1, 10)), lives, "{released}");
        }
    }

    #[test]
    fn a_copy_counts_only_while_its_record_lives() {
        let mut index = index(2);
        index.insert(id(1, 10), place(1, 48));
        index.moved(id(1, 10), place(2, 48));
        assert_eq!(index.dead_segment(), Some(1));
        index.release(id(1, 10));
        index.moved(id(1, 10), place(2, 148));
        assert_eq!(index.live(), []);
    }

    #[test]
    fn segments_are_removed_oldest_first() {
        let mut index = index(3);
        index.insert(id(1, 10), place(1, 48));
        // Segment 2 has nothing that lives, and may hide what segment 1 has.
        assert_eq!(index.dead_segment(), None);
        index.release(id(1, 10));
        assert_eq!(index.dead_segment(), Some(1));
        index.remove_segment(1);
        assert_eq!(index.dead_segment(), Some(2));
        index.remove_segment(2);
        assert_eq!(index.dead_segment(), None);
        assert_eq!(index.bytes, 1000);
    }

    #[test]
    fn the_oldest_segment_is_emptied_when_there_is_more_garbage_than_life() {
        let mut index = index(4);
        assert_eq!(index.segment_to_empty(Some(4)), Some(1));
        for key in 0..30 {
            index.insert(id(key, key), place(key / 10 + 1, 48 + 100 * (key % 10)));
        }
        assert_eq!(index.segment_to_empty(Some(4)), None);
        for key in 5..20 {
            index.release(id(key, key));
        }
        assert_eq!(index.segment_to_empty(Some(4)), Some(1));
        let live = index.live_in(1).into_iter().map(|id| id.key.0);
        assert_eq!(live.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
