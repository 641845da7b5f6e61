//! The segments: where batches become durable, and how segments go.
//!
//! One thread has the log; others find live records through the index, whose lock is never held
//! while the disk works. After a failed write or sync a segment gets no more bytes, because nobody
//! knows what the disk has of it: the next batch begins a new one, whose header says where the
//! failed one ends.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use tracing::{error, warn};

use super::batch::Batch;
use super::format::{RECORD_HEADER_LEN, RecordKind, SEGMENT_HEADER_LEN, SegmentHeader};
use super::index::{Index, Place};
use super::types::{JournalLimits, RecordId};
use crate::local_disk::{Disk, DiskFile, checksum};
use crate::sync::Mutex;

/// Live records, and the open files that they are in.
pub(super) type LogIndex = Index<Arc<dyn DiskFile>>;

/// The segments of a journal.
#[derive(Debug)]
pub(super) struct Log {
    disk: Arc<dyn Disk>,
    /// A leaf.
    index: Arc<Mutex<LogIndex>>,
    limits: JournalLimits,
    identity: u64,
    end: LogEnd,
    /// The segment that takes the next batch; `None` before the first one and after a failure.
    current: Option<Segment>,
    copying: Copying,
}

/// Where the durable records end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogEnd {
    /// Number of the newest segment.
    pub(super) segment: u64,
    /// Where its durable records end.
    pub(super) offset: u64,
}

#[derive(Debug)]
struct Segment {
    file: Arc<dyn DiskFile>,
    salt: u32,
    /// Whether its room is claimed: then zeros lie where records will.
    is_claimed: bool,
    /// Where the zeros end that were written behind the records.
    zeros_end: u64,
}

/// Live records of the oldest segment that are copied to the end of the log.
#[derive(Debug, Default)]
struct Copying {
    segment: u64,
    left: VecDeque<RecordId>,
    /// A segment with a record that cannot be read: it stays.
    unreadable: Option<u64>,
}

/// A live record that shall be appended again.
#[derive(Debug)]
pub(super) struct RecordCopy {
    pub(super) id: RecordId,
    pub(super) sum: u32,
    pub(super) payload: Vec<u8>,
}

impl Log {
    /// The log behind `end`. `index` knows what is live in it.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        index: LogIndex,
        limits: JournalLimits,
        identity: u64,
        end: LogEnd,
    ) -> Self {
        Self {
            disk,
            index: Arc::new(Mutex::new(index)),
            limits,
            identity,
            end,
            current: None,
            copying: Copying::default(),
        }
    }

    pub(super) fn index(&self) -> &Arc<Mutex<LogIndex>> {
        &self.index
    }

    /// Makes a batch durable: one write, one sync. An error is final for its records. Returns how
    /// many bytes were written.
    pub(super) fn commit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let room = self.limits.segment_len - self.end.offset.min(self.limits.segment_len);
        if self.current.is_none() || batch.len() as u64 > room {
            self.begin_segment()?;
        }
        let segment = self.current.take();
        let mut segment = segment.expect("a segment was begun");
        let start = self.end.offset;
        segment
            .file
            .write_at(batch.seal(segment.salt, start), start)?;
        let zeros = segment.write_zeros(start..start + batch.len() as u64, &self.limits);
        segment.file.sync_data()?;
        self.current = Some(segment);
        self.end.offset += batch.len() as u64;
        self.note(batch, start);
        Ok(batch.len() + zeros)
    }

    /// Notes in the index what a durable batch says.
    fn note(&self, batch: &Batch, start: u64) {
        let mut index = self.index.lock();
        for record in batch.records() {
            let place = Place {
                segment: self.end.segment,
                offset: start + (record.start + RECORD_HEADER_LEN) as u64,
                len: record.header.len,
                sum: record.header.payload_sum,
                record_len: record.header.record_len() as u64,
            };
            match record.header.kind {
                RecordKind::Release => index.release(record.id()),
                RecordKind::Data if record.is_copy => index.moved(record.id(), place),
                RecordKind::Data => index.insert(record.id(), place),
            }
        }
    }

    /// Makes the next segment. It has its name only after its header is durable, and gets records
    /// only after its name is.
    fn begin_segment(&mut self) -> io::Result<()> {
        self.current = None;
        let number = self.end.segment.checked_add(1);
        let number = number.ok_or_else(|| io::Error::other("no number is left for a segment"))?;
        let header = SegmentHeader {
            len: u32::try_from(self.limits.segment_len).unwrap_or(0),
            number,
            identity: self.identity,
            previous_end: self.end.offset,
        };
        let name = segment_name(number);
        let new = format!("{name}{UNFINISHED}");
        self.disk.remove(&new)?;
        let file = self.disk.create(&new)?;
        let made = file.allocate(self.limits.segment_len).and_then(|claimed| {
            file.write_at(&header.encode(), 0)?;
            file.sync_data()?;
            Ok(claimed)
        });
        let is_claimed = made.inspect_err(|_| {
            // A full disk needs the room; what stays is removed at the next start.
            self.disk.remove(&new).ok();
        })?;
        self.disk.rename(&new, &name)?;
        self.disk.sync()?;
        let len = self.limits.segment_len;
        self.index
            .lock()
            .add_segment(number, Arc::clone(&file), len);
        self.end = LogEnd {
            segment: number,
            offset: SEGMENT_HEADER_LEN as u64,
        };
        let salt = header.salt();
        self.current = Some(Segment {
            file,
            salt,
            is_claimed,
            zeros_end: 0,
        });
        Ok(())
    }

    /// Begins a segment if there is none: by it the next start knows that nobody has removed the
    /// journal.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let has_segments = self.index.lock().has_segments();
        match has_segments {
            true => Ok(()),
            false => self.begin_segment(),
        }
    }

    /// Removes the oldest segments in which nothing lives.
    pub(super) fn remove_dead(&mut self) {
        loop {
            let Some(number) = self.index.lock().dead_segment() else {
                return;
            };
            // The next one may go only after this one has: it may hide what is in this one.
            let removed = self.disk.remove(&segment_name(number));
            if let Err(error) = removed.and_then(|()| self.disk.sync()) {
                warn!("cannot remove segment {number} of the journal: {error}");
                return;
            }
            self.index.lock().remove_segment(number);
        }
    }

    /// Records to append again, of at most `bytes_max` bytes or one record, if there is too much
    /// garbage.
    pub(super) fn next_copies(&mut self, bytes_max: u64) -> Vec<RecordCopy> {
        let current = self.current.as_ref().map(|_| self.end.segment);
        if self.copying.left.is_empty() {
            let index = self.index.lock();
            let due = index.segment_to_empty(current);
            let Some(segment) = due.filter(|it| self.copying.unreadable != Some(*it)) else {
                return Vec::new();
            };
            self.copying.left = index.live_in(segment).into();
            self.copying.segment = segment;
        }
        let (mut copies, mut bytes) = (Vec::new(), 0);
        while let Some(id) = self.copying.left.front().copied() {
            let found = self.index.lock().find(id);
            let found = found.filter(|(_, place)| place.segment == self.copying.segment);
            let Some((file, place)) = found else {
                self.copying.left.pop_front();
                continue;
            };
            bytes += place.record_len;
            if bytes > bytes_max && !copies.is_empty() {
                break;
            }
            self.copying.left.pop_front();
            match read(&*file, &place) {
                Ok(payload) => copies.push(RecordCopy {
                    id,
                    sum: place.sum,
                    payload,
                }),
                Err(error) => {
                    error!("segment {} of the journal stays: {error}", place.segment);
                    self.copying.unreadable = Some(place.segment);
                    self.copying.left.clear();
                }
            }
        }
        copies
    }
}

impl Segment {
    /// Writes zeros behind the small batch `written`, if there are none. Returns how many.
    ///
    /// Room that was claimed and never written becomes part of the file with the first sync of its
    /// bytes, which makes the file system commit its own journal: doc/internals/staging.md has the
    /// times.
    fn write_zeros(&mut self, written: Range<u64>, limits: &JournalLimits) -> usize {
        let is_small = written.end - written.start <= limits.small_batch_len();
        if !is_small || !self.is_claimed || written.end < self.zeros_end {
            return 0;
        }
        self.zeros_end = limits.segment_len.min(written.end + limits.zeros_len());
        let len = self.zeros_end.saturating_sub(written.end);
        let zeros = vec![0; usize::try_from(len).unwrap_or(0)];
        // If they cannot be written, zeros lie there all the same: the room is claimed. An error
        // of the disk is that of the sync.
        self.file.write_at(&zeros, written.end).ok();
        zeros.len()
    }
}

/// Reads a record's payload and compares it with its checksum.
pub(super) fn read(file: &dyn DiskFile, place: &Place) -> io::Result<Vec<u8>> {
    let mut payload = vec![0; place.len as usize];
    let read = file.read_at(&mut payload, place.offset)?;
    if read < payload.len() || checksum(&[&payload]) != place.sum {
        let text = format!(
            "the journal's segment {} is damaged at byte {}",
            place.segment, place.offset
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(payload)
}

/// Reads the first `len` bytes of a record's payload.
pub(super) fn read_beginning(
    file: &dyn DiskFile,
    place: &Place,
    len: usize,
) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len.min(place.len as usize)];
    let read = file.read_at(&mut bytes, place.offset)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The name of a segment's file.
pub(super) fn segment_name(number: u64) -> String {
    format!("{PREFIX}{number:08}")
}

/// The number of the segment that has this name; `None` if it is another file.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

/// Whether a file is a segment that got no name.
pub(super) fn is_unfinished(name: &str) -> bool {
    let segment = name.strip_suffix(UNFINISHED);
    segment.is_some_and(|name| segment_number(name).is_some())
}

const PREFIX: &str = "journal-";
const UNFINISHED: &str = ".new";
