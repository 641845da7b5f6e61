//! Texts and JSON documents of `mount-s3 cache`.

use std::io;
use std::time::SystemTime;

use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use time::format_description::well_known::Rfc3339;

use crate::cache::maintenance::{Description, RemovedEntries};
use crate::clock::date;
use crate::mount;

/// Something to print, in either form.
pub(super) trait Report: Serialize {
    /// The lines for people.
    fn lines(&self) -> Vec<String>;
}

/// Prints a report.
pub(super) fn print(report: &impl Report, is_json: bool) -> io::Result<()> {
    mount::print(report, &report.lines(), is_json)
}

/// `stat`: what all caches of the directory have.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Statistics {
    /// Folders of the caches, one for each key.
    pub(super) caches: Vec<String>,
    pub(super) entries: u64,
    /// Entries of which a file is missing.
    pub(super) incomplete: u64,
    /// Bytes on the disk.
    pub(super) bytes: u64,
    pub(super) disk_bytes: u64,
    pub(super) disk_bytes_free: u64,
    /// When an entry was last used, of the one that was so least recently.
    pub(super) oldest_use: Option<String>,
    pub(super) newest_use: Option<String>,
}

impl Report for Statistics {
    fn lines(&self) -> Vec<String> {
        let never = || "-".to_owned();
        let mut lines: Vec<_> = self.caches.iter().map(|path| row("cache", path)).collect();
        if lines.is_empty() {
            return vec!["there is no cache in the directory".to_owned()];
        }
        lines.push(row("entries", &HumanCount(self.entries).to_string()));
        if self.incomplete > 0 {
            lines.push(row("incomplete", &HumanCount(self.incomplete).to_string()));
        }
        lines.push(row("bytes", &amount(self.bytes)));
        let free = format!(
            "{} of {}",
            amount(self.disk_bytes_free),
            amount(self.disk_bytes)
        );
        lines.push(row("free on the disk", &free));
        let oldest = self.oldest_use.clone().unwrap_or_else(never);
        lines.push(row("least recent use", &oldest));
        let newest = self.newest_use.clone().unwrap_or_else(never);
        lines.push(row("latest use", &newest));
        lines
    }
}

/// `list`: one entry.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EntryRow {
    name: String,
    endpoint: String,
    bucket: String,
    key: String,
    etag: String,
    /// Size of the object.
    size: u64,
    /// Bytes of the object that are there.
    cached: u64,
    /// Bytes that the entry occupies.
    bytes: u64,
    last_use: String,
}

impl EntryRow {
    pub(super) fn new(name: String, found: Description, bytes: u64, last_use: SystemTime) -> Self {
        let Description {
            version,
            bytes: cached,
        } = found;
        Self {
            name,
            endpoint: version.store.endpoint,
            bucket: version.store.bucket,
            key: version.key.as_str().to_owned(),
            etag: version.etag.as_str().to_owned(),
            size: version.size,
            cached,
            bytes,
            last_use: text_of(last_use),
        }
    }
}

impl Report for EntryRow {
    fn lines(&self) -> Vec<String> {
        let percent = match self.size {
            0 => 100,
            size => u128::from(self.cached) * 100 / u128::from(size),
        };
        vec![format!(
            "{}  {:>10}  {percent:>3} %  s3://{}/{}",
            self.last_use,
            amount(self.size),
            self.bucket,
            self.key
        )]
    }
}

/// `verify`: what was found.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Verified {
    /// Entries that are right.
    pub(super) right: u64,
    /// Bytes that were compared with their checksums.
    pub(super) bytes: u64,
    pub(super) damaged: Vec<Damage>,
    /// Entries that the disk did not read or remove.
    pub(super) failed: Vec<Damage>,
}

/// An entry that was wrong.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Damage {
    pub(super) name: String,
    pub(super) reason: String,
}

impl Report for Verified {
    fn lines(&self) -> Vec<String> {
        let rows = |what: &str, damages: &[Damage]| {
            let rows = damages.iter();
            let rows = rows.map(|it| format!("{what} {}: {}", it.name, it.reason));
            rows.collect::<Vec<_>>()
        };
        let mut lines = rows("removed", &self.damaged);
        lines.extend(rows("failed", &self.failed));
        lines.push(format!(
            "{} entries are right ({} compared), {} were damaged and removed, {} failed",
            HumanCount(self.right),
            amount(self.bytes),
            HumanCount(self.damaged.len() as u64),
            HumanCount(self.failed.len() as u64)
        ));
        lines
    }
}

/// `evict` and `clear`.
impl Report for RemovedEntries {
    fn lines(&self) -> Vec<String> {
        let (entries, bytes) = (HumanCount(self.entries), amount(self.bytes));
        vec![format!("removed {entries} entries, {bytes}")]
    }
}

/// A time for people and programs, in UTC.
pub(super) fn text_of(time: SystemTime) -> String {
    let time = date(time);
    let time = time.replace_nanosecond(0).unwrap_or(time);
    time.format(&Rfc3339).unwrap_or_default()
}

fn amount(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

fn row(name: &str, value: &str) -> String {
    format!("{name:<18}{value}")
}
