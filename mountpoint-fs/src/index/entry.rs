//! One object of an index, and the bytes of several in a block.
//!
//! Pure. Keys are front-coded: of each one, what it shares at its beginning and at its end with
//! the key before it are numbers. In the rest, runs of hexadecimal digits take half a byte each.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mountpoint_client::types::{ETag, Key, ObjectInfo};

use super::IndexError;
use super::coding::{self, pack_hex, put_bytes, put_number, unpack_hex, unzigzag, zigzag};
use crate::operation::PackedETag;

/// One object, as a listing describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The whole key, as the client shows it.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// When it was written, in seconds since 1970.
    pub mtime: i64,
    /// S3's tag of the version.
    pub etag: PackedETag,
    /// Whether it is in an archive.
    pub is_archived: bool,
}

impl IndexEntry {
    /// An object of a listing.
    #[must_use]
    pub fn new(key: String, size: u64, mtime: SystemTime, etag: &ETag, is_archived: bool) -> Self {
        let seconds = |elapsed: Duration| i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX);
        let mtime = match mtime.duration_since(UNIX_EPOCH) {
            Ok(after) => seconds(after),
            Err(before) => -seconds(before.duration()),
        };
        Self {
            key,
            size,
            mtime,
            etag: PackedETag::pack(etag),
            is_archived,
        }
    }

    /// About how much memory it takes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.key.len() + MALLOC_OVERHEAD
    }
}

/// Memory of an allocation besides its bytes, about.
const MALLOC_OVERHEAD: usize = 16;

/// Writes the entries of one block.
#[derive(Debug, Default)]
pub(super) struct BlockEncoder {
    bytes: Vec<u8>,
    first: Vec<u8>,
    last: Vec<u8>,
    mtime: i64,
}

impl BlockEncoder {
    /// Appends `entry`, whose key is behind all others.
    pub(super) fn push(&mut self, entry: &IndexEntry) {
        let key = entry.key.as_bytes();
        if self.bytes.is_empty() {
            self.first.extend_from_slice(key);
        }
        let pairs = self.last.iter().zip(key);
        let shared = pairs.take_while(|(before, now)| before == now).count();
        let pairs = self.last[shared..]
            .iter()
            .rev()
            .zip(key[shared..].iter().rev());
        let ending = pairs.take_while(|(before, now)| before == now).count();
        put_number(&mut self.bytes, shared as u64);
        put_number(&mut self.bytes, ending as u64);
        put_bytes(&mut self.bytes, &pack_hex(&key[shared..key.len() - ending]));
        self.last.clear();
        self.last.extend_from_slice(key);
        put_number(&mut self.bytes, entry.size);
        let later = entry.mtime.wrapping_sub(self.mtime);
        put_number(&mut self.bytes, zigzag(later));
        self.mtime = entry.mtime;
        let archived = if entry.is_archived { ARCHIVED } else { 0 };
        match &entry.etag {
            PackedETag::Digest { digest, parts } => {
                let has_parts = if *parts > 0 { PARTS } else { 0 };
                self.bytes.push(archived | QUOTED | has_parts);
                self.bytes.extend_from_slice(digest);
                if *parts > 0 {
                    put_number(&mut self.bytes, u64::from(*parts));
                }
            }
            PackedETag::Other(etag) => {
                self.bytes.push(archived | TEXT);
                put_bytes(&mut self.bytes, etag.as_str().as_bytes());
            }
        }
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The block's bytes and its first key; what is pushed next begins another block.
    pub(super) fn take(&mut self) -> (Vec<u8>, Vec<u8>) {
        let Self { bytes, first, .. } = std::mem::take(self);
        (bytes, first)
    }
}

/// Reads the entries of one block, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockDecoder {
    bytes: Vec<u8>,
    /// Where the next entry begins.
    at: usize,
    key: Vec<u8>,
    /// The end of the key that the one before has as well.
    ending: Vec<u8>,
    size: u64,
    mtime: i64,
    /// The kind of the fields that follow the time, and the place of the ETag.
    kind: u8,
    etag: Range<usize>,
}

impl BlockDecoder {
    /// The entries in `bytes`, whose checksum was right. None is read yet.
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Whether the first entry has the key `first`. None is read yet.
    pub(super) fn begins_with(&mut self, first: &[u8]) -> Result<bool, IndexError> {
        let is_first = self.advance()? && self.key == first;
        (self.at, self.mtime) = (0, 0);
        self.key.clear();
        Ok(is_first)
    }

    /// Goes to the next entry. Whether there is one.
    ///
    /// Most entries are passed by: no more is made of one than its key.
    pub(super) fn advance(&mut self) -> Result<bool, IndexError> {
        if self.at == self.bytes.len() {
            return Ok(false);
        }
        let shared = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        let ending = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        let rest = coding::bytes(&self.bytes, &mut self.at).ok_or(ENDS_EARLY)?;
        let behind = self.key.get(shared..).ok_or(IMPOSSIBLE_KEY)?;
        let before = behind.first().copied();
        let ending_at = behind.len().checked_sub(ending).ok_or(IMPOSSIBLE_KEY)?;
        self.ending.clear();
        self.ending.extend_from_slice(&behind[ending_at..]);
        self.key.truncate(shared);
        unpack_hex(rest, &mut self.key).ok_or(IMPOSSIBLE_KEY)?;
        self.key.extend_from_slice(&self.ending);
        // What two keys share at their beginning is as long as can be.
        let is_in_order = self.key.get(shared).copied() > before;
        if self.key.len() > Key::LEN_MAX || !is_in_order {
            return Err(IMPOSSIBLE_KEY);
        }
        self.size = self.number()?;
        if i64::try_from(self.size).is_err() {
            return Err(IndexError::Damaged(
                "an object of more bytes than a file can have",
            ));
        }
        self.mtime = self.mtime.wrapping_add(unzigzag(self.number()?));
        self.kind = *self.bytes.get(self.at).ok_or(ENDS_EARLY)?;
        self.at += 1;
        if self.kind & !(ARCHIVED | QUOTED | PARTS | TEXT) != 0 {
            return Err(IndexError::Damaged("an entry of an unknown kind"));
        }
        let start = self.at;
        if self.kind & TEXT != 0 {
            coding::bytes(&self.bytes, &mut self.at).ok_or(ENDS_EARLY)?;
        } else {
            self.at += PackedETag::DIGEST_LEN;
            if self.kind & PARTS != 0 {
                self.number()?;
            }
        }
        if self.at > self.bytes.len() {
            return Err(ENDS_EARLY);
        }
        self.etag = start..self.at;
        Ok(true)
    }

    fn packed_etag(&self) -> Result<PackedETag, IndexError> {
        let bytes = self.bytes.get(self.etag.clone()).unwrap_or_default();
        if self.kind & TEXT != 0 {
            let text = coding::bytes(bytes, &mut 0).ok_or(ENDS_EARLY)?;
            let text = std::str::from_utf8(text);
            let text = text.map_err(|_| IndexError::Damaged("an ETag is no text"))?;
            return Ok(PackedETag::Other(ETag::from_header(text)));
        }
        let digest = *bytes.first_chunk().ok_or(ENDS_EARLY)?;
        let parts = match self.kind & PARTS {
            0 => Some(0),
            _ => coding::number(bytes, &mut PackedETag::DIGEST_LEN.clone())
                .and_then(|parts| u16::try_from(parts).ok()),
        };
        Ok(PackedETag::Digest {
            digest,
            parts: parts.ok_or(IndexError::Damaged("an ETag of too many parts"))?,
        })
    }

    /// The key of the entry, which was reached by [`Self::advance`].
    pub(super) fn key(&self) -> Result<&str, IndexError> {
        std::str::from_utf8(&self.key).map_err(|_| IndexError::Damaged("a key is no text"))
    }

    /// The key's bytes.
    pub(super) fn key_bytes(&self) -> &[u8] {
        &self.key
    }

    /// The entry as a whole.
    pub(super) fn entry(&self) -> Result<IndexEntry, IndexError> {
        Ok(IndexEntry {
            key: self.key()?.to_owned(),
            size: self.size,
            mtime: self.mtime,
            etag: self.packed_etag()?,
            is_archived: self.kind & ARCHIVED != 0,
        })
    }

    /// The entry as a listing describes an object.
    pub(super) fn object(&self) -> Result<ObjectInfo, IndexError> {
        let key = Key::parse(self.key()?);
        let distance = Duration::from_secs(self.mtime.unsigned_abs());
        let time = if self.mtime < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        let is_archived = self.kind & ARCHIVED != 0;
        Ok(ObjectInfo {
            key: key.ok_or(IndexError::Damaged("a key of no bytes"))?,
            size: self.size,
            etag: self.packed_etag()?.unpack(),
            last_modified: time.unwrap_or(UNIX_EPOCH),
            storage_class: is_archived.then(|| "GLACIER".to_owned()),
            restored: false,
        })
    }

    fn number(&mut self) -> Result<u64, IndexError> {
        coding::number(&self.bytes, &mut self.at).ok_or(ENDS_EARLY)
    }
}

const IMPOSSIBLE_KEY: IndexError = IndexError::Damaged("a key that cannot be");
const ENDS_EARLY: IndexError = IndexError::Damaged("a block ends within an entry");

/// The object is in an archive.
const ARCHIVED: u8 = 1;
/// Set for each digest. Older files lack it where a server left the quotes out.
const QUOTED: u8 = 2;
/// The number of parts follows the ETag's digest.
const PARTS: u8 = 4;
/// The ETag is a text with its length in front; otherwise the 16 bytes of a digest.
const TEXT: u8 = 8;
