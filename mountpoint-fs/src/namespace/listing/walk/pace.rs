//! How fast a walk goes by itself: the time that its program takes from the end of one listing to
//! the next `opendir`, without the waits for S3.
//!
//! Pure.

use std::time::Duration;

use crate::config::limits::{WALK_DIRECTORIES_AHEAD_MAX, WALK_DIRECTORIES_AHEAD_MIN};

/// The pace of the walks of a mount.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Moving mean of what passes between two directories; `None` before the first.
    gap: Option<Duration>,
    /// When the program last got what it waited for.
    answered: Duration,
}

impl Pace {
    /// A program was shown the end of a directory.
    pub(super) fn answered(&mut self, now: Duration) {
        self.answered = now;
    }

    /// A program goes on to a directory.
    pub(super) fn opened(&mut self, now: Duration) {
        let gap = now.saturating_sub(self.answered);
        self.gap = Some(self.gap.map_or(gap, |mean| (7 * mean + gap) / 8));
        self.answered = now;
    }

    /// Another walk begins.
    pub(super) fn reset(&mut self) {
        self.gap = None;
    }

    /// How many directories may be listed ahead, if an answer may get `age_max` old: as many as the
    /// program opens in half of that time.
    pub(super) fn directories_ahead(&self, age_max: Duration) -> usize {
        let gap = self.gap.unwrap_or_default().max(Duration::from_micros(1));
        let count = (age_max / 2).as_nanos() / gap.as_nanos();
        usize::try_from(count)
            .unwrap_or(usize::MAX)
            .clamp(WALK_DIRECTORIES_AHEAD_MIN, WALK_DIRECTORIES_AHEAD_MAX)
    }
}

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
                // S3 takes long, which says nothing about the program.
                now += Duration::from_millis(200);
                pace.answered(now);
            }
            assert_eq!(pace.directories_ahead(Duration::from_secs(1)), ahead);
        }
    }
}
