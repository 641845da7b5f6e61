//! A record of an index file: one range that is there, or the note that all bytes were compared.
//!
//! ```text
//! 0   8   start of the range; of a note: what was compared (see `Verified`)
//! 8   4   length of the range
//! 12  4   CRC32C of its bytes
//! 16  4   kind: 1 a range, 2 a note
//! 20  4   CRC32C of the 20 bytes before and the header's checksum
//! ```

use super::extents::{CHUNK, Extent};
use crate::local_disk::{Fields, checksum};

/// Bytes of a record.
pub(in crate::cache) const RECORD_LEN: usize = 24;

/// Most records of the index of an object of `size` bytes. With more the entry begins anew: the
/// records of one chunk that count are few, and the others are only read over.
pub(in crate::cache) fn records_max(size: u64) -> u64 {
    let of_chunks = size.div_ceil(CHUNK).saturating_mul(RECORDS_PER_CHUNK);
    of_chunks.saturating_add(RECORDS_MIN).min(RECORDS_MAX)
}

/// Records of a chunk that is filled by reads of a KiB.
const RECORDS_PER_CHUNK: u64 = 64;
/// Records that any index may have: 24 KiB.
const RECORDS_MIN: u64 = 1024;
/// Records of the largest index: 1 GiB, of an object of 2.7 TiB in whole chunks.
const RECORDS_MAX: u64 = (1 << 30) / RECORD_LEN as u64;

/// A record of an index file, behind the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Record {
    /// These bytes are in the data file.
    Stored(Extent),
    /// All bytes were compared with their checksums, while boot and data file had this mark.
    Verified(u64),
}

const STORED: u32 = 1;
const VERIFIED: u32 = 2;

impl Record {
    /// Its bytes behind a header with the checksum `salt`.
    pub(in crate::cache) fn encode(self, salt: u32) -> [u8; RECORD_LEN] {
        let (start, len, crc, kind) = match self {
            Self::Stored(Extent { start, len, crc }) => (start, len, crc, STORED),
            Self::Verified(mark) => (mark, 0, 0, VERIFIED),
        };
        let mut bytes = [0; RECORD_LEN];
        bytes[..8].copy_from_slice(&start.to_le_bytes());
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes[16..20].copy_from_slice(&kind.to_le_bytes());
        let sum = check(&bytes, salt);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The record that `bytes` are; `None` if they are none.
    pub(in crate::cache) fn decode(bytes: &[u8; RECORD_LEN], salt: u32) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (start, len, crc) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let kind = fields.u32()?;
        if fields.u32()? != check(bytes, salt) {
            return None;
        }
        match kind {
            STORED => Some(Self::Stored(Extent { start, len, crc })),
            VERIFIED => Some(Self::Verified(start)),
            _ => None,
        }
    }
}

fn check(bytes: &[u8; RECORD_LEN], salt: u32) -> u32 {
    checksum(&[&bytes[..20], &salt.to_le_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: [Record; 2] = [
        Record::Stored(Extent {
            start: 5 << 40,
            len: 65536,
            crc: 0xdead_beef,
        }),
        Record::Verified(0x0123_4567_89ab_cdef),
    ];

    #[test]
    fn a_record_comes_back() {
        for record in RECORDS {
            assert_eq!(Record::decode(&record.encode(7), 7), Some(record));
        }
    }

    #[test]
    fn each_flipped_bit_and_each_other_header_is_noticed() {
        for record in RECORDS {
            let bytes = record.encode(7);
            assert_eq!(Record::decode(&bytes, 8), None);
            for place in 0..RECORD_LEN * 8 {
                let mut flipped = bytes;
                flipped[place / 8] ^= 1 << (place % 8);
                assert_eq!(Record::decode(&flipped, 7), None, "bit {place}");
            }
        }
    }

    #[test]
    fn zeros_are_no_record() {
        assert_eq!(Record::decode(&[0; RECORD_LEN], 7), None);
    }
}
