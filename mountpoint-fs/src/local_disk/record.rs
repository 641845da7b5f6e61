//! What all checked records have in common: fields that follow each other, numbers with the lowest
//! byte first, and CRC32C.
//!
//! Pure. Each format stands in the module that writes it.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC32C of all `parts`, one behind the other.
pub(crate) fn checksum(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    u32::try_from(digest.finalize()).expect("a CRC of 32 bits")
}

/// The fields of a record that are not read yet. Each is `None` if the record ends before.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(field)
    }

    /// The next `LEN` bytes.
    pub(crate) fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    /// A number of 16 bits.
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// A number of 32 bits.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of 64 bits.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Ends a record with the CRC32C of all its `bytes`.
pub(crate) fn seal(bytes: &mut Vec<u8>) {
    let sum = checksum(&[bytes]);
    bytes.extend(sum.to_le_bytes());
}

/// The bytes that [`seal`] was called with; `None` if the checksum is another one.
pub(crate) fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (covered, sum) = bytes.split_last_chunk::<CHECKSUM_LEN>()?;
    (checksum(&[covered]) == u32::from_le_bytes(*sum)).then_some(covered)
}

/// Bytes of a checksum.
pub(crate) const CHECKSUM_LEN: usize = 4;
