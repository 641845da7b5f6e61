//! Where the shared bucket likely has nothing, by directory.
//!
//! Pure. After a few misses in a row in a directory only each so-many-th extent of it is asked for;
//! one that is there ends that, and so does some time, in which others may have stored more.
//! Directories share a table of fixed size by a hash: two in one place only ask too much or too
//! little.

use std::time::Duration;

/// The latest hits and misses, by directory.
#[derive(Debug)]
pub(in crate::cache::shared) struct MissPredictor(Box<[Directory]>);

#[derive(Clone, Copy, Debug, Default)]
struct Directory {
    /// Misses in a row.
    misses: u32,
    /// Extents that were not asked for since the last one that was.
    unasked: u32,
    /// When the last one was asked for.
    asked_at: Duration,
}

impl Default for MissPredictor {
    fn default() -> Self {
        Self(vec![Directory::default(); DIRECTORIES].into())
    }
}

impl MissPredictor {
    /// Whether to ask for an extent of a directory.
    pub(in crate::cache::shared) fn asks(&mut self, directory: u64, now: Duration) -> bool {
        let entry = self.entry(directory);
        let doublings = entry.misses.saturating_sub(MISSES_MIN);
        let every = 1u32
            .checked_shl(doublings)
            .unwrap_or(EVERY_MAX)
            .min(EVERY_MAX);
        let is_old = now.saturating_sub(entry.asked_at) >= FORGET_AFTER;
        entry.unasked += 1;
        if entry.unasked < every && !is_old {
            return false;
        }
        entry.unasked = 0;
        entry.asked_at = now;
        true
    }

    /// An extent of a directory was there.
    pub(in crate::cache::shared) fn found(&mut self, directory: u64) {
        *self.entry(directory) = Directory {
            asked_at: self.entry(directory).asked_at,
            ..Directory::default()
        };
    }

    /// An extent of a directory was not there.
    pub(in crate::cache::shared) fn missed(&mut self, directory: u64) {
        let entry = self.entry(directory);
        entry.misses = entry.misses.saturating_add(1);
    }

    fn entry(&mut self, directory: u64) -> &mut Directory {
        let place = directory % DIRECTORIES as u64;
        &mut self.0[usize::try_from(place).unwrap_or(0)]
    }
}

/// Directories that are told apart: 16 KiB of memory.
const DIRECTORIES: usize = 1024;

/// Misses in a row after which fewer extents are asked for.
const MISSES_MIN: u32 = 4;

/// At least each so-many-th extent is asked for: 3 % more requests where nothing is there, and a
/// directory that somebody filled is noticed within as many extents.
const EVERY_MAX: u32 = 32;

/// Time after which an extent is asked for in any case: others may have stored what was missing.
const FORGET_AFTER: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    /// How many of `extents` are asked for, where none is there.
    fn asked(predictor: &mut MissPredictor, extents: u32) -> u32 {
        let mut asked = 0;
        for _ in 0..extents {
            if predictor.asks(7, NOW) {
                asked += 1;
                predictor.missed(7);
            }
        }
        asked
    }

    #[test]
    fn an_empty_directory_costs_few_requests() {
        let mut predictor = MissPredictor::default();
        assert!(asked(&mut predictor, 100) <= 12);
        assert!(asked(&mut predictor, 3200) <= 100);
        assert!(predictor.asks(8, NOW), "another directory");
    }

    #[test]
    fn a_hit_ends_it_and_so_does_time() {
        let mut predictor = MissPredictor::default();
        asked(&mut predictor, 1000);
        assert!((0..EVERY_MAX).any(|_| predictor.asks(7, NOW)));
        predictor.found(7);
        assert_eq!(asked(&mut predictor, 5), 5);
        asked(&mut predictor, 1000);
        while predictor.asks(7, NOW) {}
        assert!(predictor.asks(7, NOW + FORGET_AFTER));
    }
}
