//! A limit of equal lines in the log.
//!
//! A program that retries a refused operation in a loop must not fill the disk with log lines.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::clock::Clock;
use crate::sync::Mutex;

/// At most [`LINES_PER_PERIOD_MAX`] lines of each kind in each period of [`PERIOD`].
///
/// Each kind is remembered, so kinds must be few: a kind is `Copy`, and so has no text of a
/// request, as names.
#[derive(Debug)]
pub(in crate::fuse) struct LogLimit<K> {
    clock: Clock,
    /// Guards the counts only; held for a few instructions, inside any other lock.
    kinds: Mutex<HashMap<K, State>>,
}

#[derive(Debug, Default)]
struct State {
    period_start: Duration,
    lines: u32,
    suppressed: u64,
}

impl<K: Copy + Eq + Hash> LogLimit<K> {
    /// A limit that counts periods on `clock`.
    pub(in crate::fuse) fn new(clock: Clock) -> Self {
        Self {
            clock,
            kinds: Mutex::new(HashMap::new()),
        }
    }

    /// The number of suppressed lines of this kind since the last one, if a line may be written
    /// now.
    pub(in crate::fuse) fn admit(&self, kind: K) -> Option<u64> {
        let now = self.clock.now();
        let mut kinds = self.kinds.lock();
        let state = kinds.entry(kind).or_default();
        if now.saturating_sub(state.period_start) >= PERIOD {
            state.period_start = now;
            state.lines = 0;
        }
        if state.lines >= LINES_PER_PERIOD_MAX {
            state.suppressed += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.suppressed))
    }
}

/// Short enough to show a lasting failure, long enough to keep the log readable.
const PERIOD: Duration = Duration::from_secs(10);
/// Enough to show more than one affected file.
const LINES_PER_PERIOD_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_and_counted() {
        let clock = Clock::manual();
        let limit = LogLimit::new(clock.clone());
        for _ in 0..LINES_PER_PERIOD_MAX {
            assert_eq!(limit.admit("write"), Some(0));
        }
        clock.advance(PERIOD - Duration::from_nanos(1));
        assert_eq!(limit.admit("write"), None);
        assert_eq!(limit.admit("open"), Some(0));
        assert_eq!(limit.admit("write"), None);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(limit.admit("write"), Some(2));
        assert_eq!(limit.admit("write"), Some(0));
    }
}
