//! Chunks of an extent in their stored form: each proves by itself what it is.
//!
//! Pure. The checksum of a chunk covers a secret of nobody but a name for one place: the hash of
//! store, key, version, extent and format. So an object of another program, of another version or
//! format, or in another place has wrong checksums, and so has damage: all are misses.

use crc_fast::{CrcAlgorithm, Digest};

use super::extents::{CHUNK_BYTES, TRAILER_BYTES};

/// Hash of all that an extent is, which its checksums cover.
pub(in crate::cache::shared) type Seed = [u8; 32];

/// The trailer of a chunk.
pub(in crate::cache::shared) type Trailer = [u8; TRAILER_BYTES];

/// The trailer of the chunk `number` of an extent, whose bytes are `pieces`.
pub(in crate::cache::shared) fn seal<'a>(
    seed: &Seed,
    number: u32,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Trailer {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(seed);
    let mut len = 0u32;
    for piece in pieces {
        digest.update(piece);
        // A chunk is far below 4 GiB.
        len += u32::try_from(piece.len()).unwrap_or(u32::MAX);
    }
    let mut trailer: Trailer = [0; TRAILER_BYTES];
    trailer[..4].copy_from_slice(MAGIC);
    trailer[4..8].copy_from_slice(&FORMAT.to_le_bytes());
    trailer[8..12].copy_from_slice(&number.to_le_bytes());
    trailer[12..16].copy_from_slice(&len.to_le_bytes());
    digest.update(&trailer[..16]);
    trailer[16..].copy_from_slice(&digest.finalize().to_le_bytes());
    trailer
}

/// The bytes of a chunk with its trailer, if it is the chunk `number` of that extent, undamaged.
pub(in crate::cache::shared) fn open<'a>(
    seed: &Seed,
    number: u32,
    frame: &'a [u8],
) -> Option<&'a [u8]> {
    let (chunk, trailer) = frame.split_last_chunk::<TRAILER_BYTES>()?;
    let is_chunk = !chunk.is_empty() && chunk.len() <= CHUNK_BYTES;
    (is_chunk && seal(seed, number, [chunk]) == *trailer).then_some(chunk)
}

/// The first bytes of each trailer.
const MAGIC: &[u8; 4] = b"MS3X";

/// Version of the stored form. It is also in the names of objects, so that another version is never
/// even read.
pub(in crate::cache::shared) const FORMAT: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = [7; 32];

    fn frame(number: u32, bytes: &[u8]) -> Vec<u8> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let mut frame = bytes.to_vec();
        frame.extend(seal(&SEED, number, [first, second]));
        frame
    }

    #[test]
    fn a_chunk_is_what_was_sealed() {
        for len in [1, 2, 100, CHUNK_BYTES] {
            let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
            assert_eq!(open(&SEED, 3, &frame(3, &bytes)), Some(&bytes[..]));
        }
    }

    #[test]
    fn all_else_is_none() {
        let whole = frame(3, b"some bytes");
        assert_eq!(open(&SEED, 4, &whole), None, "another place");
        assert_eq!(open(&[8; 32], 3, &whole), None, "another extent");
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&SEED, 3, &flipped), None, "bit {bit}");
        }
        for len in 0..whole.len() {
            assert_eq!(open(&SEED, 3, &whole[..len]), None, "cut to {len}");
            assert_eq!(open(&SEED, 3, &whole[len + 1..]), None, "cut from {len}");
        }
        assert_eq!(open(&SEED, 3, &vec![0; CHUNK_BYTES]), None);
        assert_eq!(open(&SEED, 3, &frame(3, &vec![0; CHUNK_BYTES + 1])), None);
        let mut newer = whole.clone();
        newer[whole.len() - 20] = 2;
        assert_eq!(open(&SEED, 3, &newer), None, "a newer format");
    }
}
