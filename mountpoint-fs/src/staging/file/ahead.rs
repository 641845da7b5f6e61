//! The bytes of a new file that are sent while it is written. Pure.
//!
//! Bytes that are written once, from the first on, are sent a little behind the last write. If one
//! of them is written again, nothing more is sent ahead, and the store sends its part again.

use std::ops::Range;
use std::sync::Arc;

use crate::staging::upload::EarlyStore;

/// Bytes that were sent of a file before its store.
#[derive(Debug, Default)]
pub(super) struct SendAhead {
    store: Option<Arc<EarlyStore>>,
    /// Bytes before it were sent, or are being sent.
    until: u64,
    is_running: bool,
    /// No more bytes are sent ahead.
    is_over: bool,
    /// Bytes that were sent have changed since.
    is_void: bool,
}

impl SendAhead {
    /// The next bytes to send, where bytes up to `written` were written.
    pub(super) fn next(&self, written: u64) -> Option<Range<u64>> {
        let range = self.until..self.until + AHEAD_STEP;
        let least = (range.end + AHEAD_BEHIND).max(AHEAD_MIN);
        (!self.is_over && written >= least).then_some(range)
    }

    /// Whether the caller is to send the next bytes, and those behind them.
    pub(super) fn run(&mut self) -> bool {
        !std::mem::replace(&mut self.is_running, true)
    }

    /// The caller sends no more.
    pub(super) fn rest(&mut self) {
        self.is_running = false;
    }

    /// The store that sends the bytes up to `end`, if it was begun.
    pub(super) fn sending(&mut self, end: u64) -> Option<Arc<EarlyStore>> {
        self.until = end;
        self.store.clone()
    }

    /// The store was begun.
    pub(super) fn begun(&mut self, store: &Arc<EarlyStore>) {
        self.store = Some(Arc::clone(store));
    }

    /// Bytes from `offset` on change. The store may be begun a moment later.
    pub(super) fn changed(&mut self, offset: u64) {
        if offset < self.until {
            self.is_over = true;
            self.is_void = true;
        }
    }

    /// No more bytes are sent ahead. Returns the store that was begun; one that is void can only be
    /// given up.
    pub(super) fn end(&mut self) -> Option<Arc<EarlyStore>> {
        self.is_over = true;
        let store = self.store.take()?;
        if self.is_void {
            store.make_void();
        }
        Some(store)
    }
}

/// Bytes that are sent at once: one part. A close waits for no more of them.
const AHEAD_STEP: u64 = 8 << 20;

/// Bytes before the last one that was written that are not sent: programs correct what they have
/// just written.
const AHEAD_BEHIND: u64 = 8 << 20;

/// Least bytes of a file of which something is sent ahead. Smaller ones are stored quickly, and
/// many are removed before their close.
const AHEAD_MIN: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_was_written_is_sent_a_step_behind() {
        let mut ahead = SendAhead::default();
        for (written, expected) in [
            (0, None),
            (64 * MIB - 1, None),
            (64 * MIB, Some(0..8 * MIB)),
            (1000 * MIB, Some(0..8 * MIB)),
        ] {
            assert_eq!(ahead.next(written), expected, "{written}");
        }
        assert!(ahead.sending(56 * MIB).is_none());
        for (written, expected) in [
            (72 * MIB - 1, None),
            (72 * MIB, Some(56 * MIB..64 * MIB)),
            (10 * MIB, None),
        ] {
            assert_eq!(ahead.next(written), expected, "{written}");
        }
        ahead.changed(56 * MIB);
        assert!(ahead.next(72 * MIB).is_some() && !ahead.is_void);
        ahead.changed(56 * MIB - 1);
        assert!(ahead.next(72 * MIB).is_none() && ahead.is_void);
    }

    #[test]
    fn one_task_sends_and_none_behind_the_store() {
        let mut ahead = SendAhead::default();
        assert!(ahead.run());
        assert!(!ahead.run());
        ahead.rest();
        assert!(ahead.run());
        ahead.end();
        assert_eq!(ahead.next(64 * MIB), None);
    }
}
