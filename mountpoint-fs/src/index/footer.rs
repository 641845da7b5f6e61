//! The end of an index file, and the directory of its blocks in front of that.
//!
//! Pure. The directory has of each block its length and its first key; the blocks follow each
//! other, so their places are sums. It is the one part of the file that stays in memory.

use super::IndexError;
use super::coding::{self, put_bytes, put_number};
use super::header::MAGIC;
use crate::local_disk::{CHECKSUM_LEN, Fields, seal, unseal};

/// The fixed end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    /// Place of the directory of blocks.
    pub(super) directory_at: u64,
    /// Length of the directory, its checksum included.
    pub(super) directory_len: u64,
    /// Keys in all blocks.
    pub(super) keys: u64,
    /// Bytes of all objects.
    pub(super) object_bytes: u64,
}

impl Footer {
    /// Length of a footer.
    pub(super) const LEN: usize = 4 * 8 + CHECKSUM_LEN + MAGIC.len();

    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers = [
            self.directory_at,
            self.directory_len,
            self.keys,
            self.object_bytes,
        ];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        seal(&mut bytes);
        bytes.extend_from_slice(MAGIC);
        bytes
    }

    /// The footer of a file of `file_len` bytes.
    pub(super) fn decode(bytes: &[u8; Self::LEN], file_len: u64) -> Result<Self, IndexError> {
        let cut = IndexError::Damaged("its end is missing");
        let (rest, magic) = bytes.split_at(Self::LEN - MAGIC.len());
        let Some(covered) = unseal(rest).filter(|_| magic == MAGIC) else {
            return Err(cut);
        };
        let mut fields = Fields(covered);
        let mut next = || fields.u64().unwrap_or_default();
        let footer = Self {
            directory_at: next(),
            directory_len: next(),
            keys: next(),
            object_bytes: next(),
        };
        let end = footer.directory_at.checked_add(footer.directory_len);
        let end = end.and_then(|end| end.checked_add(Self::LEN as u64));
        if end == Some(file_len) {
            Ok(footer)
        } else {
            Err(cut)
        }
    }
}

/// Where each block is, and with which key it begins.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// The first keys, one behind the other.
    keys: Vec<u8>,
    /// Of each block where its first key ends in `keys`, and where the block ends in the file.
    blocks: Vec<(u64, u64)>,
    /// Where the first block begins.
    start: u64,
}

impl Directory {
    /// The directory of blocks that begin at `start`.
    pub(super) fn new(start: u64) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }

    /// Appends a block.
    pub(super) fn push(&mut self, first: &[u8], len: u64) {
        self.keys.extend_from_slice(first);
        self.blocks.push((self.keys.len() as u64, self.end() + len));
    }

    /// Where the last block ends.
    pub(super) fn end(&self) -> u64 {
        self.blocks.last().map_or(self.start, |(_, end)| *end)
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The first key of a block.
    pub(super) fn first(&self, block: usize) -> Option<&[u8]> {
        let (end, _) = *self.blocks.get(block)?;
        let start = match block.checked_sub(1) {
            Some(before) => self.blocks[before].0,
            None => 0,
        };
        self.keys
            .get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// Where a block is in the file.
    pub(super) fn place(&self, block: usize) -> Option<(u64, usize)> {
        let (_, end) = *self.blocks.get(block)?;
        let start = match block.checked_sub(1) {
            Some(before) => self.blocks[before].1,
            None => self.start,
        };
        Some((start, usize::try_from(end - start).ok()?))
    }

    /// The one block that `key` can be in: the last that does not begin behind it, or the first.
    pub(super) fn block_of(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.first(middle).is_some_and(|first| first <= key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.saturating_sub(1)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.keys.len() + 4 * self.len());
        for block in 0..self.len() {
            let first = self.first(block).unwrap_or_default();
            let len = self.place(block).map_or(0, |(_, len)| len);
            put_number(&mut bytes, len as u64);
            put_bytes(&mut bytes, first);
        }
        seal(&mut bytes);
        bytes
    }

    /// The directory in `bytes` of blocks from `start` to `end`.
    pub(super) fn decode(bytes: &[u8], (start, end): (u64, u64)) -> Result<Self, IndexError> {
        let wrong = || IndexError::Damaged("the directory of its blocks is wrong");
        let covered = unseal(bytes).ok_or_else(wrong)?;
        let mut directory = Self::new(start);
        let mut at = 0;
        while at < covered.len() {
            let len = coding::number(covered, &mut at).ok_or_else(wrong)?;
            let first = coding::bytes(covered, &mut at).ok_or_else(wrong)?;
            let before = directory.len().checked_sub(1);
            let before = before.and_then(|before| directory.first(before));
            let room = end.checked_sub(directory.end());
            let room = room.map(|room| room.min(BLOCK_LEN_MAX));
            if before.is_some_and(|before| before >= first) || room.is_none_or(|room| len > room) {
                return Err(wrong());
            }
            directory.push(first, len);
        }
        if directory.end() != end {
            return Err(wrong());
        }
        Ok(directory)
    }
}

/// Longest block: it ends with the entry that makes it long, and a key or an ETag is far shorter.
const BLOCK_LEN_MAX: u64 = 1 << 20;
