//! A walk's own pace: the program's time from the end of one listing to the next `opendir`.
//!
//! Pure. The waits for S3 do not count.

use std::time::Duration;

/// The pace of the walks of a mount.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Moving mean of the time between two directories; `None` before the first.
    gap: Option<Duration>,
    /// Time when the program last got an answer or opened a directory.
    answered: Duration,
}

impl Pace {
    /// Records that a program has its answer, or has read a directory to its end.
    pub(super) fn answered(&mut self, now: Duration) {
        self.answered = now;
    }

    /// Records that a program opens the next directory.
    pub(super) fn opened(&mut self, now: Duration) {
        let gap = now.saturating_sub(self.answered);
        self.gap = Some(self.gap.map_or(gap, |mean| (7 * mean + gap) / 8));
        self.answered = now;
    }

    /// Forgets the mean, because another walk begins.
    pub(super) fn reset(&mut self) {
        self.gap = None;
    }

    /// How many directories to list ahead: as many as the program opens within half of `age_max`,
    /// the maximum age of an answer.
    pub(super) fn directories_ahead(&self, age_max: Duration) -> usize {
        let gap = self.gap.unwrap_or_default().max(Duration::from_micros(1));
        let count = (age_max / 2).as_nanos() / gap.as_nanos();
        usize::try_from(count)
            .unwrap_or(usize::MAX)
            .clamp(WALK_DIRECTORIES_AHEAD_MIN, WALK_DIRECTORIES_AHEAD_MAX)
    }
}

/// Directories to list ahead of a slow walk.
const WALK_DIRECTORIES_AHEAD_MIN: usize = 2;

/// Directories to list ahead of a fast walk: 16 answers of small directories.
const WALK_DIRECTORIES_AHEAD_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_program_is_not_far_ahead_of() {
        for (gap_ms, ahead) in [
            (0, WALK_DIRECTORIES_AHEAD_MAX),
            (10, 50),
            (100, 5),
            (9_000, WALK_DIRECTORIES_AHEAD_MIN),
        ] {
            let mut pace = Pace::default();
            let mut now = Duration::ZERO;
            for _ in 0..50 {
                now += Duration::from_millis(gap_ms);
                pace.opened(now);
                // A slow answer of S3 does not change the program's pace.
                now += Duration::from_millis(200);
                pace.answered(now);
            }
            assert_eq!(pace.directories_ahead(Duration::from_secs(1)), ahead);
        }
    }
}
