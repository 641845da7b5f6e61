//! The bytes of a file that is in memory alone, in chunks that are parts of its upload.
//!
//! A chunk becomes the body of a request as it is. While a request has it, a write over its bytes
//! goes to a copy. Waits for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::config::limits::UPLOAD_PART_MIN;
use crate::memory::BufferRequest;
use crate::sync::Mutex;
use crate::write::{Grant, PartBody, Spared, WriteContext, WrittenPart};

/// The chunks of one data file.
pub(super) struct Chunks {
    writing: Arc<WriteContext>,
    /// The budget's is the only lock below it.
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// By their first offset.
    chunks: BTreeMap<u64, Chunk>,
    /// Ends of parts that were sent before they were full.
    cuts: BTreeSet<u64>,
}

/// Where a byte goes.
enum Place {
    /// To the chunk with this beginning.
    Chunk(u64),
    /// To a chunk of this range.
    New(Range<u64>),
}

/// Memory that is needed no longer. To be dropped with no lock held: that wakes who waits for
/// memory.
#[must_use]
#[derive(Default)]
pub(in crate::file) struct Discarded {
    chunks: Vec<Chunk>,
    spared: Vec<Spared>,
}

/// The bytes of a range.
struct Chunk {
    range: Range<u64>,
    part: WrittenPart,
}

impl Chunk {
    /// The offset in it of one in the file.
    fn at(&self, offset: u64) -> usize {
        usize::try_from(offset - self.range.start).expect("a chunk fits into memory")
    }

    /// Its bytes among `range`.
    fn of(&self, range: &Range<u64>) -> Range<usize> {
        let end = self.range.end.min(range.end);
        self.at(self.range.start.max(range.start))..self.at(end)
    }

    /// The end of its bytes.
    fn end(&self) -> u64 {
        self.range.start + self.part.len() as u64
    }

    /// Whether it takes bytes at `offset`: its memory reaches so far, or few zeros come between.
    fn takes(&self, offset: u64) -> bool {
        let reach = self.range.start + self.part.capacity() as u64;
        offset <= reach.max(self.end() + ZEROS_BETWEEN_MAX)
    }
}

impl Table {
    /// The range whose bytes are sent together with the one at `offset`; `None` behind the longest
    /// file.
    fn part(&self, writing: &WriteContext, offset: u64) -> Option<Range<u64>> {
        let planned = writing.part_at(offset)?;
        let cut = self.cuts.range(..=offset).next_back();
        let is_near = |cut: &&u64| planned.start.saturating_sub(**cut) < UPLOAD_PART_MIN;
        let start = cut.filter(is_near).copied().unwrap_or(planned.start);
        // What a cut leaves is too short for a part of its own.
        let end = match planned.end - start < UPLOAD_PART_MIN {
            true => writing
                .part_at(planned.end)
                .map_or(planned.end, |next| next.end),
            false => planned.end,
        };
        let next_cut = self.cuts.range(offset + 1..end).next();
        Some(start..next_cut.copied().unwrap_or(end))
    }

    /// Finds the chunk for the byte at `offset`, or the range of one that is to be made. A chunk
    /// that ends long before it becomes shorter.
    fn place(&mut self, writing: &WriteContext, offset: u64) -> Option<Place> {
        let part = self.part(writing, offset)?;
        let before = self.chunks.range_mut(part.start..=offset).next_back();
        let start = match before {
            Some((start, chunk)) if offset < chunk.range.end && chunk.takes(offset) => {
                return Some(Place::Chunk(*start));
            }
            Some((_, chunk)) => {
                if offset < chunk.range.end {
                    chunk.range.end = chunk.end().max(chunk.range.start + 1);
                }
                chunk.range.end
            }
            None => part.start,
        };
        let start = match offset - start <= ZEROS_BETWEEN_MAX {
            true => start,
            false => start.max(offset - offset % PAGE_LEN),
        };
        let behind = self.chunks.range(offset + 1..part.end).next();
        let end = behind.map_or(part.end, |(next, _)| *next);
        Some(Place::New(start..end))
    }
}

impl Chunks {
    /// No bytes.
    pub(super) fn new(writing: &Arc<WriteContext>) -> Self {
        Self {
            writing: Arc::clone(writing),
            table: Mutex::default(),
        }
    }

    /// Writes `data` at `offset`, in memory of `grant`, if there is one, and of what is free.
    ///
    /// # Errors
    /// Nothing was written: there is not enough memory, and this much is needed.
    pub(super) fn write(
        &self,
        offset: u64,
        data: &[u8],
        grant: &mut Option<Grant>,
    ) -> Result<(), BufferRequest> {
        let range = offset..offset + data.len() as u64;
        let mut discarded = Discarded::default();
        let mut table = self.table.lock();
        let room = self.make_room(&mut table, &range, grant, &mut discarded);
        if room.is_ok() {
            let mut rest = data;
            for chunk in chunks_of(&mut table.chunks, &range) {
                let of = chunk.of(&range);
                let (piece, behind) = rest.split_at(of.len());
                rest = behind;
                chunk.part.write(of.start, piece);
            }
        }
        drop(table);
        drop(discarded);
        room
    }

    /// Has chunks for all of `range` that can be written there.
    fn make_room(
        &self,
        table: &mut Table,
        range: &Range<u64>,
        grant: &mut Option<Grant>,
        discarded: &mut Discarded,
    ) -> Result<(), BufferRequest> {
        let writing = &self.writing;
        let algorithm = writing.config().checksum;
        let mut memory = |(held, needed), whole, is_large| {
            let given = grant.take_if(|given| given.is_for(held, needed));
            let request = writing.request((held, needed), whole, is_large);
            given.or_else(|| writing.try_memory(request)).ok_or(request)
        };
        let mut at = range.start;
        while at < range.end {
            let place = table.place(writing, at).expect("the length was checked");
            let start = match place {
                Place::Chunk(start) => start,
                Place::New(place) => {
                    let needed = len_of(range.end.min(place.end) - place.start);
                    // Bytes come in order, so all of the part is likely to come.
                    let is_large = place.start > 0 && place.start == at;
                    let granted = memory((0, needed), len_of(place.end - place.start), is_large)?;
                    at = place.end;
                    let part = WrittenPart::new(granted, algorithm);
                    table
                        .chunks
                        .insert(place.start, Chunk { range: place, part });
                    continue;
                }
            };
            let chunk = table.chunks.get_mut(&start).expect("it was found");
            let (of, whole) = (chunk.of(range), len_of(chunk.range.end - chunk.range.start));
            at = chunk.range.end;
            let capacity = chunk.part.capacity();
            let is_grown = of.end > capacity;
            let is_written_over = of.start < chunk.part.len();
            if chunk.part.is_in_flight() && (is_grown || is_written_over) {
                let granted = memory((0, of.end.max(chunk.part.len())), whole, false)?;
                let mut part = WrittenPart::new(granted, algorithm);
                part.copy_from(&chunk.part);
                let copy = Chunk {
                    range: chunk.range.clone(),
                    part,
                };
                discarded.chunks.push(std::mem::replace(chunk, copy));
            } else if is_grown {
                let granted = memory((capacity, of.end), whole, false)?;
                discarded.spared.extend(chunk.part.grow(granted));
            }
        }
        Ok(())
    }

    /// The end of the part that begins at `offset`, or has it within; `None` behind the longest
    /// file.
    pub(super) fn part_end(&self, offset: u64) -> Option<u64> {
        let writing = &self.writing;
        let table = self.table.lock();
        let end = table.part(writing, offset)?.end;
        match end - offset < UPLOAD_PART_MIN {
            true => table.part(writing, end).map(|next| next.end),
            false => Some(end),
        }
    }

    /// Has a part begin at `offset`: bytes before it are not here.
    pub(super) fn begin_part(&self, offset: u64) {
        self.table.lock().cuts.insert(offset);
    }

    /// Forgets where parts begin behind `len`, where the file was cut.
    pub(super) fn forget_parts(&self, len: u64) {
        drop(self.table.lock().cuts.split_off(&len));
    }

    /// Whether the chunk at `start` has enough bytes for a part.
    pub(super) fn can_cut(&self, start: u64) -> bool {
        self.end_of_cut(&self.table.lock(), start).is_some()
    }

    /// Ends the part that begins at `start` behind the bytes of its chunk, if they are enough: it
    /// can be sent, and gives all of its memory back.
    pub(super) fn cut_part(&self, start: u64) {
        let mut table = self.table.lock();
        if let Some(end) = self.end_of_cut(&table, start)
            && let Some(chunk) = table.chunks.get_mut(&start)
        {
            chunk.range.end = end;
            table.cuts.insert(end);
        }
    }

    /// Where the part that begins at `start` may end early. Half of the planned length is the
    /// least: S3 takes so many parts and no more.
    fn end_of_cut(&self, table: &Table, start: u64) -> Option<u64> {
        if self.writing.has_fixed_parts() {
            return None;
        }
        let part = table.part(&self.writing, start)?;
        let least = UPLOAD_PART_MIN.max((part.end - part.start) / 2);
        let chunk = table.chunks.get(&start)?;
        let end = chunk.end().min(chunk.range.end);
        (end - start >= least).then_some(end)
    }

    /// Gives back the memory of unfilled parts.
    pub(super) fn shrink(&self) -> Discarded {
        let mut table = self.table.lock();
        let chunks = table.chunks.values_mut();
        let spared = chunks.filter_map(|chunk| chunk.part.cut()).collect();
        Discarded {
            spared,
            ..Discarded::default()
        }
    }

    /// Has `copy` take the bytes of `range`, piece by piece. `false`, and no call, if some are not
    /// here.
    pub(super) fn read(&self, range: &Range<u64>, mut copy: impl FnMut(&[u8])) -> bool {
        let mut table = self.table.lock();
        let mut at = range.start;
        for chunk in chunks_of(&mut table.chunks, range) {
            let of = chunk.of(range);
            if chunk.range.start > at || chunk.part.len() < of.end {
                return false;
            }
            at = chunk.range.end;
        }
        if at < range.end {
            return false;
        }
        for chunk in chunks_of(&mut table.chunks, range) {
            let of = chunk.of(range);
            copy(chunk.part.bytes(of));
        }
        true
    }

    /// The bytes of `range` as the body of a request, if they begin a chunk and end in it. With
    /// `sums`, they are summed if need be; otherwise they must have been.
    pub(super) fn body(&self, range: &Range<u64>, sums: bool) -> Option<PartBody> {
        let table = self.table.lock();
        let chunk = table.chunks.get(&range.start)?;
        let len = chunk.of(range).len();
        let is_whole = range.end <= chunk.range.end && len <= chunk.part.len();
        let is_ready = sums || chunk.part.is_summed(len);
        (is_whole && is_ready).then(|| chunk.part.body(len))
    }

    /// The end of the last chunk; 0 without one.
    pub(super) fn end(&self) -> u64 {
        let table = self.table.lock();
        let last = table.chunks.last_key_value();
        last.map_or(0, |(_, chunk)| chunk.range.end)
    }

    /// Bytes of memory that the chunks take.
    pub(super) fn bytes(&self) -> u64 {
        let table = self.table.lock();
        let bytes = table
            .chunks
            .values()
            .map(|chunk| chunk.part.capacity() as u64);
        bytes.sum()
    }

    /// Takes out the chunks that are whole in `range`.
    pub(super) fn discard(&self, range: &Range<u64>) -> Discarded {
        let mut table = self.table.lock();
        let inside = table.chunks.range(range.clone());
        let inside = inside.filter(|(_, chunk)| chunk.range.end <= range.end);
        let starts: Vec<_> = inside.map(|(start, _)| *start).collect();
        let taken = starts.iter().filter_map(|start| table.chunks.remove(start));
        Discarded {
            chunks: taken.collect(),
            ..Discarded::default()
        }
    }
}

/// The chunks that have bytes of `range`, in order.
fn chunks_of<'a>(
    table: &'a mut BTreeMap<u64, Chunk>,
    range: &Range<u64>,
) -> impl Iterator<Item = &'a mut Chunk> + use<'a> {
    let (start, end) = (range.start, range.end);
    let before = table.range(..=start).next_back();
    let first = before.filter(|(_, chunk)| chunk.range.end > start);
    let first = first.map_or(start, |(first, _)| *first);
    table
        .range_mut(first..end.max(first))
        .map(|(_, chunk)| chunk)
}

fn len_of(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a part fits into memory")
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks")
            .field("chunks", &self.table.lock().chunks.len())
            .finish_non_exhaustive()
    }
}

/// Zeros that are written between two bytes of a chunk. Behind more, another chunk begins.
const ZEROS_BETWEEN_MAX: u64 = 1 << 20;

/// Chunks within a part begin with a page.
const PAGE_LEN: u64 = 4096;
