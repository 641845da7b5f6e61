//! The records of a journal at the start.
//!
//! Changes nothing on the disk, so that a start which the power ends can be repeated. A tail that
//! was never acknowledged is cut: the next segment's header says where. Damage before that is
//! reported, never skipped.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use super::format::{
    FORMAT, HeaderError, RECORD_ALIGN, RECORD_HEADER_LEN, RecordHeader, RecordKind,
    SEGMENT_HEADER_LEN, SegmentHeader,
};
use super::index::Place;
use super::log::{LogEnd, LogIndex, segment_name, segment_number};
use super::types::{Damage, DamageReason, JournalError, RecordId, RecordKey};
use crate::local_disk::{Disk, DiskFile, checksum};

/// The valid records of a journal, and its end.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) index: LogIndex,
    pub(super) end: LogEnd,
    /// Of the journal; `None` if there is no segment.
    pub(super) identity: Option<u64>,
    /// Highest version of any record.
    pub(super) version: u64,
    /// Parts that were durable once and are not valid.
    pub(super) damage: Vec<Damage>,
    pub(super) last_batch: Option<LastBatch>,
}

/// The newest batch. The process that wrote it may have ended before it was durable.
#[derive(Debug)]
pub(super) struct LastBatch {
    file: Arc<dyn DiskFile>,
    start: u64,
    bytes: Vec<u8>,
}

impl LastBatch {
    /// Makes it durable, as all that is written behind it says of it. Writes its bytes again:
    /// behind a sync that failed, Linux takes them for written.
    pub(super) fn make_durable(&self) -> io::Result<()> {
        self.file.write_at(&self.bytes, self.start)?;
        self.file.sync_data()
    }
}

/// Reads all segments.
pub(super) fn scan(disk: &dyn Disk) -> Result<Found, JournalError> {
    let mut segments = Vec::new();
    for number in segment_numbers(disk)? {
        segments.push(ScannedSegment::open(disk, number)?);
    }
    let mut damage = Vec::new();
    let identity = segments.iter().find_map(|segment| segment.header);
    let identity = identity.map(|(header, _)| header.identity);
    let mut fates = Fates::default();
    let (mut end, mut last_batch) = (LogEnd::default(), None);
    for (place, segment) in segments.iter().enumerate() {
        let expected = place
            .checked_sub(1)
            .map(|before| segments[before].number + 1);
        if let Some(missing) = expected.filter(|expected| *expected != segment.number) {
            damage.push(damage_at(missing, 0, DamageReason::Missing));
        }
        let next = segments
            .get(place + 1)
            .filter(|next| next.number == segment.number + 1);
        let stated = next.and_then(|next| next.header);
        let stated = stated.map(|(header, _)| header.previous_end);
        let (offset, batch) = segment.read(identity, stated, &mut fates, &mut damage)?;
        end = LogEnd {
            segment: segment.number,
            offset,
        };
        last_batch = batch;
    }
    let version = fates.version;
    let mut index = LogIndex::new();
    for segment in segments {
        index.add_segment(segment.number, segment.file, segment.len);
    }
    for (id, place) in fates.into_live() {
        index.insert(id, place);
    }
    Ok(Found {
        index,
        end,
        identity,
        version,
        damage,
        last_batch,
    })
}

fn segment_numbers(disk: &dyn Disk) -> io::Result<Vec<u64>> {
    let names = disk.list()?;
    let numbers = names.iter().filter_map(|name| segment_number(name));
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn damage_at(segment: u64, offset: u64, reason: DamageReason) -> Damage {
    Damage {
        segment,
        offset,
        reason,
    }
}

#[derive(Debug)]
struct ScannedSegment {
    number: u64,
    file: Arc<dyn DiskFile>,
    len: u64,
    /// With the salt of its records; `None` if it is not valid.
    header: Option<(SegmentHeader, u32)>,
}

impl ScannedSegment {
    fn open(disk: &dyn Disk, number: u64) -> Result<Self, JournalError> {
        let file = disk.open(&segment_name(number))?;
        let len = file.size()?;
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        let read = file.read_at(&mut bytes, 0)?;
        let header = match SegmentHeader::decode(&bytes[..read]) {
            Ok(header) => Some(header),
            Err(HeaderError::Invalid) => None,
            Err(HeaderError::Newer(found)) => {
                return Err(JournalError::Newer {
                    segment: number,
                    found,
                    known: FORMAT,
                });
            }
        };
        Ok(Self {
            number,
            file,
            len,
            header,
        })
    }

    /// Reads all records into `fates`; `stated_end` is where the next segment says that this one
    /// ends. Returns where it ends, and its last batch.
    fn read(
        &self,
        identity: Option<u64>,
        stated_end: Option<u64>,
        fates: &mut Fates,
        damage: &mut Vec<Damage>,
    ) -> io::Result<(u64, Option<LastBatch>)> {
        let Some((header, salt)) = self.header else {
            damage.push(damage_at(self.number, 0, DamageReason::Header));
            return Ok((0, None));
        };
        if header.number != self.number || Some(header.identity) != identity {
            damage.push(damage_at(self.number, 0, DamageReason::Foreign));
            return Ok((0, None));
        }
        if self.len < header.file_len() {
            damage.push(damage_at(self.number, self.len, DamageReason::Cut));
        }
        // A longer file was made longer by others.
        let len = self.len.min(header.file_len());
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        let read = self.file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        let records = Records {
            bytes: &bytes,
            salt,
        };
        let (mut at, mut batch_start) = (SEGMENT_HEADER_LEN, SEGMENT_HEADER_LEN as u64);
        let is_before_end = |at: usize| stated_end.is_none_or(|end| (at as u64) < end);
        loop {
            while is_before_end(at) {
                let Some(record) = records.valid_at(at) else {
                    break;
                };
                fates.note(&record.header, self.place(&record));
                at += record.header.record_len();
                batch_start = record.batch_start;
            }
            // Records beyond, by which these bytes were durable: something in between is damaged.
            let beyond = if is_before_end(at) {
                records.proof_beyond(at, stated_end)
            } else {
                None
            };
            let is_short = stated_end.is_some_and(|end| (at as u64) < end);
            if beyond.is_none() && !is_short {
                // What fills the last record up may have been cut off.
                let batch = self.batch(batch_start, &bytes[..at.min(bytes.len())]);
                return Ok((stated_end.unwrap_or(at as u64), batch));
            }
            damage.push(damage_at(self.number, at as u64, DamageReason::Record));
            let Some(beyond) = beyond else {
                return Ok((stated_end.unwrap_or(at as u64), None));
            };
            at = beyond;
        }
    }

    /// The batch from `start` on, at the end of `bytes`.
    fn batch(&self, start: u64, bytes: &[u8]) -> Option<LastBatch> {
        let bytes = bytes.get(usize::try_from(start).ok()?..)?;
        Some(LastBatch {
            file: Arc::clone(&self.file),
            start,
            bytes: bytes.to_vec(),
        })
    }

    fn place(&self, record: &FoundRecord) -> Place {
        Place {
            segment: self.number,
            offset: (record.start + RECORD_HEADER_LEN) as u64,
            len: record.header.len,
            sum: record.header.payload_sum,
            record_len: record.header.record_len() as u64,
        }
    }
}

/// The records of a segment.
struct Records<'a> {
    bytes: &'a [u8],
    salt: u32,
}

struct FoundRecord {
    start: usize,
    header: RecordHeader,
    batch_start: u64,
}

impl Records<'_> {
    /// The valid record at `start`.
    fn valid_at(&self, start: usize) -> Option<FoundRecord> {
        let bytes = self.bytes.get(start..)?;
        let (header, batch_start) = RecordHeader::decode(bytes, self.salt, start as u64)?;
        let payload = bytes.get(RECORD_HEADER_LEN..RECORD_HEADER_LEN + header.len as usize)?;
        (checksum(&[payload]) == header.payload_sum).then_some(FoundRecord {
            start,
            header,
            batch_start,
        })
    }

    /// Where the room begins that was claimed and holds zeros, in which no record begins: most of a
    /// segment.
    fn zeros_from(&self) -> usize {
        let mut end = self.bytes.len();
        while let Some(before) = end.checked_sub(ZEROS.len())
            && self.bytes[before..end] == ZEROS
        {
            end = before;
        }
        end
    }

    /// The first valid record behind the invalid bytes at `invalid` that belongs to a later batch,
    /// or, before a stated end, to any.
    fn proof_beyond(&self, invalid: usize, stated_end: Option<u64>) -> Option<usize> {
        let end = stated_end.map_or(self.bytes.len() as u64, |end| {
            end.min(self.bytes.len() as u64)
        });
        let end = usize::try_from(end).unwrap_or(self.bytes.len());
        let end = end.min(self.zeros_from());
        let places = (invalid + RECORD_ALIGN..end).step_by(RECORD_ALIGN);
        places.into_iter().find(|place| {
            let record = self.valid_at(*place);
            record.is_some_and(|it| stated_end.is_some() || it.batch_start > invalid as u64)
        })
    }
}

const ZEROS: [u8; 4096] = [0; 4096];

/// The newest version of each key.
#[derive(Debug, Default)]
struct Fates {
    /// The newest version, and where it is unless it was released.
    of_key: HashMap<u64, (u64, Option<Place>)>,
    version: u64,
}

impl Fates {
    fn note(&mut self, header: &RecordHeader, place: Place) {
        self.version = self.version.max(header.version);
        let place = (header.kind == RecordKind::Data).then_some(place);
        let fate = self.of_key.entry(header.key).or_insert((0, None));
        // A copy of a record is as new as the record; a release is newer than what it names.
        let is_newer = header.version > fate.0 || (header.version == fate.0 && place.is_none());
        let is_copy = header.version == fate.0 && fate.1.is_some();
        if is_newer || is_copy {
            *fate = (header.version, place);
        }
    }

    fn into_live(self) -> BTreeMap<RecordId, Place> {
        let live = self
            .of_key
            .into_iter()
            .filter_map(|(key, (version, place))| {
                let key = RecordKey(key);
                Some((RecordId { key, version }, place?))
            });
        live.collect()
    }
}
