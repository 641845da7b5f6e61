//! A directory's listing in a file.
//!
//! Pure: bytes and values in, values out.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mountpoint_client::types::ETag;
use sha2::{Digest as _, Sha256};

use super::super::identity::StoreId;
use super::shared_time::SharedTime;
use crate::local_disk::{Fields, seal, unseal};
use crate::operation::Version;

/// A name of a kept listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedName {
    /// The name in its directory.
    pub(crate) name: Arc<str>,
    /// The file's object; `None` for a directory.
    pub(crate) object: Option<Version>,
}

/// Names the marks of changes that a listing counts with: others say nothing about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(pub(super) [u8; 16]);

/// A hash of the store and of a directory's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryHash(pub(super) [u8; 32]);

impl DirectoryHash {
    /// The hash of the directory `prefix` of `store`; `purpose` tells several hashes of one
    /// directory apart.
    pub(super) fn of(store: &StoreId, prefix: &str, purpose: &str) -> Self {
        let mut hash = Sha256::new();
        let texts = [
            purpose,
            &store.endpoint,
            &store.bucket,
            &store.encryption,
            prefix,
        ];
        for text in texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        Self(hash.finalize().into())
    }

    /// A number below `count`, which is a power of two.
    pub(super) fn slot(self, count: u16) -> u16 {
        u16::from_le_bytes([self.0[0], self.0[1]]) & (count - 1)
    }
}

/// All names of a directory, as one listing showed them.
///
/// ```text
/// 0   8   magic "MPNAMES\n"
/// 8   4   version of the format, little-endian like all numbers
/// 12  16  generation of the marks of changes that it counts with
/// 28  32  SHA-256 of store and directory
/// 60  8   uptime of the machine when the listing was asked for, in nanoseconds
/// 68  8   time of day then, in nanoseconds since 1970
/// 76  4   number of names
/// 80  …   names: kind (1), length (2), name; of a file size (8), seconds since 1970 (8),
///         length of the ETag (2), ETag
/// …   4   CRC32C of all before
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListingFile {
    pub(super) generation: Generation,
    pub(super) directory: DirectoryHash,
    /// When the first of its requests was sent, or earlier.
    pub(super) asked: SharedTime,
    pub(super) names: Vec<SavedName>,
}

/// Why a file is no listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoListing {
    /// Its bytes are not those that were written.
    Damaged,
    /// The bytes have another format, or are no listing at all.
    Foreign,
}

impl ListingFile {
    /// The bytes of the file; `None` if a text is longer than a key or a header's value can be.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(FRONT_LEN + self.names.len() * NAME_LEN_USUAL);
        bytes.extend(MAGIC);
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.generation.0);
        bytes.extend(self.directory.0);
        bytes.extend(nanos(self.asked.uptime).to_le_bytes());
        bytes.extend(nanos(self.asked.wall).to_le_bytes());
        let count = u32::try_from(self.names.len()).expect("a bounded number of names");
        bytes.extend(count.to_le_bytes());
        for SavedName { name, object } in &self.names {
            bytes.push(match object {
                None => DIRECTORY,
                Some(object) if object.is_archived => ARCHIVED,
                Some(_) => FILE,
            });
            put_text(&mut bytes, name)?;
            if let Some(object) = object {
                bytes.extend(object.size.to_le_bytes());
                bytes.extend(seconds(object.mtime).to_le_bytes());
                put_text(&mut bytes, object.etag.as_str())?;
            }
        }
        seal(&mut bytes);
        Some(bytes)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, NoListing> {
        let format = FORMAT.to_le_bytes();
        let is_ours = bytes.len() > FRONT_LEN
            && bytes.starts_with(MAGIC)
            && bytes[MAGIC.len()..].starts_with(&format);
        if !is_ours {
            return Err(NoListing::Foreign);
        }
        Self::decode_ours(bytes).ok_or(NoListing::Damaged)
    }

    fn decode_ours(bytes: &[u8]) -> Option<Self> {
        let content = unseal(bytes)?;
        let mut rest = Fields(content.get(MAGIC.len() + size_of_val(&FORMAT)..)?);
        let generation = Generation(rest.array()?);
        let directory = DirectoryHash(rest.array()?);
        let asked = SharedTime {
            uptime: Duration::from_nanos(rest.u64()?),
            wall: Duration::from_nanos(rest.u64()?),
        };
        let count = rest.u32()?;
        let names = (0..count).map(|_| decode_name(&mut rest));
        let names = names.collect::<Option<Vec<_>>>()?;
        rest.0.is_empty().then_some(Self {
            generation,
            directory,
            asked,
            names,
        })
    }
}

fn decode_name(rest: &mut Fields<'_>) -> Option<SavedName> {
    let [kind] = rest.array()?;
    let name = text(rest)?;
    // The kernel takes no other name.
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return None;
    }
    let name = Arc::from(name);
    let object = match kind {
        DIRECTORY => None,
        FILE | ARCHIVED => Some(Version {
            size: rest.u64()?,
            mtime: time(rest.u64()?.cast_signed()),
            etag: ETag::from_header(text(rest)?),
            is_archived: kind == ARCHIVED,
        }),
        _ => return None,
    };
    Some(SavedName { name, object })
}

fn text<'a>(rest: &mut Fields<'a>) -> Option<&'a str> {
    let len = usize::from(rest.u16()?);
    std::str::from_utf8(rest.take(len)?).ok()
}

fn put_text(bytes: &mut Vec<u8>, text: &str) -> Option<()> {
    let len = u16::try_from(text.len()).ok()?;
    bytes.extend(len.to_le_bytes());
    bytes.extend(text.as_bytes());
    Some(())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => 0_i64.saturating_add_unsigned(after.as_secs()),
        Err(before) => 0_i64.saturating_sub_unsigned(before.duration().as_secs()),
    }
}

fn time(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let time = match seconds {
        ..0 => UNIX_EPOCH.checked_sub(distance),
        0.. => UNIX_EPOCH.checked_add(distance),
    };
    time.unwrap_or(UNIX_EPOCH)
}

const MAGIC: &[u8; 8] = b"MPNAMES\n";
const FORMAT: u32 = 1;
const FRONT_LEN: usize = 80;

/// Bytes of a name with its object, about.
const NAME_LEN_USUAL: usize = 80;

const DIRECTORY: u8 = 0;
const FILE: u8 = 1;
const ARCHIVED: u8 = 2;
