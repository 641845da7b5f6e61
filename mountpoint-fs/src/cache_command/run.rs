//! `mount-s3 cache` from its arguments to its exit code.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use indicatif::ProgressBar;

use super::arguments::{CacheArguments, CachePlace, CacheTask};
use super::report::{Damage, EntryRow, Statistics, Verified, print, text_of};
use crate::cache::ListedEntry;
use crate::cache::maintenance::{EntryCheck, KeptCache, RemovedEntries, last_use};
use crate::clock::Clock;
use crate::mount::{parse_helper, progress_bar, run_helper};

/// Runs `mount-s3 cache` with the arguments after that word.
///
/// The exit code is 0 if it was done, 1 if not or if entries were damaged, 2 for a wrong command
/// line.
#[must_use]
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    run_helper("cache", parse_helper(arguments), work)
}

/// Does what is asked. Returns whether nothing was wrong.
fn work(arguments: &CacheArguments) -> Result<bool, String> {
    let clock = Clock::monotonic();
    let CachePlace { directory, json } = arguments.place();
    let caches = KeptCache::open_all(directory, &clock)?;
    let failed = |error: io::Error| match error.kind() {
        // The reader of the output has seen enough.
        io::ErrorKind::BrokenPipe => String::new(),
        _ => format!("{}: {error}", directory.display()),
    };
    let done = match &arguments.task {
        CacheTask::Stat(_) => {
            let (report, _) = count(&caches, directory).map_err(failed)?;
            print(&report, *json).map(|()| true)
        }
        CacheTask::List(_) => list(&caches, *json).map(|()| true),
        CacheTask::Verify(_) => {
            let (counted, _) = count(&caches, directory).map_err(failed)?;
            let bar = progress_bar(
                counted.bytes,
                "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
            );
            let report = verify(&caches, &bar).map_err(failed)?;
            bar.finish_and_clear();
            let is_right = report.damaged.is_empty() && report.failed.is_empty();
            print(&report, *json).map(|()| is_right)
        }
        CacheTask::Evict { to, older_than, .. } => {
            let since = older_than.and_then(|age| clock.wall().checked_sub(age));
            let removal = evict(caches, *to, since, directory).map_err(failed)?;
            print(&removal, *json).map(|()| true)
        }
        CacheTask::Clear(_) => {
            let removal = remove(caches, KeptCache::clear).map_err(failed)?;
            print(&removal, *json).map(|()| true)
        }
    };
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        done => done.map_err(failed),
    }
}

/// Counts all entries. Returns the bytes of each cache, too.
fn count(caches: &[KeptCache], directory: &Path) -> io::Result<(Statistics, Vec<u64>)> {
    let mut report = Statistics::default();
    let mut bytes = Vec::new();
    let mut uses: Option<(SystemTime, SystemTime)> = None;
    for cache in caches {
        report.caches.push(cache.path().display().to_string());
        let before = report.bytes;
        for entries in cache.shards() {
            for entry in entries? {
                report.entries += 1;
                report.incomplete += u64::from(!entry.is_complete);
                report.bytes += entry.bytes;
                let used = last_use(&entry);
                let (oldest, newest) = uses.unwrap_or((used, used));
                uses = Some((oldest.min(used), newest.max(used)));
            }
        }
        bytes.push(report.bytes - before);
        let space = cache.space()?;
        (report.disk_bytes, report.disk_bytes_free) = (space.total, space.available);
    }
    tracing::debug!("{}: {} entries", directory.display(), report.entries);
    report.oldest_use = uses.map(|(oldest, _)| text_of(oldest));
    report.newest_use = uses.map(|(_, newest)| text_of(newest));
    Ok((report, bytes))
}

fn list(caches: &[KeptCache], is_json: bool) -> io::Result<()> {
    for cache in caches {
        for entries in cache.shards() {
            for entry in entries? {
                // A damaged entry is a miss, and `verify` names it.
                if let EntryCheck::Right(found) = cache.describe(&entry)? {
                    let (name, used) = (entry.name.to_string(), last_use(&entry));
                    let row = EntryRow::new(name, found, entry.bytes, used);
                    print(&row, is_json)?;
                }
            }
        }
    }
    Ok(())
}

fn verify(caches: &[KeptCache], bar: &ProgressBar) -> io::Result<Verified> {
    let mut report = Verified::default();
    for cache in caches {
        for entries in cache.shards() {
            for entry in entries? {
                let began = bar.position();
                verify_one(cache, &entry, &mut report, bar);
                // Holes of the data, and the index.
                bar.set_position(began + entry.bytes);
            }
        }
    }
    Ok(report)
}

fn verify_one(cache: &KeptCache, entry: &ListedEntry, report: &mut Verified, bar: &ProgressBar) {
    let name = entry.name.to_string();
    let mut compared = 0;
    let verdict = cache.verify(entry, &mut |bytes| {
        compared += bytes;
        bar.inc(bytes);
    });
    report.bytes += compared;
    let reason = match verdict {
        Ok(EntryCheck::Right(_)) => {
            report.right += 1;
            return;
        }
        Ok(EntryCheck::Absent) => return,
        Ok(EntryCheck::Damaged(reason)) => reason.to_owned(),
        Err(error) => error.to_string(),
    };
    match cache.remove([entry]) {
        Ok(_) => report.damaged.push(Damage { name, reason }),
        Err(error) => report.failed.push(Damage {
            name,
            reason: format!("{reason}; it cannot be removed: {error}"),
        }),
    }
}

/// Removes until `bytes_max` are left, of which each cache has its share, or what is older.
fn evict(
    caches: Vec<KeptCache>,
    bytes_max: Option<u64>,
    since: Option<SystemTime>,
    directory: &Path,
) -> io::Result<RemovedEntries> {
    let Some(bytes_max) = bytes_max else {
        // Nothing is older than the beginning of time.
        return remove(caches, |cache| match since {
            Some(since) => cache.evict_older_than(since),
            None => Ok(RemovedEntries::default()),
        });
    };
    let (all, of_each) = count(&caches, directory)?;
    let mut of_each = of_each.into_iter();
    remove(caches, |cache| {
        let bytes = u128::from(of_each.next().unwrap_or_default());
        let share = u128::from(bytes_max) * bytes / u128::from(all.bytes.max(1));
        cache.evict_to(u64::try_from(share).unwrap_or(u64::MAX))
    })
}

fn remove(
    caches: Vec<KeptCache>,
    mut from: impl FnMut(KeptCache) -> io::Result<RemovedEntries>,
) -> io::Result<RemovedEntries> {
    let mut removed = RemovedEntries::default();
    for cache in caches {
        removed += from(cache)?;
    }
    Ok(removed)
}
