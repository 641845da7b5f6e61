//! Numbers and texts, as the file has them.
//!
//! Pure. A number is 7 bits a byte, the lowest first; all bytes but its last have the eighth bit.

use std::borrow::Cow;

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

/// `text`, which has no byte 0xff (UTF-8 has none), with its long runs of lower-case hexadecimal
/// digits as bytes: 0xff, their number, and the bytes. Names of hashes and UUIDs cannot be told
/// from each other otherwise.
pub(super) fn pack_hex(text: &[u8]) -> Cow<'_, [u8]> {
    if text.len() < HEX_RUN_MIN {
        return Cow::Borrowed(text);
    }
    let mut packed = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let run = rest.iter().map_while(|byte| hex_value(*byte)).count();
        if run < HEX_RUN_MIN {
            let (plain, behind) = rest.split_at((run + 1).min(rest.len()));
            packed.extend_from_slice(plain);
            rest = behind;
            continue;
        }
        let run = run.min(2 * usize::from(u8::MAX)) & !1;
        packed.push(HEX_MARK);
        packed.push(u8::try_from(run / 2).unwrap_or(u8::MAX));
        let (digits, behind) = rest.split_at(run);
        packed.extend(digits.chunks_exact(2).map(|pair| {
            let [high, low] = [pair[0], pair[1]].map(|digit| hex_value(digit).unwrap_or(0));
            high << 4 | low
        }));
        rest = behind;
    }
    Cow::Owned(packed)
}

/// Appends what [`pack_hex`] made `packed` of; `None` if it made nothing so.
pub(super) fn unpack_hex(packed: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let mut rest = packed;
    while let Some(at) = rest.iter().position(|byte| *byte == HEX_MARK) {
        text.extend_from_slice(&rest[..at]);
        let (len, behind) = rest[at + 1..].split_first()?;
        let (bytes, behind) = behind.split_at_checked(usize::from(*len))?;
        for byte in bytes {
            text.push(HEX[usize::from(byte >> 4)]);
            text.push(HEX[usize::from(byte & 15)]);
        }
        rest = behind;
    }
    text.extend_from_slice(rest);
    Some(())
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Stands in front of hexadecimal digits that were packed.
const HEX_MARK: u8 = 0xff;

/// Digits that are worth it: mark and number take 2 bytes.
const HEX_RUN_MIN: usize = 6;

/// A number in which small negative ones are small.
pub(super) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// The number that [`zigzag`] made this of.
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}
