//! Counts of the objects that a run finds and fetches, and the summary.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{BinaryBytes, HumanCount};
use serde::Serialize;

/// Counts of a run. Any thread.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Objects that were found and selected.
    pub(super) found: AtomicU64,
    /// Bytes of the found objects, without those that cannot be fetched.
    pub(super) found_bytes: AtomicU64,
    /// Whether all objects are found.
    pub(super) is_all_found: AtomicBool,
    /// Objects that are completely in the cache.
    pub(super) complete: AtomicU64,
    /// Objects that cannot be fetched.
    pub(super) failed: AtomicU64,
    /// Bytes that were in the cache before.
    pub(super) present_bytes: AtomicU64,
    /// Bytes that were fetched and stored.
    pub(super) fetched_bytes: AtomicU64,
    /// Objects that were in the cache and were evicted again.
    pub(super) evicted: AtomicU64,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Counts at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) found: u64,
    pub(super) found_bytes: u64,
    pub(super) is_all_found: bool,
    pub(super) complete: u64,
    pub(super) failed: u64,
    pub(super) present_bytes: u64,
    pub(super) fetched_bytes: u64,
    pub(super) evicted: u64,
}

impl Tally {
    /// The current counts.
    pub(super) fn counts(&self) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            found: count(&self.found),
            found_bytes: count(&self.found_bytes),
            is_all_found: self.is_all_found.load(Ordering::Relaxed),
            complete: count(&self.complete),
            failed: count(&self.failed),
            present_bytes: count(&self.present_bytes),
            fetched_bytes: count(&self.fetched_bytes),
            evicted: count(&self.evicted),
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    /// Objects that were found and selected.
    files: u64,
    /// Objects that are completely in the cache.
    complete: u64,
    /// Objects that could not be fetched.
    failed: u64,
    /// Objects that were in the cache and were evicted again.
    evicted: u64,
    fetched_bytes: u64,
    present_bytes: u64,
    /// Duration of the run.
    seconds: f64,
    /// Reason of an early end.
    ended_by: Option<String>,
}

impl Summary {
    /// Summarizes a run with these `counts`; `ended_by` is the reason of an early end.
    pub(super) fn new(counts: &Counts, ended_by: Option<String>, took: Duration) -> Self {
        Self {
            files: counts.found,
            complete: counts.complete.saturating_sub(counts.evicted),
            failed: counts.failed,
            evicted: counts.evicted,
            fetched_bytes: counts.fetched_bytes,
            present_bytes: counts.present_bytes,
            seconds: took.as_secs_f64(),
            ended_by,
        }
    }

    /// Whether all selected objects are in the cache.
    pub(super) fn is_complete(&self) -> bool {
        let is_all = self.complete == self.files && self.failed == 0;
        is_all && self.ended_by.is_none()
    }

    /// The summary as a line of JSON.
    pub(super) fn json(&self) -> String {
        // A struct of numbers and a text can always be serialized.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The summary as a line for a person.
    pub(super) fn text(&self, bucket: &str, cache: &str) -> String {
        let files = HumanCount(self.files);
        let mut text = if self.is_complete() {
            format!("{files} files of the bucket {bucket} are in the cache {cache}: ")
        } else {
            let complete = HumanCount(self.complete);
            let so_far = if self.ended_by.is_some() {
                " found so far"
            } else {
                ""
            };
            format!(
                "{complete} of {files} files{so_far} of the bucket {bucket} are in the cache {cache}: "
            )
        };
        // Writing to a string cannot fail.
        write!(
            text,
            "{} fetched, {} were there, in {:.1} s",
            BinaryBytes(self.fetched_bytes),
            BinaryBytes(self.present_bytes),
            self.seconds
        )
        .ok();
        if self.failed > 0 {
            write!(text, "; {} could not be fetched", HumanCount(self.failed)).ok();
        }
        if self.evicted > 0 {
            let evicted = HumanCount(self.evicted);
            write!(
                text,
                "; {evicted} were evicted again: the cache has no room for all, raise --max-cache-size"
            )
            .ok();
        }
        if self.ended_by.is_some() {
            text.push_str("; the next run fetches the rest");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries() {
        let counts = Counts {
            found: 1200,
            complete: 1200,
            fetched_bytes: 3 << 20,
            present_bytes: 1 << 30,
            ..Counts::default()
        };
        let took = Duration::from_millis(1500);
        let done = Summary::new(&counts, None, took);
        assert!(done.is_complete());
        assert_eq!(
            done.text("b", "/c"),
            "1,200 files of the bucket b are in the cache /c: 3.00 MiB fetched, 1.00 GiB were there, in 1.5 s"
        );
        assert!(done.json().contains(r#""fetched_bytes":3145728"#));
        let failed = Counts {
            complete: 1199,
            failed: 1,
            ..counts.clone()
        };
        let failed = Summary::new(&failed, None, took);
        assert!(!failed.is_complete());
        let text = failed.text("b", "/c");
        assert!(
            text.starts_with("1,199 of 1,200 files of the bucket"),
            "{text}"
        );
        assert!(text.ends_with("; 1 could not be fetched"), "{text}");
        let interrupted = Summary::new(&counts, Some("interrupted".to_owned()), took);
        assert!(!interrupted.is_complete());
        let text = interrupted.text("b", "/c");
        assert!(text.contains("1,200 files found so far"), "{text}");
        let evicted = Counts {
            evicted: 2,
            ..counts
        };
        let evicted = Summary::new(&evicted, None, took);
        assert!(!evicted.is_complete());
        assert!(evicted.text("b", "/c").contains("1,198 of 1,200"));
    }
}
