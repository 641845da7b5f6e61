//! An index file that is read: the place of a key, and the keys behind it in order.
//!
//! Nothing is mapped: a file that somebody else cuts would end the process. Blocks are read where
//! they are needed, from the kernel's page cache, and compared with their checksums each time; the
//! directory of blocks stays in memory. A caller that must not wait for a disk is told
//! [`IndexError::NotInMemory`].

use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use mountpoint_client::types::ObjectInfo;
use rustix::io::{ReadWriteFlags, preadv2};

use super::entry::BlockDecoder;
use super::footer::{Directory, Footer};
use super::header::FIXED_LEN;
use super::{IndexEntry, IndexError, IndexHeader};
use crate::local_disk::{CHECKSUM_LEN, unseal};

/// An index file that is open.
#[derive(Debug)]
pub struct IndexFile {
    file: File,
    path: PathBuf,
    header: IndexHeader,
    footer: Footer,
    directory: Directory,
}

/// Whether a read may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskWait {
    /// As long as it takes.
    Allowed,
    /// Not at all: what is not in memory is an error.
    Refused,
}

impl IndexFile {
    /// Opens the index at `path`.
    ///
    /// # Errors
    /// The file cannot be read, is no index, or is damaged in another part than the entries.
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        Self::of(File::open(path)?, path)
    }

    /// Reads the ends of `file`, which is or was at `path`.
    pub(super) fn of(file: File, path: &Path) -> Result<Self, IndexError> {
        let len = file.metadata()?.len();
        let mut fixed = [0; FIXED_LEN];
        exact(&file, &mut fixed, 0).map_err(|error| match error {
            IndexError::Damaged(_) => IndexError::NotAnIndex,
            other => other,
        })?;
        let header_len = IndexHeader::len(&fixed)?;
        let mut header = vec![0; header_len];
        exact(&file, &mut header, 0)?;
        let header = IndexHeader::decode(&header)?;
        let mut footer = [0; Footer::LEN];
        let footer_at = len
            .checked_sub((header_len + Footer::LEN) as u64)
            .map(|rest| rest + header_len as u64);
        exact(&file, &mut footer, footer_at.ok_or(CUT)?)?;
        let footer = Footer::decode(&footer, len)?;
        let directory_len = usize::try_from(footer.directory_len).map_err(|_| CUT)?;
        let mut directory = vec![0; directory_len];
        exact(&file, &mut directory, footer.directory_at)?;
        let blocks = (header_len as u64, footer.directory_at);
        Ok(Self {
            directory: Directory::decode(&directory, blocks)?,
            file,
            path: path.to_owned(),
            header,
            footer,
        })
    }

    /// The bucket and prefix of the index.
    #[must_use]
    pub fn header(&self) -> &IndexHeader {
        &self.header
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of keys.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.footer.keys
    }

    /// Bytes of all objects together.
    #[must_use]
    pub fn object_bytes(&self) -> u64 {
        self.footer.object_bytes
    }

    /// The object called `key`.
    ///
    /// # Errors
    /// Its block is damaged, cannot be read, or is not in memory.
    pub fn find(&self, key: &str, wait: DiskWait) -> Result<Option<ObjectInfo>, IndexError> {
        let mut cursor = self.cursor(wait);
        match cursor.seek(key.as_bytes())? {
            true if cursor.key_bytes() == key.as_bytes() => cursor.object().map(Some),
            _ => Ok(None),
        }
    }

    /// A reader of entries, which is at none yet.
    #[must_use]
    pub fn cursor(&self, wait: DiskWait) -> IndexCursor<'_> {
        IndexCursor {
            index: self,
            wait,
            block: None,
            decoder: BlockDecoder::default(),
        }
    }

    /// The bytes of a block, without their checksum.
    fn block(&self, number: usize, wait: DiskWait) -> Result<Vec<u8>, IndexError> {
        let (at, len) = self.directory.place(number).ok_or(CUT)?;
        let mut bytes = vec![0; len];
        match wait {
            DiskWait::Allowed => exact(&self.file, &mut bytes, at)?,
            DiskWait::Refused => in_memory(&self.file, &mut bytes, at)?,
        }
        unseal(&bytes).ok_or(IndexError::Damaged("the checksum of a block is wrong"))?;
        bytes.truncate(len - CHECKSUM_LEN);
        Ok(bytes)
    }
}

/// Entries of an index in order of their keys.
#[derive(Debug)]
pub struct IndexCursor<'a> {
    index: &'a IndexFile,
    wait: DiskWait,
    /// The block that `decoder` has; `None` before the first.
    block: Option<usize>,
    decoder: BlockDecoder,
}

impl IndexCursor<'_> {
    /// Goes to the first entry whose key is `key` or behind it, and that is not in front of the one
    /// where it is. Whether there is one.
    ///
    /// # Errors
    /// A block is damaged, cannot be read, or is not in memory.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        let block = self.index.directory.block_of(key);
        if self.block.is_none_or(|now| now < block) {
            if block >= self.index.directory.len() {
                return Ok(false);
            }
            self.load(block)?;
        } else if self.decoder.key_bytes() >= key && !self.decoder.key_bytes().is_empty() {
            return Ok(true);
        }
        while self.advance()? {
            if self.decoder.key_bytes() >= key {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes to the next entry. Whether there is one.
    ///
    /// # Errors
    /// As for [`Self::seek`].
    pub fn advance(&mut self) -> Result<bool, IndexError> {
        loop {
            if self.block.is_some() && self.decoder.advance()? {
                return Ok(true);
            }
            let next = self.block.map_or(0, |now| now + 1);
            if next >= self.index.directory.len() {
                return Ok(false);
            }
            self.load(next)?;
        }
    }

    fn load(&mut self, block: usize) -> Result<(), IndexError> {
        let disordered = IndexError::Damaged("its keys are not in order");
        let first = self.index.directory.first(block).ok_or(CUT)?;
        if self.block.is_some() && self.decoder.key_bytes() >= first {
            return Err(disordered);
        }
        self.decoder = BlockDecoder::new(self.index.block(block, self.wait)?);
        if !self.decoder.begins_with(first)? {
            return Err(disordered);
        }
        self.block = Some(block);
        Ok(())
    }

    /// The key where it is, as bytes; empty before the first entry.
    #[must_use]
    pub fn key_bytes(&self) -> &[u8] {
        self.decoder.key_bytes()
    }

    /// The entry where it is.
    ///
    /// # Errors
    /// There is none, or its key is no text.
    pub fn entry(&self) -> Result<IndexEntry, IndexError> {
        self.decoder.entry()
    }

    /// The entry where it is, as a listing describes an object.
    ///
    /// # Errors
    /// There is none, or its key is no text.
    pub fn object(&self) -> Result<ObjectInfo, IndexError> {
        self.decoder.object()
    }

    /// The key where it is.
    ///
    /// # Errors
    /// The name is no text.
    pub fn key(&self) -> Result<&str, IndexError> {
        self.decoder.key()
    }
}

/// Fills `bytes` from `at` on.
fn exact(file: &File, bytes: &mut [u8], at: u64) -> Result<(), IndexError> {
    file.read_exact_at(bytes, at)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => CUT,
            _ => IndexError::Io(error),
        })
}

/// Fills `bytes` from `at` on, if the kernel has them all in memory.
fn in_memory(file: &File, bytes: &mut [u8], at: u64) -> Result<(), IndexError> {
    let len = bytes.len();
    let read = preadv2(
        file,
        &mut [IoSliceMut::new(bytes)],
        at,
        ReadWriteFlags::NOWAIT,
    );
    // A reader that waits for the disk finds all other defects, and file systems that cannot tell.
    match read {
        Ok(read) if read == len => Ok(()),
        _ => Err(IndexError::NotInMemory),
    }
}

const CUT: IndexError = IndexError::Damaged("bytes are missing");
