//! The beginning of an index file: what it is an index of.
//!
//! Pure. A fixed part with magic, version and length, a line of JSON, and the checksum of both.

use serde::{Deserialize, Serialize};

use super::IndexError;
use crate::local_disk::{CHECKSUM_LEN, Fields, seal, unseal};

/// The source of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexHeader {
    /// The bucket's name, or the ARN or alias of an access point.
    pub bucket: String,
    /// All keys begin with it; empty for the whole bucket.
    pub prefix: String,
    /// The bucket's region, where it was given or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The server's URL, where it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_url: Option<String>,
}

impl IndexHeader {
    /// The bytes that a file begins with.
    pub(super) fn encode(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("a struct of texts has a JSON form");
        let len = u32::try_from(json.len()).expect("names of buckets are short");
        let mut bytes = Vec::with_capacity(json.len() + FIXED_LEN + CHECKSUM_LEN);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&json);
        seal(&mut bytes);
        bytes
    }

    /// The length of the header that begins with `fixed`.
    pub(super) fn len(fixed: &[u8; FIXED_LEN]) -> Result<usize, IndexError> {
        let mut fields = Fields(fixed);
        if fields.array() != Some(*MAGIC) {
            return Err(IndexError::NotAnIndex);
        }
        let mut number = || fields.u32().unwrap_or_default();
        let (version, len) = (number(), number());
        if version != VERSION {
            return Err(IndexError::Version(version));
        }
        let len = usize::try_from(len).ok().filter(|len| *len <= JSON_LEN_MAX);
        let len = len.ok_or(IndexError::Damaged("its header is too long"))?;
        Ok(FIXED_LEN + len + CHECKSUM_LEN)
    }

    /// The header in `bytes`, which are as long as [`Self::len`] says.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let wrong = IndexError::Damaged("its header is wrong");
        let Some(covered) = unseal(bytes) else {
            return Err(wrong);
        };
        serde_json::from_slice(&covered[FIXED_LEN..]).map_err(|_| wrong)
    }
}

/// Version of the format.
pub(super) const VERSION: u32 = 1;

/// Bytes of the header in front of its JSON.
pub(super) const FIXED_LEN: usize = 16;

/// The first bytes of every index file. The last one is no text, so that nobody takes the file for
/// one.
pub(super) const MAGIC: &[u8; 8] = b"MPINDEX\x01";

/// Largest JSON of a header: a bucket's name, a prefix and a URL.
const JSON_LEN_MAX: usize = 64 << 10;
