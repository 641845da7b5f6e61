//! Content that is a function of (seed, offset) and is stored once for all objects.
//!
//! One block of pseudo-random words, [`PERIOD`] bytes long, is repeated without end; the seed says
//! where in the block an object begins. So any range of any object is a few slices of the same
//! memory: nothing is generated and nothing is copied when it is served.
//!
//! Invariant: the eight bytes at an aligned offset name that offset. Every word of the block is
//! different, and the period is 8 times a prime, so two blocks of 2^n bytes hold the same bytes
//! only if they are a multiple of 2^n × 2,097,169 bytes apart (256 GiB for blocks of 128 KiB): a
//! block that lands in the wrong place, comes from another seed, or is shifted by a byte is
//! noticed.

use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use bytes::Bytes;
use md5::{Digest, Md5};

/// Words of the block: the first prime above 2^21, so that no power of two shares a factor with it.
const WORDS: u64 = 2_097_169;

/// Length of the repeated block in bytes: 16 MiB and 136 bytes.
pub const PERIOD: u64 = WORDS * 8;

/// Bytes in one piece of a served body. Large enough that the cost per piece does not show, small
/// enough that a slow reader holds little.
pub(crate) const PIECE_SIZE: usize = 256 * 1024;

/// The block, followed by the beginning of its repetition, so that each piece is one slice.
static BLOCK: LazyLock<Bytes> = LazyLock::new(|| {
    let len = usize::try_from(PERIOD).unwrap_or(usize::MAX) + PIECE_SIZE;
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = 0;
    while bytes.len() < len {
        bytes.extend_from_slice(&mix(word % WORDS).to_le_bytes());
        word += 1;
    }
    bytes.truncate(len);
    Bytes::from(bytes)
});

/// The finaliser of SplitMix64: a bijection, hence no two words of the block are equal.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The value that [`mix`] makes this of.
fn unmix(mixed: u64) -> u64 {
    let mut z = mixed ^ (mixed >> 31) ^ (mixed >> 62);
    z = z.wrapping_mul(inverse(0x94D0_49BB_1331_11EB));
    z = (z ^ (z >> 27) ^ (z >> 54)).wrapping_mul(inverse(0xBF58_476D_1CE4_E5B9));
    z = (z ^ (z >> 30) ^ (z >> 60)).wrapping_mul(inverse(0x9E37_79B9_7F4A_7C15));
    z.wrapping_sub(1)
}

/// The inverse of an odd number modulo 2^64: by Newton's method, which doubles the right bits.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |found, _| {
        found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found)))
    })
}

/// Where in the block the object of `seed` begins.
fn phase(seed: u64) -> u64 {
    mix(seed ^ 0x5EED_5EED_5EED_5EED) % WORDS * 8
}

/// At most `len` and at most [`PIECE_SIZE`] bytes of the object of `seed`, from `offset`.
pub(crate) fn piece(seed: u64, offset: u64, len: u64) -> Bytes {
    piece_at(offset % PERIOD + phase(seed), len)
}

/// At most `len` and at most [`PIECE_SIZE`] bytes of the repeated block, from `place`.
pub(crate) fn piece_at(place: u64, len: u64) -> Bytes {
    let start = usize::try_from(place % PERIOD).expect("the block fits in memory");
    let len = usize::try_from(len).unwrap_or(PIECE_SIZE).min(PIECE_SIZE);
    BLOCK.slice(start..start + len)
}

/// Where in the block the bytes can only come from if they are synthetic: the first aligned word
/// among them tells. The rest of them is not looked at; [`holds`] does that.
pub(crate) fn recognise(bytes: &[u8]) -> Option<u64> {
    bytes
        .windows(8)
        .take(8)
        .zip(0..)
        .find_map(|(word, before)| {
            let word = u64::from_le_bytes(word.try_into().ok()?);
            let index = Some(unmix(word)).filter(|index| *index < WORDS)?;
            Some((index * 8 + PERIOD - before) % PERIOD)
        })
}

/// Whether the repeated block holds `bytes` at `place`.
pub(crate) fn holds(mut place: u64, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let expected = piece_at(place, bytes.len() as u64);
        let Some(rest) = bytes.strip_prefix(&*expected) else {
            return false;
        };
        place += expected.len() as u64;
        bytes = rest;
    }
    true
}

/// The bytes of `range` of any synthetic object with this seed.
#[must_use]
pub fn synthetic_bytes(seed: u64, range: Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut offset = range.start;
    while offset < range.end {
        let piece = piece(seed, offset, range.end - offset);
        offset += piece.len() as u64;
        bytes.extend_from_slice(&piece);
    }
    bytes
}

/// MD5 that stands for the content of (seed, size); the content itself is never hashed.
pub(crate) fn synthetic_md5(seed: u64, size: u64) -> [u8; 16] {
    let mut hash = Md5::new();
    hash.update(b"synthetic");
    hash.update(seed.to_le_bytes());
    hash.update(size.to_le_bytes());
    hash.finalize().into()
}

/// Checks bytes that arrive in order against the content of a synthetic object.
#[derive(Clone, Debug)]
pub struct SyntheticChecker {
    seed: u64,
    offset: u64,
}

/// The first byte that differs from the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticMismatch {
    /// Its offset in the object.
    pub offset: u64,
    /// The byte that the object holds there.
    pub expected: u8,
    /// The byte that was read.
    pub found: u8,
}

impl fmt::Display for SyntheticMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            offset,
            expected,
            found,
        } = self;
        write!(
            f,
            "byte {offset} is {found:#04x} and should be {expected:#04x}"
        )
    }
}

impl std::error::Error for SyntheticMismatch {}

impl SyntheticChecker {
    /// A checker for bytes of the object of `seed`, the first of which is at `offset`.
    #[must_use]
    pub fn new(seed: u64, offset: u64) -> Self {
        Self { seed, offset }
    }

    /// Offset of the next byte that is expected.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Checks the next bytes.
    ///
    /// # Errors
    /// The first byte that differs; the checker stays before it.
    pub fn check(&mut self, mut bytes: &[u8]) -> Result<(), SyntheticMismatch> {
        while !bytes.is_empty() {
            let expected = piece(self.seed, self.offset, bytes.len() as u64);
            let (head, rest) = bytes.split_at(expected.len());
            if head != expected {
                let at = head
                    .iter()
                    .zip(&expected)
                    .take_while(|(a, b)| a == b)
                    .count();
                self.offset += at as u64;
                let (expected, found) = (expected[at], head[at]);
                return Err(SyntheticMismatch {
                    offset: self.offset,
                    expected,
                    found,
                });
            }
            self.offset += head.len() as u64;
            bytes = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn aligned_words_name_their_offset() {
        let words: HashSet<&[u8]> = BLOCK[..usize::try_from(PERIOD).unwrap()]
            .chunks_exact(8)
            .collect();
        assert_eq!(words.len() as u64, WORDS);
        assert!(
            (2..1449).all(|divisor| !WORDS.is_multiple_of(divisor)),
            "the number of words is prime"
        );
    }

    #[test]
    fn a_word_tells_its_place() {
        for value in [0, 1, WORDS - 1, u64::MAX] {
            assert_eq!(unmix(mix(value)), value);
        }
        for place in [0, 1, 7, 8, PERIOD - 9, PERIOD - 1] {
            let bytes = piece_at(place, 100);
            assert_eq!(recognise(&bytes), Some(place), "{place}");
            assert!(holds(place, &bytes) && !holds(place + 1, &bytes), "{place}");
        }
        assert_eq!(recognise(&[0; 100]), None);
    }

    #[test]
    fn any_range_is_the_same_however_it_is_cut() {
        for range in [
            0..0,
            0..1,
            7..29,
            PERIOD - 3..PERIOD + 5,
            PERIOD * 70_000 + 1..PERIOD * 70_000 + 600_000,
        ] {
            let whole = synthetic_bytes(9, range.clone());
            assert_eq!(whole.len() as u64, range.end - range.start, "{range:?}");
            let middle = range.start + (range.end - range.start) / 3;
            let parts = [
                synthetic_bytes(9, range.start..middle),
                synthetic_bytes(9, middle..range.end),
            ];
            assert_eq!(whole, parts.concat(), "{range:?}");
        }
    }

    #[test]
    fn other_places_and_other_seeds_differ() {
        let here = synthetic_bytes(1, 0..4096);
        for (seed, offset) in [
            (1, 4096),
            (1, 1),
            (1, 8 << 20),
            (1, 16 << 20),
            (1, 1 << 40),
            (2, 0),
            (3, 0),
        ] {
            assert_ne!(
                here,
                synthetic_bytes(seed, offset..offset + 4096),
                "{seed} {offset}"
            );
        }
    }

    #[test]
    fn the_checker_finds_the_first_wrong_byte() {
        let mut bytes = synthetic_bytes(4, 1000..1_001_000);
        let mut checker = SyntheticChecker::new(4, 1000);
        assert_eq!(checker.check(&bytes[..333]), Ok(()));
        assert_eq!(checker.check(&bytes[333..]), Ok(()));
        assert_eq!(checker.offset(), 1_001_000);
        bytes[500_000] ^= 1;
        let error = SyntheticChecker::new(4, 1000).check(&bytes).unwrap_err();
        assert_eq!(error.offset, 501_000);
        assert_eq!(error.found, error.expected ^ 1);
    }
}
