//! Numbers and checksums, as the file has them.
//!
//! Pure. A number is 7 bits a byte, the lowest first; all bytes but its last have the eighth bit.

use crc_fast::CrcAlgorithm;

/// Appends a number.
pub(super) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
}

/// Appends bytes and in front of them their number.
pub(super) fn put_bytes(bytes: &mut Vec<u8>, more: &[u8]) {
    put_number(bytes, more.len() as u64);
    bytes.extend_from_slice(more);
}

/// The number at `at`, which moves behind it; `None` if there is none of 64 bits.
pub(super) fn number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The bytes at `at`, which moves behind them, and whose number is in front of them.
pub(super) fn bytes<'a>(all: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len = usize::try_from(number(all, at)?).ok()?;
    let found = all.get(*at..)?.get(..len)?;
    *at += len;
    Some(found)
}

/// A number in which small negative ones are small.
pub(super) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// The number that [`zigzag`] made this of.
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Appends the CRC-32C of `bytes`.
pub(super) fn seal(bytes: &mut Vec<u8>) {
    let sum = checksum(bytes);
    bytes.extend_from_slice(&sum);
}

/// What [`seal`] was called with; `None` if the checksum is another one.
pub(super) fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (covered, sum) = bytes.split_last_chunk::<CHECKSUM_LEN>()?;
    (checksum(covered) == *sum).then_some(covered)
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_LEN] {
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes);
    let [a, b, c, d, ..] = sum.to_le_bytes();
    [a, b, c, d]
}

/// Bytes of a checksum.
pub(super) const CHECKSUM_LEN: usize = 4;
