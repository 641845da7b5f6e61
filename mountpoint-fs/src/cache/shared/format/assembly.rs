//! The pieces of an extent that were fetched, until they are all of it.
//!
//! Holds the blocks themselves, so no byte is copied before the extent is whole. All held
//! bytes count in [`HeldBytes`], whose bound the caller keeps.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mountpoint_crt_sys::block::BlockFill;

use super::extents::{CHUNK_LEN, ExtentPlace};
use super::frame::{Seed, seal};
use crate::operation::Slices;

/// Bytes that all assemblies of a mount hold.
#[derive(Clone, Debug, Default)]
pub(in crate::cache::shared) struct HeldBytes(Arc<AtomicU64>);

impl HeldBytes {
    pub(in crate::cache::shared) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Pieces of one extent, in order; they may overlap.
#[derive(Debug)]
pub(in crate::cache::shared) struct Assembly {
    pieces: Vec<AssembledPiece>,
    len: u64,
    held: HeldBytes,
}

#[derive(Debug)]
struct AssembledPiece {
    range: Range<u64>,
    slices: Slices,
}

impl Assembly {
    pub(in crate::cache::shared) fn new(held: &HeldBytes) -> Self {
        Self {
            pieces: Vec::new(),
            len: 0,
            held: held.clone(),
        }
    }

    /// Adds the bytes of `range`, which are `slices`, unless they are there.
    pub(in crate::cache::shared) fn add(&mut self, range: &Range<u64>, slices: Slices) {
        let is_inside = |piece: &AssembledPiece| {
            piece.range.start <= range.start && range.end <= piece.range.end
        };
        if self.pieces.iter().any(is_inside) {
            return;
        }
        let place = self
            .pieces
            .partition_point(|piece| piece.range.start < range.start);
        let len = range.end - range.start;
        self.len += len;
        self.held.0.fetch_add(len, Ordering::Relaxed);
        let range = range.clone();
        self.pieces.insert(place, AssembledPiece { range, slices });
    }

    /// Whether all bytes of `range` are there.
    pub(in crate::cache::shared) fn covers(&self, range: &Range<u64>) -> bool {
        let mut from = range.start;
        for piece in &self.pieces {
            if piece.range.start > from {
                break;
            }
            from = from.max(piece.range.end);
        }
        from >= range.end
    }

    /// Writes the stored form of the extent, all of which is there, into `body`.
    pub(in crate::cache::shared) fn seal_into(
        &self,
        place: &ExtentPlace,
        seed: &Seed,
        body: &mut BlockFill,
    ) {
        assert!(self.covers(&place.range));
        let (mut from, mut number) = (place.range.start, 0);
        while from < place.range.end {
            let chunk = from..place.range.end.min(from + CHUNK_LEN);
            let bytes = self.bytes(&chunk);
            let trailer = seal(seed, number, bytes.iter().copied());
            bytes.iter().for_each(|piece| body.append(piece));
            body.append(&trailer);
            (from, number) = (chunk.end, number + 1);
        }
    }

    /// The bytes of `range`, all of which are there.
    fn bytes(&self, range: &Range<u64>) -> Vec<&[u8]> {
        let mut found = Vec::new();
        let mut from = range.start;
        for piece in &self.pieces {
            if piece.range.end <= from || from >= range.end {
                continue;
            }
            let mut at = piece.range.start;
            for (block, slice) in &piece.slices {
                let len = slice.len() as u64;
                let end = at + len;
                let until = end.min(range.end);
                if from >= at && from < until {
                    let skipped = usize::try_from(from - at).unwrap_or(usize::MAX);
                    let taken = usize::try_from(until - from).unwrap_or(0);
                    let start = slice.start + skipped;
                    found.push(block.bytes(start..start + taken));
                    from = until;
                }
                at = end;
            }
        }
        found
    }
}

impl Drop for Assembly {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.len, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use mountpoint_crt_sys::block::BlockPool;

    use super::*;
    use crate::cache::shared::format::extents::FRAME_BYTES;
    use crate::cache::shared::format::frame::open;

    const SEED: Seed = [1; 32];

    fn byte(at: u64) -> u8 {
        u8::try_from(at % 249).unwrap()
    }

    fn slices(range: &Range<u64>) -> Slices {
        // In two blocks, of which only a part counts.
        let pool = BlockPool::new(0);
        let middle = (range.start + range.end) / 2;
        let mut slices = Slices::new();
        for part in [range.start..middle, middle..range.end] {
            let bytes: Vec<u8> = part.clone().map(byte).collect();
            let mut fill = pool.allocate(bytes.len() + 3);
            fill.append(b"xyz");
            fill.append(&bytes);
            slices.push((fill.block(), 3..bytes.len() + 3));
        }
        slices
    }

    #[track_caller]
    fn check(size: u64, pieces: &[Range<u64>]) {
        let held = HeldBytes::default();
        let place = ExtentPlace::at(0, size);
        let mut assembly = Assembly::new(&held);
        for piece in pieces {
            assert!(!assembly.covers(&place.range), "{piece:?} is too much");
            assembly.add(piece, slices(piece));
        }
        assert!(assembly.covers(&place.range));
        let stored_len = usize::try_from(place.stored_len()).unwrap();
        let mut body = BlockPool::new(0).allocate(stored_len);
        assembly.seal_into(&place, &SEED, &mut body);
        assert_eq!(body.filled(), stored_len);
        let mut at = 0;
        for (number, frame) in body.bytes().chunks(FRAME_BYTES).enumerate() {
            let chunk = open(&SEED, u32::try_from(number).unwrap(), frame).unwrap();
            for found in chunk {
                assert_eq!(*found, byte(at));
                at += 1;
            }
        }
        assert_eq!(at, size);
        assert!(held.bytes() >= size);
        drop(assembly);
        assert_eq!(held.bytes(), 0);
    }

    #[test]
    fn pieces_in_any_order_make_an_extent() {
        let whole = 100_000;
        check(1, std::slice::from_ref(&(0..1)));
        check(whole, std::slice::from_ref(&(0..whole)));
        check(whole, &[50_000..whole, 0..50_000]);
        check(whole, &[50_000..whole, 10_000..60_000, 0..20_000]);
        check(whole, &[0..10, 90_000..whole, 5..95_000]);
    }

    #[test]
    fn a_gap_is_not_covered() {
        let held = HeldBytes::default();
        let mut assembly = Assembly::new(&held);
        for piece in [0..10, 11..20, 3..7] {
            assembly.add(&piece, slices(&piece));
        }
        assert_eq!(held.bytes(), 19);
        assert!(!assembly.covers(&(0..20)));
        assert!(assembly.covers(&(0..10)));
        assert!(!Assembly::new(&held).covers(&(0..1)));
    }
}
