//! Writing an index: keys in order, to a file that appears under its name when it is whole.
//!
//! The file is written under another name in the same directory, brought to disk and renamed, so
//! that a reader finds the file before or the whole new one, whenever the machine stops.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use mountpoint_client::types::Key;

use super::entry::BlockEncoder;
use super::footer::{Directory, Footer};
use super::{IndexEntry, IndexError, IndexHeader};
use crate::local_disk::seal;

/// Writes the entries of an index in order of their keys.
#[derive(Debug)]
pub(super) struct IndexWriter {
    file: BufWriter<File>,
    block: BlockEncoder,
    directory: Directory,
    /// The key of the entry before.
    last: Vec<u8>,
    keys: u64,
    object_bytes: u64,
}

impl IndexWriter {
    /// Begins an index of `header` in the empty `file`.
    pub(super) fn new(file: File, header: &IndexHeader) -> Result<Self, IndexError> {
        let header = header.encode();
        let mut file = BufWriter::with_capacity(WRITE_BYTES, file);
        file.write_all(&header)?;
        Ok(Self {
            file,
            block: BlockEncoder::default(),
            directory: Directory::new(header.len() as u64),
            last: Vec::new(),
            keys: 0,
            object_bytes: 0,
        })
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If its key is not behind that of the entry before.
    pub(super) fn push(&mut self, entry: &IndexEntry) -> Result<(), IndexError> {
        let len = entry.key.len();
        if len == 0 || len > Key::LEN_MAX {
            return Err(IndexError::KeyLength(len));
        }
        assert!(*self.last < *entry.key.as_bytes(), "entries come in order");
        if self.block.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        self.block.push(entry);
        self.last.clear();
        self.last.extend_from_slice(entry.key.as_bytes());
        self.keys += 1;
        self.object_bytes = self.object_bytes.saturating_add(entry.size);
        Ok(())
    }

    /// The key of the entry before; empty before the first.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    fn end_block(&mut self) -> Result<(), IndexError> {
        if self.block.len() == 0 {
            return Ok(());
        }
        let (mut bytes, first) = self.block.take();
        seal(&mut bytes);
        self.file.write_all(&bytes)?;
        self.directory.push(&first, bytes.len() as u64);
        Ok(())
    }

    /// Writes the rest.
    pub(super) fn finish(mut self) -> Result<File, IndexError> {
        self.end_block()?;
        let directory = self.directory.encode();
        let footer = Footer {
            directory_at: self.directory.end(),
            directory_len: directory.len() as u64,
            keys: self.keys,
            object_bytes: self.object_bytes,
        };
        self.file.write_all(&directory)?;
        self.file.write_all(&footer.encode())?;
        let file = self.file.into_inner();
        file.map_err(|error| IndexError::Io(error.into_error()))
    }
}

/// A file without its final name. It is removed unless it gets that.
#[derive(Debug)]
pub(super) struct UnnamedFile {
    path: PathBuf,
    target: PathBuf,
}

impl UnnamedFile {
    /// A new file beside `target`, and what names it.
    pub(super) fn create(target: &Path) -> Result<(File, Self), IndexError> {
        let name = target
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let mut own = std::ffi::OsString::from(".");
        own.push(name);
        own.push(format!(".{}-{number}.part", std::process::id()));
        let path = target.with_file_name(own);
        // One of a process of this number that was killed.
        std::fs::remove_file(&path).ok();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        let target = target.to_owned();
        Ok((file, Self { path, target }))
    }

    /// Gives `file`, which is whole, its name.
    pub(super) fn publish(self, file: &File) -> Result<(), IndexError> {
        file.sync_all()?;
        std::fs::rename(&self.path, &self.target)?;
        let directory = match self.target.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => return Ok(()),
        };
        // The file is there; some file systems cannot sync a directory.
        File::open(directory)?.sync_all().ok();
        Ok(())
    }
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        // It has another name if all went well.
        std::fs::remove_file(&self.path).ok();
    }
}

/// Bytes after which a block ends: 8 KiB are read from the page cache, compared and half decoded in
/// 5 µs, and the directory of their first keys is a two-hundredth of the file.
const BLOCK_BYTES: usize = 8 << 10;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;
