//! The bytes of a file that is in memory alone, in chunks that are parts of its upload.
//!
//! A chunk becomes the body of a request as it is. While a request has it, a write over its bytes
//! goes to a copy. Waits for nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use mountpoint_crt_sys::block::BlockPool;

use super::memory_file::{FileMemory, Share};
use crate::sync::Mutex;
use crate::write::{PartBody, WriteContext, WrittenPart};

/// What chunks are made of.
#[derive(Clone)]
pub(in crate::staging) struct ChunkSource {
    pub(in crate::staging) writing: Arc<WriteContext>,
    pub(in crate::staging) pool: BlockPool,
    pub(in crate::staging) memory: Arc<FileMemory>,
}

/// The chunks of one data file, by their first offset. A leaf; nothing is given back under it.
pub(super) struct Chunks {
    source: ChunkSource,
    table: Mutex<BTreeMap<u64, Chunk>>,
}

/// Memory that is needed no longer. To be dropped with no lock held: that wakes who waits for
/// memory.
#[must_use]
#[derive(Default)]
pub(in crate::staging) struct Discarded(#[expect(dead_code, reason = "it is dropped")] Vec<Chunk>);

/// The bytes of a range.
struct Chunk {
    range: Range<u64>,
    part: WrittenPart,
    /// The memory of the part, given back with it.
    share: Arc<Mutex<Share>>,
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
}

impl Chunks {
    /// No bytes.
    pub(super) fn new(source: &ChunkSource) -> Self {
        Self {
            source: source.clone(),
            table: Mutex::default(),
        }
    }

    /// Writes `data` at `offset`. `false`, and no change, if there is no memory for it.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> bool {
        let range = offset..offset + data.len() as u64;
        let mut replaced = Vec::new();
        let mut table = self.table.lock();
        let has_room = self.make_room(&mut table, &range, &mut replaced).is_some();
        if has_room {
            let mut rest = data;
            for chunk in chunks_of(&mut table, &range) {
                let of = chunk.of(&range);
                let (piece, behind) = rest.split_at(of.len());
                rest = behind;
                chunk.part.write(of.start, piece);
            }
        }
        drop(table);
        drop(replaced);
        has_room
    }

    /// Has chunks for all of `range` that can be written there. `None` if there is no memory.
    fn make_room(
        &self,
        table: &mut BTreeMap<u64, Chunk>,
        range: &Range<u64>,
        replaced: &mut Vec<Chunk>,
    ) -> Option<()> {
        let mut at = range.start;
        while at < range.end {
            let place = self.source.writing.part_at(at)?;
            at = place.end;
            match table.get_mut(&place.start) {
                None => {
                    let made = self.make(place.clone(), stage(&place, range.end))?;
                    table.insert(place.start, made);
                }
                Some(chunk) => {
                    let of = chunk.of(range);
                    let capacity = match of.end > chunk.part.capacity() {
                        true => stage(&place, range.end),
                        false => chunk.part.capacity(),
                    };
                    let is_grown = capacity > chunk.part.capacity();
                    let is_written_over = of.start < chunk.part.len();
                    if chunk.part.is_in_flight() && (is_grown || is_written_over) {
                        let mut copy = self.make(place.clone(), capacity)?;
                        copy.part.copy_from(&chunk.part);
                        replaced.push(std::mem::replace(chunk, copy));
                    } else if is_grown {
                        let more = capacity - chunk.part.capacity();
                        let share = self.source.memory.take(more as u64)?;
                        chunk.share.lock().merge(share);
                        chunk.part.grow(capacity);
                    }
                }
            }
        }
        Some(())
    }

    fn make(&self, range: Range<u64>, capacity: usize) -> Option<Chunk> {
        let share = self.source.memory.take(capacity as u64)?;
        let share = Arc::new(Mutex::new(share));
        let algorithm = self.source.writing.config().checksum;
        let guard = Arc::clone(&share);
        Some(Chunk {
            part: WrittenPart::new(&self.source.pool, capacity, guard, algorithm),
            range,
            share,
        })
    }

    /// Has `copy` take the bytes of `range`, piece by piece. `false`, and no call, if some are not
    /// here.
    pub(super) fn read(&self, range: &Range<u64>, mut copy: impl FnMut(&[u8])) -> bool {
        let mut table = self.table.lock();
        let mut at = range.start;
        for chunk in chunks_of(&mut table, range) {
            let of = chunk.of(range);
            if chunk.range.start > at || chunk.part.len() < of.end {
                return false;
            }
            at = chunk.range.end;
        }
        if at < range.end {
            return false;
        }
        for chunk in chunks_of(&mut table, range) {
            let of = chunk.of(range);
            copy(chunk.part.bytes(of));
        }
        true
    }

    /// The bytes of `range` as the body of a request, if they begin a chunk and end in it. With
    /// `sums`, they are summed if need be; otherwise they must have been.
    pub(super) fn body(&self, range: &Range<u64>, sums: bool) -> Option<PartBody> {
        let table = self.table.lock();
        let chunk = table.get(&range.start)?;
        let len = chunk.of(range).len();
        let is_whole = range.end <= chunk.range.end && len <= chunk.part.len();
        let is_ready = sums || chunk.part.is_summed(len);
        (is_whole && is_ready).then(|| chunk.part.body(len))
    }

    /// The end of the last chunk; 0 without one.
    pub(super) fn end(&self) -> u64 {
        let table = self.table.lock();
        let last = table.last_key_value();
        last.map_or(0, |(_, chunk)| chunk.range.end)
    }

    /// Bytes of memory that the chunks take.
    pub(super) fn bytes(&self) -> u64 {
        let table = self.table.lock();
        let bytes = table.values().map(|chunk| chunk.part.capacity() as u64);
        bytes.sum()
    }

    /// Takes out the chunks that are whole in `range`.
    pub(super) fn discard(&self, range: &Range<u64>) -> Discarded {
        let mut table = self.table.lock();
        let inside = table.range(range.clone());
        let inside = inside.filter(|(_, chunk)| chunk.range.end <= range.end);
        let starts: Vec<_> = inside.map(|(start, _)| *start).collect();
        Discarded(
            starts
                .iter()
                .filter_map(|start| table.remove(start))
                .collect(),
        )
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

/// Bytes of memory for a chunk of `place` that is written up to `end`: small files take little.
fn stage(place: &Range<u64>, end: u64) -> usize {
    let needed = end.min(place.end) - place.start;
    let whole = place.end - place.start;
    let stage = CHUNK_STAGES.into_iter().find(|stage| needed <= *stage);
    usize::try_from(stage.unwrap_or(whole).min(whole)).expect("a part fits into memory")
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks")
            .field("chunks", &self.table.lock().len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ChunkSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkSource")
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// Sizes of a chunk before it takes the memory of a whole part, in bytes.
const CHUNK_STAGES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];
