//! Display of a run's progress and of its failures: a bar on a terminal, otherwise some lines.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{BinaryBytes, HumanCount, HumanDuration, ProgressBar};

use super::rate::Rate;
use super::tally::{Counts, Tally, add};
use crate::mount::{self, progress_bar};
use crate::sync::Mutex;

/// The counts of a run, and their display on standard error.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) tally: Tally,
    bar: ProgressBar,
    /// State of the display. No other lock is taken under it.
    shown: Mutex<Shown>,
    /// Store failures since the last success.
    failures_in_row: AtomicU64,
}

#[derive(Debug)]
struct Shown {
    rate: Rate,
    /// Time of the next line, if there is no terminal.
    next_line: Duration,
}

impl Progress {
    /// Begins the display of a run.
    pub(super) fn begin() -> Self {
        Self {
            tally: Tally::default(),
            bar: progress_bar(0, "{bar:24} {percent:>3} %  {msg}"),
            shown: Mutex::new(Shown {
                rate: Rate::default(),
                next_line: LINE_EVERY,
            }),
            failures_in_row: AtomicU64::new(0),
        }
    }

    /// Displays the progress at the time `now`.
    pub(super) fn show(&self, now: Duration) {
        let counts = self.tally.counts();
        let mut shown = self.shown.lock();
        shown.rate.note(counts.fetched_bytes, now);
        let line = line(&counts, &shown.rate);
        if !self.bar.is_hidden() {
            self.bar.set_length(counts.found_bytes);
            let there = counts.present_bytes + counts.fetched_bytes;
            self.bar.set_position(there);
            self.bar.set_message(line);
        } else if now >= shown.next_line {
            shown.next_line = now + LINE_EVERY;
            self.tell(&line);
        }
    }

    /// Prints a line for the user.
    pub(super) fn tell(&self, text: &str) {
        self.bar.suspend(|| mount::tell("warm", text));
    }

    /// Counts a failed object, of which `bytes` were counted as found and are missing.
    pub(super) fn failed(&self, key: &str, reason: &str, bytes: u64) {
        add(&self.tally.failed, 1);
        self.tally.found_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.tell(&format!("{key}: {reason}"));
    }

    /// Records a success: the store works.
    pub(super) fn succeeded(&self) {
        self.failures_in_row.store(0, Ordering::Relaxed);
    }

    /// Records a failure of the store. Returns whether there were too many in a row to continue.
    pub(super) fn is_hopeless(&self) -> bool {
        self.failures_in_row.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES_IN_ROW_MAX
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The counts as a text.
fn line(counts: &Counts, rate: &Rate) -> String {
    let so_far = if counts.is_all_found { "" } else { " so far" };
    let there = counts.present_bytes + counts.fetched_bytes;
    let mut line = format!(
        "{} of {} files, {} of {}{so_far}, {}/s",
        HumanCount(counts.complete),
        HumanCount(counts.found),
        BinaryBytes(there),
        BinaryBytes(counts.found_bytes),
        BinaryBytes(rate.per_second()),
    );
    let left = counts.found_bytes.saturating_sub(there);
    if let Some(time) = rate.time_for(left).filter(|_| left > 0) {
        // Writing to a string cannot fail.
        write!(line, ", {} left", HumanDuration(time)).ok();
    }
    if counts.failed > 0 {
        write!(line, ", {} failed", HumanCount(counts.failed)).ok();
    }
    line
}

/// Interval between lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The client has repeated each of these requests: the store is unreachable.
const FAILURES_IN_ROW_MAX: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let mut rate = Rate::default();
        rate.note(0, Duration::ZERO);
        rate.note(4 << 20, Duration::from_secs(4));
        let mut counts = Counts {
            found: 2000,
            found_bytes: 100 << 20,
            complete: 7,
            present_bytes: 2 << 20,
            fetched_bytes: 4 << 20,
            ..Counts::default()
        };
        assert_eq!(
            line(&counts, &rate),
            "7 of 2,000 files, 6.00 MiB of 100.00 MiB so far, 1.00 MiB/s, 2 minutes left"
        );
        counts.is_all_found = true;
        counts.failed = 3;
        counts.fetched_bytes = 98 << 20;
        assert_eq!(
            line(&counts, &Rate::default()),
            "7 of 2,000 files, 100.00 MiB of 100.00 MiB, 0 B/s, 3 failed"
        );
    }
}
