//! Whether applications close files one behind the other: then their uploads wait.
//!
//! Pure. An upload takes processor time and memory that `tar`, `git` or a compiler needs for the
//! next file, and rewrites of a file that come meanwhile make one upload.

use std::collections::VecDeque;
use std::time::Duration;

/// The times of the last commits.
#[derive(Debug, Default)]
pub(super) struct Foreground {
    recent: VecDeque<Duration>,
    /// Until when nothing yields: somebody waits for uploads.
    unyielding_until: Duration,
}

impl Foreground {
    /// A commit is durable.
    pub(super) fn committed(&mut self, now: Duration) {
        if self.recent.len() == BURST_COMMITS {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
    }

    /// Somebody waits for uploads: those that wait now yield no more.
    pub(super) fn hurry(&mut self, now: Duration) {
        self.unyielding_until = now + YIELD_MAX;
    }

    /// When the upload of a file may begin that is due at `due`, while `bytes` wait, if no further
    /// commit comes.
    pub(super) fn begins_at(&self, due: Duration, bytes: u64) -> Duration {
        let burst = self.recent.front();
        let burst = burst.filter(|_| self.recent.len() == BURST_COMMITS && bytes < YIELD_BYTES_MAX);
        let Some(ends) = burst.map(|first| *first + BURST_TIME) else {
            return due;
        };
        if due < self.unyielding_until {
            return due;
        }
        due.max(ends).min(due + YIELD_MAX)
    }
}

/// As many commits within [`BURST_TIME`] are a burst: more than a person or a log makes.
const BURST_COMMITS: usize = 32;

/// See [`BURST_COMMITS`]. A pause of this length ends a burst.
const BURST_TIME: Duration = Duration::from_millis(250);

/// Longest time for which an upload yields.
const YIELD_MAX: Duration = Duration::from_secs(10);

/// Bytes that may wait meanwhile: a quarter of what the journal holds of small files.
const YIELD_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// What commits at these times make of an upload that is due at `due`.
    #[track_caller]
    fn check(commits: impl IntoIterator<Item = u64>, due: u64, begins: u64) {
        let mut foreground = Foreground::default();
        for at in commits {
            foreground.committed(ms(at));
        }
        assert_eq!(foreground.begins_at(ms(due), 0), ms(begins));
    }

    #[test]
    fn uploads_yield_to_a_burst() {
        check([], 1000, 1000);
        check((0..31).map(|_| 1000), 1000, 1000);
        check((0..32).map(|_| 1000), 1000, 1250);
        // One each 5 ms: the last 32 began at 840.
        check((0..200).map(|number| number * 5), 500, 840 + 250);
        check((0..200).map(|number| number * 5), 2000, 2000);
        // One each 10 ms is none.
        check((0..200).map(|number| number * 10), 2000, 2000);
    }

    #[test]
    fn a_burst_without_end_delays_them_for_so_long() {
        check((0..10_000).map(|number| 2 * number), 1000, 11_000);
    }

    #[test]
    fn those_who_wait_and_much_that_waits_end_it() {
        let mut foreground = Foreground::default();
        for _ in 0..BURST_COMMITS {
            foreground.committed(ms(1000));
        }
        assert_eq!(foreground.begins_at(ms(900), YIELD_BYTES_MAX), ms(900));
        assert_eq!(foreground.begins_at(ms(900), 0), ms(1250));
        foreground.hurry(ms(1000));
        assert_eq!(foreground.begins_at(ms(900), 0), ms(900));
    }
}
