//! The beginning of an index file: the version that the entry holds.
//!
//! ```text
//! 0   8   magic "MPCACHE\n"
//! 8   4   version of the format, little-endian like all numbers
//! 12  4   length of the body
//! 16  …   body: endpoint, bucket, encryption, key, ETag, each behind its length (4); size (8)
//! …   4   CRC32C of all before
//! ```

use mountpoint_client::types::{ETag, Key};

use crate::cache::identity::{CachedVersion, StoreId};
use crate::local_disk::{CHECKSUM_LEN, Fields, checksum, seal};

/// A header that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cache) struct Header {
    pub(in crate::cache) version: CachedVersion,
    /// Bytes of the header: records begin there.
    pub(in crate::cache) len: usize,
    /// Its checksum. Records are checked with it, so that they count for this header only.
    pub(in crate::cache) salt: u32,
}

const MAGIC: &[u8; 8] = b"MPCACHE\n";
const FORMAT: u32 = 1;
const FRONT_LEN: usize = 16;

/// Longest header: a key has at most 1,024 bytes, the other texts are short.
pub(in crate::cache) const HEADER_LEN_MAX: usize = 16 << 10;

impl Header {
    /// The header of an entry for `version`.
    pub(in crate::cache) fn encode(version: &CachedVersion) -> Vec<u8> {
        let mut body = Vec::new();
        for text in version.texts() {
            let len = u32::try_from(text.len()).expect("a short text");
            body.extend(len.to_le_bytes());
            body.extend(text.as_bytes());
        }
        body.extend(version.size.to_le_bytes());
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        let len = u32::try_from(body.len()).expect("a short body");
        bytes.extend(len.to_le_bytes());
        bytes.extend(body);
        seal(&mut bytes);
        bytes
    }

    /// The header at the beginning of `bytes`; `None` if there is none that is understood.
    pub(in crate::cache) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut front = Fields(bytes.get(..FRONT_LEN)?);
        if front.take(MAGIC.len())? != MAGIC || front.u32()? != FORMAT {
            return None;
        }
        let body_len = usize::try_from(front.u32()?).ok()?;
        let sum_at = FRONT_LEN.checked_add(body_len)?;
        let len = sum_at.checked_add(CHECKSUM_LEN)?;
        if len > HEADER_LEN_MAX {
            return None;
        }
        let salt = Fields(bytes.get(sum_at..len)?).u32()?;
        if salt != checksum(&[&bytes[..sum_at]]) {
            return None;
        }
        let mut body = Fields(&bytes[FRONT_LEN..sum_at]);
        let store = StoreId {
            endpoint: text(&mut body)?,
            bucket: text(&mut body)?,
            encryption: text(&mut body)?,
        };
        let (key, etag) = (
            Key::parse(&text(&mut body)?)?,
            ETag::parse(&text(&mut body)?)?,
        );
        // Offsets of files have 63 bits.
        let size = body.u64().filter(|size| i64::try_from(*size).is_ok())?;
        let version = CachedVersion {
            store,
            key,
            etag,
            size,
        };
        body.0.is_empty().then_some(Self { version, len, salt })
    }
}

fn text(fields: &mut Fields<'_>) -> Option<String> {
    let len = usize::try_from(fields.u32()?).ok()?;
    String::from_utf8(fields.take(len)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> CachedVersion {
        CachedVersion {
            store: StoreId {
                endpoint: "https://s3.example".to_owned(),
                bucket: "bucket".to_owned(),
                encryption: "ab12".to_owned(),
            },
            key: Key::parse("images/ä.jpg").unwrap(),
            etag: ETag::from_header("\"d41d8\""),
            size: 1 << 40,
        }
    }

    #[test]
    fn a_header_comes_back() {
        let mut bytes = Header::encode(&version());
        let len = bytes.len();
        bytes.extend(b"records");
        let header = Header::decode(&bytes).unwrap();
        assert!(header.version.is(&version()));
        assert_eq!(header.len, len);
    }

    #[test]
    fn each_flipped_bit_and_each_cut_is_noticed() {
        let bytes = Header::encode(&version());
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[place] ^= 1 << bit;
                assert_eq!(Header::decode(&flipped), None, "byte {place} bit {bit}");
            }
            assert_eq!(Header::decode(&bytes[..place]), None, "cut at {place}");
        }
    }

    #[test]
    fn another_format_is_not_understood() {
        let mut bytes = Header::encode(&version());
        bytes[8] = 2;
        let sum_at = bytes.len() - CHECKSUM_LEN;
        let sum = checksum(&[&bytes[..sum_at]]);
        bytes[sum_at..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Header::decode(&bytes), None);
    }
}
