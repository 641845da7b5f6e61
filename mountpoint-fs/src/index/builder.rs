//! An index of keys in any order.
//!
//! Keys that come in order are written as they come. From the first one that does not, keys are
//! gathered in memory up to a bound, sorted and written as a *run*, which is an index file without
//! a name; in the end all runs are merged.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::file::DiskWait;
use super::writer::{IndexWriter, UnnamedFile};
use super::{IndexCursor, IndexEntry, IndexError, IndexFile, IndexHeader};

/// Makes an index file.
#[derive(Debug)]
pub struct IndexBuilder {
    header: IndexHeader,
    target: PathBuf,
    unnamed: UnnamedFile,
    /// Gets the entries as long as they are in order.
    in_order: Option<IndexWriter>,
    /// Entries that are not in a run yet.
    gathered: Vec<IndexEntry>,
    /// Memory of those.
    gathered_bytes: usize,
    gathered_max: usize,
    runs: Vec<IndexFile>,
}

impl IndexBuilder {
    /// An index of `header`, which will be the file `target`.
    ///
    /// # Errors
    /// No file can be made beside it.
    pub fn new(target: &Path, header: IndexHeader) -> Result<Self, IndexError> {
        Self::with_memory(target, header, GATHERED_BYTES_MAX)
    }

    /// As [`Self::new`], with another bound on the memory of entries that are sorted.
    pub(super) fn with_memory(
        target: &Path,
        header: IndexHeader,
        gathered_max: usize,
    ) -> Result<Self, IndexError> {
        let (file, unnamed) = UnnamedFile::create(target)?;
        Ok(Self {
            in_order: Some(IndexWriter::new(file, &header)?),
            header,
            target: target.to_owned(),
            unnamed,
            gathered: Vec::new(),
            gathered_bytes: 0,
            gathered_max,
            runs: Vec::new(),
        })
    }

    /// Adds an entry. Of several of one key the one that was written last stays.
    ///
    /// # Errors
    /// A file cannot be written, or S3 has no such keys.
    pub fn push(&mut self, entry: IndexEntry) -> Result<(), IndexError> {
        if let Some(writer) = &mut self.in_order {
            if writer.last() < entry.key.as_bytes() {
                return writer.push(&entry);
            }
            if let Some(writer) = self.in_order.take() {
                let run = IndexFile::of(writer.finish()?, &self.target)?;
                self.runs.push(run);
            }
        }
        self.gathered_bytes += entry.memory();
        self.gathered.push(entry);
        if self.gathered_bytes >= self.gathered_max {
            self.end_run()?;
        }
        Ok(())
    }

    /// Writes what was gathered.
    fn end_run(&mut self) -> Result<(), IndexError> {
        let mut entries = std::mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        // Of equal keys the newest comes first, and stays.
        entries.sort_unstable_by(|a, b| {
            let by_key = a.key.as_bytes().cmp(b.key.as_bytes());
            by_key.then(b.mtime.cmp(&a.mtime))
        });
        entries.dedup_by(|later, kept| later.key == kept.key);
        let mut writer = IndexWriter::new(self.run_file()?, &self.header)?;
        for entry in &entries {
            writer.push(entry)?;
        }
        self.runs
            .push(IndexFile::of(writer.finish()?, &self.target)?);
        if self.runs.len() >= RUNS_MAX {
            let file = merge(&self.runs, self.run_file()?, &self.header)?;
            self.runs = vec![IndexFile::of(file, &self.target)?];
        }
        Ok(())
    }

    /// A new file that nobody sees.
    fn run_file(&self) -> Result<File, IndexError> {
        let (file, unnamed) = UnnamedFile::create(&self.target)?;
        drop(unnamed);
        Ok(file)
    }

    /// Completes the file, and gives it its name.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(mut self) -> Result<IndexFile, IndexError> {
        let file = match self.in_order.take() {
            Some(writer) => writer.finish()?,
            None => {
                if !self.gathered.is_empty() {
                    self.end_run()?;
                }
                // The file that was to be named is the first run.
                let (file, unnamed) = UnnamedFile::create(&self.target)?;
                self.unnamed = unnamed;
                merge(&self.runs, file, &self.header)?
            }
        };
        self.unnamed.publish(&file)?;
        IndexFile::of(file, &self.target)
    }
}

/// Writes the entries of all `runs` to `file`, and of several of one key the newest.
fn merge(runs: &[IndexFile], file: File, header: &IndexHeader) -> Result<File, IndexError> {
    let mut writer = IndexWriter::new(file, header)?;
    let mut cursors: Vec<IndexCursor<'_>> = runs
        .iter()
        .map(|run| run.cursor(DiskWait::Allowed))
        .collect();
    let mut next = BinaryHeap::new();
    for (number, cursor) in cursors.iter_mut().enumerate() {
        if cursor.advance()? {
            next.push(Reverse(Head::of(cursor, number)?));
        }
    }
    let mut newest: Option<IndexEntry> = None;
    while let Some(Reverse(Head { entry, number })) = next.pop() {
        let cursor = &mut cursors[number];
        if cursor.advance()? {
            next.push(Reverse(Head::of(cursor, number)?));
        }
        match &mut newest {
            Some(kept) if kept.key == entry.key => {
                if kept.mtime < entry.mtime {
                    *kept = entry;
                }
            }
            _ => {
                if let Some(kept) = newest.replace(entry) {
                    writer.push(&kept)?;
                }
            }
        }
    }
    if let Some(kept) = newest {
        writer.push(&kept)?;
    }
    writer.finish()
}

/// The next entry of a run. In the order of keys.
#[derive(Debug)]
struct Head {
    entry: IndexEntry,
    number: usize,
}

impl Head {
    fn of(cursor: &IndexCursor<'_>, number: usize) -> Result<Self, IndexError> {
        let entry = cursor.entry()?;
        Ok(Self { entry, number })
    }

    fn order(&self) -> (&[u8], usize) {
        (self.entry.key.as_bytes(), self.number)
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// Memory of entries that are sorted at once.
const GATHERED_BYTES_MAX: usize = 64 << 20;

/// Runs that are merged at once: each is an open file.
const RUNS_MAX: usize = 64;
