//! An inventory of S3 in the place of a listing: files in Parquet, or in CSV as they are or
//! compressed by gzip.
//!
//! A manifest names the files, and the columns of CSV; without one these columns are given. Rows of
//! older versions and of deletions are left out. Nothing is guessed: a row that is not what its
//! columns say is an error that names its place.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod manifest;
mod object;
mod parquet;
mod row;

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::index::IndexEntry;
use manifest::{InventoryFormat, Manifest};
pub(super) use row::Columns;

/// Files of one inventory.
#[derive(Debug)]
pub(super) struct Inventory {
    files: Vec<PathBuf>,
    format: InventoryFormat,
    /// Where the manifest says which bucket it is of.
    bucket: Option<String>,
}

impl Inventory {
    /// The inventory that `given` files are: a manifest, files in Parquet, or CSV files with
    /// `columns`.
    pub(super) fn of(given: &[PathBuf], columns: Option<&Columns>) -> Result<Self, String> {
        let is_manifest = |path: &&PathBuf| path.extension().is_some_and(|it| it == "json");
        match (given.iter().find(is_manifest), columns) {
            (Some(path), None) if given.len() == 1 => {
                let manifest = Manifest::read(path)?;
                Ok(Self {
                    files: manifest.files,
                    format: manifest.format,
                    bucket: Some(manifest.bucket),
                })
            }
            (Some(path), None) => Err(format!(
                "{} names the files of the inventory: give it alone",
                path.display()
            )),
            (Some(path), Some(_)) => Err(format!(
                "{} names the columns of the inventory: leave --inventory-columns out",
                path.display()
            )),
            (None, Some(columns)) => Ok(Self {
                files: given.to_vec(),
                format: InventoryFormat::Csv(columns.clone()),
                bucket: None,
            }),
            (None, None) if given.iter().all(|path| parquet::is_parquet(path)) => Ok(Self {
                files: given.to_vec(),
                format: InventoryFormat::Parquet,
                bucket: None,
            }),
            (None, None) => Err(
                "CSV files do not name their columns: give the inventory's manifest.json, or --inventory-columns"
                    .to_owned(),
            ),
        }
    }

    /// The bucket that it is of, if it says so.
    pub(super) fn bucket(&self) -> Option<&str> {
        self.bucket.as_deref()
    }

    /// Hands out every object under `prefix`, file by file.
    pub(super) fn read(
        &self,
        prefix: &str,
        mut take_in: impl FnMut(IndexEntry) -> Result<(), String>,
    ) -> Result<(), String> {
        for path in &self.files {
            let shown = path.display();
            let read = match &self.format {
                InventoryFormat::Csv(columns) => read_csv(path, columns, prefix, &mut take_in),
                InventoryFormat::Parquet => parquet::read(path, prefix, &mut take_in),
            };
            read.map_err(|error| match error {
                RowError::File(what) => format!("cannot read {shown}: {what}"),
                RowError::Line(line, what) => format!("{shown}, line {line}: {what}"),
                RowError::Row(row, what) => format!("{shown}, row {row}: {what}"),
                RowError::Outside(what) => what,
            })?;
        }
        Ok(())
    }
}

fn read_csv(
    path: &Path,
    columns: &Columns,
    prefix: &str,
    take_in: &mut impl FnMut(IndexEntry) -> Result<(), String>,
) -> Result<(), RowError> {
    let mut lines = open(path).map_err(|error| RowError::File(error.to_string()))?;
    let mut line = Vec::new();
    for number in 1.. {
        let at = |what: &str| RowError::Line(number, what.to_owned());
        line.clear();
        let mut bounded = lines.by_ref().take(LINE_MAX);
        let read = bounded.read_until(b'\n', &mut line);
        if read.map_err(|error| at(&error.to_string()))? == 0 {
            return Ok(());
        }
        if line.len() as u64 == LINE_MAX {
            return Err(at("the line is longer than any row of an inventory"));
        }
        let text = std::str::from_utf8(line.trim_ascii_end());
        let text = text.map_err(|_| at("it is no text"))?;
        if text.is_empty() {
            continue;
        }
        let entry = columns.entry(text).map_err(at)?;
        if let Some(entry) = entry.filter(|entry| entry.key.starts_with(prefix)) {
            take_in(entry).map_err(RowError::Outside)?;
        }
    }
    Ok(())
}

enum RowError {
    /// The error of the whole file.
    File(String),
    /// The error, with its line.
    Line(u64, String),
    /// The error, with its row.
    Row(u64, String),
    /// The error of the receiver of rows.
    Outside(String),
}

/// The lines of a file, which may be compressed whatever its name is.
fn open(path: &Path) -> std::io::Result<Box<dyn BufRead>> {
    let mut file = File::open(path)?;
    let mut magic = Vec::new();
    file.by_ref().take(2).read_to_end(&mut magic)?;
    file.rewind()?;
    Ok(if magic == GZIP {
        Box::new(BufReader::with_capacity(
            READ_BYTES,
            MultiGzDecoder::new(file),
        ))
    } else {
        Box::new(BufReader::with_capacity(READ_BYTES, file))
    })
}

/// The first bytes of what gzip compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Longest line: a key of 1,024 bytes, each as `%XX`, and the other columns.
const LINE_MAX: u64 = 64 << 10;

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests;
