//! The bytes of a segment file: a header, then records.
//!
//! ```text
//! header                                   record, at a multiple of 8
//! 0   8   magic "MPSTAGE\n"                0   4   kind: 1 data, 2 release
//! 8   4   format: 2, or 1 of 0.2.0         4   4   length of the payload
//! 12  4   length of the file, 0 for 64 MiB 8   8   key
//! 16  8   number of the segment            16  8   version
//! 24  8   identity of the journal          24  8   where its batch begins
//! 32  8   where the segment before ends    32  4   CRC32C of the payload
//! 40  4   CRC32C of all before             36  4   CRC32C of all before, see below
//! 44  4   zero                             40  …   payload, zeros up to a multiple of 8
//! ```
//!
//! The checksum of a record's header also covers that of the segment's header and the record's own
//! place, so that the record counts nowhere else.
//!
//! All bytes before the place where a record's batch begins were durable when the record was
//! written. So an invalid record before that place is damage, and any other one may be a batch that
//! the power loss cut.

use crate::local_disk::{Fields, checksum};

/// Bytes of a segment's header.
pub(super) const SEGMENT_HEADER_LEN: usize = 48;
/// Bytes of a record's header.
pub(super) const RECORD_HEADER_LEN: usize = 40;
/// Records begin at multiples of this.
pub(super) const RECORD_ALIGN: usize = 8;

/// Keys and versions are counted up from those that were found: no counter gets so far.
pub(super) const NUMBER_MAX: u64 = u64::MAX / 2;

const MAGIC: &[u8; 8] = b"MPSTAGE\n";

/// Bytes of each segment of version 0.2.0.
const LEN_BEFORE: u64 = 64 << 20;

/// The format that is written, and the newest one that is read. Version 0.2.0 wrote format 1: it
/// finds no record behind a header with a length, and would remove the segment.
pub(super) const FORMAT: u32 = 2;
const OLDEST_FORMAT: u32 = 1;

/// The beginning of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// Bytes of the file, which are claimed before it has its name; 0 in files of 0.2.0.
    pub(super) len: u32,
    pub(super) number: u64,
    /// Drawn when the journal was begun.
    pub(super) identity: u64,
    /// Where the valid records of the segment before end; 0 if there was none.
    pub(super) previous_end: u64,
}

/// Why a header is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// The header has another magic or checksum.
    Invalid,
    /// A newer program wrote it.
    Newer(u32),
}

impl SegmentHeader {
    pub(super) fn encode(self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.identity.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.previous_end.to_le_bytes());
        let sum = checksum(&[&bytes[..40]]);
        bytes[40..44].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header at the beginning of `bytes`, and the salt of its records: they count in no other
    /// segment.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, u32), HeaderError> {
        let invalid = HeaderError::Invalid;
        let bytes = bytes.get(..SEGMENT_HEADER_LEN).ok_or(invalid)?;
        let mut fields = Fields(bytes);
        if fields.array() != Some(*MAGIC) {
            return Err(invalid);
        }
        let format = fields.u32().ok_or(invalid)?;
        if format > FORMAT {
            return Err(HeaderError::Newer(format));
        }
        let (header, salt) = Self::fields(&mut fields).ok_or(invalid)?;
        match format < OLDEST_FORMAT || salt != checksum(&[&bytes[..40]]) {
            true => Err(invalid),
            false => Ok((header, salt)),
        }
    }

    fn fields(fields: &mut Fields<'_>) -> Option<(Self, u32)> {
        let header = Self {
            len: fields.u32()?,
            number: fields.u64()?,
            identity: fields.u64()?,
            previous_end: fields.u64()?,
        };
        Some((header, fields.u32()?))
    }

    /// Bytes of the file. A shorter one was cut.
    pub(super) fn file_len(self) -> u64 {
        match self.len {
            0 => LEN_BEFORE,
            len => u64::from(len),
        }
    }

    /// The salt of records behind the bytes that [`Self::encode`] gives.
    pub(super) fn salt(self) -> u32 {
        checksum(&[&self.encode()[..40]])
    }
}

/// A record's statement about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// The payload is what the key has, from this version on.
    Data,
    /// Ends the payloads of the key up to this version.
    Release,
}

/// The beginning of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) kind: RecordKind,
    /// Bytes of the payload.
    pub(super) len: u32,
    pub(super) key: u64,
    pub(super) version: u64,
    /// CRC32C of the payload.
    pub(super) payload_sum: u32,
}

impl RecordHeader {
    /// The header of a record at `offset` of a segment, in a batch that begins at `batch_start`.
    pub(super) fn encode(
        self,
        salt: u32,
        offset: u64,
        batch_start: u64,
    ) -> [u8; RECORD_HEADER_LEN] {
        let kind: u32 = match self.kind {
            RecordKind::Data => 1,
            RecordKind::Release => 2,
        };
        let mut bytes = [0; RECORD_HEADER_LEN];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.version.to_le_bytes());
        bytes[24..32].copy_from_slice(&batch_start.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.payload_sum.to_le_bytes());
        let sum = header_sum(&bytes, salt, offset);
        bytes[36..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header at `offset` of a segment and where its batch begins; `None` if there is none.
    pub(super) fn decode(bytes: &[u8], salt: u32, offset: u64) -> Option<(Self, u64)> {
        let bytes: &[u8; RECORD_HEADER_LEN] = bytes.first_chunk()?;
        let mut fields = Fields(bytes);
        let kind = match fields.u32()? {
            1 => RecordKind::Data,
            2 => RecordKind::Release,
            _ => return None,
        };
        let len = fields.u32()?;
        let (key, version, batch_start) = (fields.u64()?, fields.u64()?, fields.u64()?);
        if key.max(version) > NUMBER_MAX {
            return None;
        }
        let header = Self {
            kind,
            len,
            key,
            version,
            payload_sum: fields.u32()?,
        };
        let is_right = fields.u32()? == header_sum(bytes, salt, offset);
        is_right.then_some((header, batch_start))
    }

    /// Bytes that the record occupies.
    pub(super) fn record_len(self) -> usize {
        record_len(self.len as usize)
    }
}

/// Bytes that a record with a payload of `payload` bytes occupies.
pub(super) fn record_len(payload: usize) -> usize {
    (RECORD_HEADER_LEN + payload).next_multiple_of(RECORD_ALIGN)
}

fn header_sum(header: &[u8; RECORD_HEADER_LEN], salt: u32, offset: u64) -> u32 {
    checksum(&[&header[..36], &salt.to_le_bytes(), &offset.to_le_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: SegmentHeader = SegmentHeader {
        len: 4096,
        number: 7,
        identity: 0x0123_4567_89ab_cdef,
        previous_end: 1 << 40,
    };

    const RECORD: RecordHeader = RecordHeader {
        kind: RecordKind::Data,
        len: 12_345,
        key: 1 << 60,
        version: 99,
        payload_sum: 0xdead_beef,
    };

    #[test]
    fn a_segment_header_comes_back_and_each_flipped_bit_is_noticed() {
        let bytes = SEGMENT.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok((SEGMENT, SEGMENT.salt())));
        for place in 0..44 * 8 {
            let mut flipped = bytes;
            flipped[place / 8] ^= 1 << (place % 8);
            let decoded = SegmentHeader::decode(&flipped);
            assert!(decoded.is_err(), "bit {place}: {decoded:?}");
        }
        for len in 0..SEGMENT_HEADER_LEN {
            let cut = SegmentHeader::decode(&bytes[..len]);
            assert_eq!(cut, Err(HeaderError::Invalid), "cut at {len}");
        }
    }

    #[test]
    fn a_segment_of_an_older_version_has_the_length_of_all_and_a_salt_of_its_own() {
        let header = SegmentHeader { len: 0, ..SEGMENT };
        let mut bytes = header.encode();
        assert_eq!(bytes[8], 2, "0.2.0 refuses it");
        bytes[8] = 1;
        let salt = checksum(&[&bytes[..40]]);
        bytes[40..44].copy_from_slice(&salt.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Ok((header, salt)));
        assert_ne!(salt, header.salt());
        assert_eq!(header.file_len(), 64 << 20);
        assert_eq!(SEGMENT.file_len(), 4096);
    }

    #[test]
    fn a_newer_format_is_named_whatever_else_it_changed() {
        let mut bytes = SEGMENT.encode();
        bytes[8] = 3;
        bytes[30] ^= 9;
        let newer = Err(HeaderError::Newer(3));
        assert_eq!(SegmentHeader::decode(&bytes), newer);
    }

    #[test]
    fn a_record_counts_in_its_segment_at_its_place_only() {
        let bytes = RECORD.encode(5, 48, 40);
        assert_eq!(RecordHeader::decode(&bytes, 5, 48), Some((RECORD, 40)));
        assert_eq!(RecordHeader::decode(&bytes, 6, 48), None);
        assert_eq!(RecordHeader::decode(&bytes, 5, 56), None);
        for place in 0..RECORD_HEADER_LEN * 8 {
            let mut flipped = bytes;
            flipped[place / 8] ^= 1 << (place % 8);
            let decoded = RecordHeader::decode(&flipped, 5, 48);
            assert_eq!(decoded, None, "bit {place}");
        }
    }

    #[test]
    fn zeros_are_no_record() {
        assert_eq!(RecordHeader::decode(&[0; 64], 0, 48), None);
    }

    #[test]
    fn records_begin_at_multiples_of_eight() {
        for (payload, len) in [(0, 40), (1, 48), (8, 48), (9, 56), (100, 144)] {
            assert_eq!(record_len(payload), len, "{payload}");
        }
    }
}
