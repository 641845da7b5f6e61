//! The content of an object: bytes in memory, or a pattern that is computed when it is read.
//!
//! Invariant: a content never changes, so a GET that holds one is not disturbed by a replaced
//! object.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use crc_fast::CrcAlgorithm;

use crate::types::ETag;

/// Bytes of a pattern that are produced at once: large enough to be cheap, small enough for a
/// cache.
const SCRATCH_LEN: usize = 64 * 1024;

/// The bytes of one object or part; cheap to clone.
#[derive(Clone, Debug)]
pub struct Content {
    pieces: Arc<[Piece]>,
    size: u64,
}

#[derive(Clone, Debug)]
enum Piece {
    Bytes(Bytes),
    Pattern {
        seed: u64,
        range: Range<u64>,
    },
    /// So many bytes that count and are not written.
    Unwritten(u64),
}

impl Piece {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Pattern { range, .. } => range.end - range.start,
            Self::Unwritten(size) => *size,
        }
    }

    fn slice(&self, range: Range<u64>) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(index(range.start)..index(range.end))),
            Self::Pattern { seed, range: own } => Self::Pattern {
                seed: *seed,
                range: own.start + range.start..own.start + range.end,
            },
            Self::Unwritten(_) => Self::Unwritten(range.end - range.start),
        }
    }

    /// The input of an ETag: the bytes themselves, or the recipe of a pattern.
    fn fingerprint(&self, into: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => {
                for algorithm in [CrcAlgorithm::Crc64Nvme, CrcAlgorithm::Crc64Ecma182] {
                    into.extend(crc_fast::checksum(algorithm, bytes).to_le_bytes());
                }
                into.extend((bytes.len() as u64).to_le_bytes());
            }
            Self::Pattern { seed, range } => {
                for number in [*seed, range.start, range.end] {
                    into.extend(number.to_le_bytes());
                }
            }
            Self::Unwritten(size) => into.extend(size.to_le_bytes()),
        }
    }
}

impl Content {
    /// These bytes.
    #[must_use]
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            size: bytes.len() as u64,
            pieces: Arc::from([Piece::Bytes(bytes)]),
        }
    }

    /// `size` bytes of [`pattern_bytes`], computed when they are read.
    #[must_use]
    pub fn pattern(size: u64, seed: u64) -> Self {
        Self {
            size,
            pieces: Arc::from([Piece::Pattern {
                seed,
                range: 0..size,
            }]),
        }
    }

    /// `size` bytes for models of time and memory: GETs publish them without writing them, so that
    /// blocks take no memory. Readers see zeros, or bytes of an earlier block.
    #[must_use]
    pub fn unwritten(size: u64) -> Self {
        Self {
            size,
            pieces: Arc::from([Piece::Unwritten(size)]),
        }
    }

    /// Whether all bytes are [unwritten](Self::unwritten) ones.
    pub(in crate::testing::sim) fn is_unwritten(&self) -> bool {
        let is_unwritten = |piece: &Piece| matches!(piece, Piece::Unwritten(_));
        self.pieces.iter().all(is_unwritten)
    }

    /// All of `contents`, one behind the other.
    #[must_use]
    pub fn concat<'a>(contents: impl IntoIterator<Item = &'a Self>) -> Self {
        let pieces: Arc<[Piece]> = contents
            .into_iter()
            .flat_map(|content| content.pieces.iter().cloned())
            .collect();
        Self {
            size: pieces.iter().map(Piece::size).sum(),
            pieces,
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A part of it. Panics unless `range` lies inside.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Self {
        assert!(range.start <= range.end);
        assert!(range.end <= self.size);
        let mut pieces = Vec::new();
        let mut at = 0;
        for piece in self.pieces.iter() {
            let (start, end) = (at, at + piece.size());
            at = end;
            let wanted = range.start.max(start)..range.end.min(end);
            if wanted.start < wanted.end {
                pieces.push(piece.slice(wanted.start - start..wanted.end - start));
            }
        }
        Self {
            pieces: pieces.into(),
            size: range.end - range.start,
        }
    }

    /// Shows the bytes of `range` to `sink`, in order. Panics unless `range` lies inside.
    pub fn read(&self, range: Range<u64>, mut sink: impl FnMut(&[u8])) {
        for piece in self.slice(range).pieces.iter() {
            match piece {
                Piece::Bytes(bytes) => sink(bytes),
                Piece::Unwritten(size) => {
                    let zeros = [0; 4096];
                    let mut left = index(*size);
                    while left > 0 {
                        let len = left.min(zeros.len());
                        sink(&zeros[..len]);
                        left -= len;
                    }
                }
                Piece::Pattern { seed, range } => {
                    let mut at = range.start;
                    while at < range.end {
                        let end = range.end.min(at + SCRATCH_LEN as u64);
                        sink(&pattern_bytes(*seed, at..end));
                        at = end;
                    }
                }
            }
        }
    }

    /// All bytes, for tests that compare.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(index(self.size));
        self.read(0..self.size, |piece| bytes.extend_from_slice(piece));
        bytes
    }

    /// The ETag of these bytes, uploaded in one request: the same for the same bytes, as an MD5
    /// would be.
    #[must_use]
    pub fn etag(&self) -> ETag {
        let mut recipe = Vec::new();
        self.pieces
            .iter()
            .for_each(|piece| piece.fingerprint(&mut recipe));
        ETag::from_header(&format!("\"{}\"", digest(&recipe)))
    }
}

/// The ETag of an object made of parts with these ETags: `"…-N"`, as S3 makes them.
pub(crate) fn multipart_etag(parts: &[ETag]) -> ETag {
    ETag::of_parts(parts).expect("each is a digest")
}

/// 32 hexadecimal digits, like an MD5 and cheaper; no protection against anybody.
fn digest(recipe: &[u8]) -> String {
    let high = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, recipe);
    let low = crc_fast::checksum(CrcAlgorithm::Crc64Ecma182, recipe);
    format!("{high:016x}{low:016x}")
}

/// Bytes `range` of the synthetic content with this seed.
///
/// Each aligned group of eight bytes occurs once in a content, so bytes that were read from a wrong
/// offset or from a content with another seed cannot pass a comparison.
#[must_use]
pub fn pattern_bytes(seed: u64, range: Range<u64>) -> Vec<u8> {
    const WORD: u64 = 8;
    let first = range.start / WORD;
    let last = range.end.div_ceil(WORD).max(first);
    let mut bytes = Vec::with_capacity(index((last - first) * WORD));
    for word in first..last {
        // Both steps can be undone, so different words give different values.
        let mixed = (word ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.extend_from_slice(&(mixed ^ (mixed >> 32)).to_le_bytes());
    }
    bytes.truncate(index(range.end.saturating_sub(first * WORD)));
    bytes.drain(..index(range.start - first * WORD).min(bytes.len()));
    bytes
}

/// A position inside memory; only contents that fit into memory are ever indexed.
pub(crate) fn index(position: u64) -> usize {
    usize::try_from(position).expect("64-bit platforms only")
}
