//! The bytes of a file that are sent while it is written. Pure.
//!
//! Bytes are sent in order, a part as soon as it is full. A part with bytes that are written again
//! later is sent once more by the store: a program that does so is followed with a distance.

use std::ops::Range;
use std::sync::Arc;

use crate::file::store::{EarlyStore, SentChanges};

/// Bytes that were sent of a file before its store.
#[derive(Debug, Default)]
pub(super) struct SendAhead {
    store: Option<Arc<EarlyStore>>,
    /// Bytes before it were sent, or are being sent.
    until: u64,
    /// What of them has changed since.
    changes: SentChanges,
    is_running: bool,
    /// Bytes before the last one that was written that are not sent.
    distance: u64,
    /// No more bytes are sent ahead.
    is_over: bool,
    /// A range has changed that the server has copied, and that is too long to be sent instead: all
    /// is to be sent by another upload.
    is_void: bool,
    /// Parts that are being sent.
    in_flight: usize,
    /// Parts that S3 has, and whose bytes are here as well, by their beginnings.
    arrived: Vec<Range<u64>>,
}

impl SendAhead {
    /// The offset from which bytes are sent next; `None` if none are.
    pub(super) fn next(&self) -> Option<u64> {
        let next = if self.is_void { 0 } else { self.until };
        (!self.is_over).then_some(next)
    }

    /// Takes the store that cannot be gone on with, if it was begun.
    pub(super) fn take_void(&mut self) -> Option<Arc<EarlyStore>> {
        let ended = self.is_void.then(|| self.end()).flatten();
        ended.map(|(store, _)| store)
    }

    /// Whether the caller is to send the next bytes, and those behind them.
    pub(super) fn run(&mut self) -> bool {
        !std::mem::replace(&mut self.is_running, true)
    }

    /// The caller sends no more.
    pub(super) fn rest(&mut self) {
        self.is_running = false;
    }

    /// Whether bytes are being sent: what S3 has then needs no memory.
    pub(super) fn is_moving(&self) -> bool {
        self.is_running || self.in_flight > 0
    }

    /// The store that sends bytes up to `limit`, if it was begun, and the length to which it is
    /// to be cut before.
    pub(super) fn sending(&mut self, limit: u64) -> (Option<Arc<EarlyStore>>, Option<u64>) {
        self.until = self.until.max(limit);
        (self.store.clone(), self.changes.cut.take())
    }

    /// The store was begun.
    pub(super) fn begun(&mut self, store: &Arc<EarlyStore>) {
        self.store = Some(Arc::clone(store));
    }

    /// All bytes that are being sent end at `until`. One more part `is_in_flight`.
    pub(super) fn sent(&mut self, until: u64, is_in_flight: bool) {
        self.until = until.min(self.changes.cut.unwrap_or(u64::MAX));
        self.changes.changed.remove(until..u64::MAX);
        self.in_flight += usize::from(is_in_flight);
    }

    /// S3 has a part, or has refused it.
    pub(super) fn answered(&mut self, part: Range<u64>, has_arrived: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if has_arrived && part.end <= self.until {
            self.arrived.push(part);
        }
    }

    /// Bytes before the last one that was written that are not sent.
    pub(super) fn distance(&self) -> u64 {
        self.distance
    }

    /// Takes the parts that S3 has as they are: all but the first one and the newest ones of those
    /// `written` bytes, unless memory `is_scarce`.
    pub(super) fn take_arrived(&mut self, written: u64, is_scarce: bool) -> Vec<Range<u64>> {
        if self.is_void {
            return Vec::new();
        }
        let changed = &self.changes.changed;
        let is_newest = |part: &Range<u64>| part.end + CORRECTED_MAX > written;
        let stays = |part: &Range<u64>| !is_scarce && (part.start == 0 || is_newest(part));
        let is_needed = |part: &Range<u64>| stays(part) || changed.overlaps(part);
        let (kept, taken) = std::mem::take(&mut self.arrived)
            .into_iter()
            .partition(is_needed);
        self.arrived = kept;
        taken
    }

    /// The parts that have bytes of `range`, with whether they cannot be sent again.
    pub(super) fn parts_in(&self, range: &Range<u64>) -> Vec<(Range<u64>, bool)> {
        match &self.store {
            Some(store) if range.start < self.until => store.parts_in(range),
            _ => Vec::new(),
        }
    }

    /// Whether the store that was begun takes copies.
    pub(super) fn takes_copies(&self) -> bool {
        self.store.as_ref().is_none_or(|store| store.has_copies())
    }

    /// The bytes of `range` change, some of which were written before if it `is_correction`.
    pub(super) fn changed(&mut self, range: &Range<u64>, is_correction: bool) {
        if is_correction {
            // Such a program is likely to do so again.
            self.distance = CORRECTED_MAX;
        }
        let sent = range.start..range.end.min(self.until);
        if !sent.is_empty() {
            let parts = self.parts_in(&sent);
            self.is_void |= parts.iter().any(|(_, is_fixed)| *is_fixed);
            self.changes.changed.insert(sent);
        }
    }

    /// The file is cut to `len` bytes.
    pub(super) fn cut(&mut self, len: u64) {
        if len < self.until {
            self.changes.cut = Some(self.changes.cut.unwrap_or(len).min(len));
            self.until = len;
            self.arrived.retain(|part| part.end <= len);
        }
    }

    /// No more bytes are sent ahead.
    pub(super) fn stop(&mut self) {
        self.is_over = true;
    }

    /// Ends what was begun. Returns the store, if there is one, and what of its bytes has changed.
    /// More bytes may be sent ahead later, by another store.
    pub(super) fn end(&mut self) -> Option<(Arc<EarlyStore>, SentChanges)> {
        let ended = std::mem::take(self);
        self.is_running = ended.is_running;
        self.in_flight = ended.in_flight;
        self.distance = ended.distance;
        ended.store.map(|store| (store, ended.changes))
    }
}

/// Bytes that programs write and then correct: headers of members of an archive, and their lengths.
pub(super) const CORRECTED_MAX: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// All parts end long before.
    const WRITTEN: u64 = 40 + CORRECTED_MAX;

    fn changes(changed: &[(u64, u64)], cut: Option<u64>) -> SentChanges {
        let changed = changed.iter().map(|(start, end)| *start..*end);
        SentChanges {
            changed: changed.collect(),
            cut,
        }
    }

    #[test]
    fn what_changes_behind_its_sending_is_noted() {
        let mut ahead = SendAhead::default();
        ahead.changed(&(0..10), true);
        assert_eq!(ahead.changes, changes(&[], None), "nothing was sent");
        drop(ahead.sending(100));
        ahead.changed(&(50..60), true);
        ahead.changed(&(90..200), true);
        assert_eq!(ahead.changes, changes(&[(50, 60), (90, 100)], None));
        ahead.sent(80, true);
        assert_eq!(ahead.changes, changes(&[(50, 60)], None));
        ahead.cut(70);
        ahead.cut(75);
        assert_eq!(ahead.changes, changes(&[(50, 60)], Some(70)));
        assert_eq!(ahead.next(), Some(70));
        ahead.sent(80, false);
        assert_eq!(ahead.next(), Some(70), "the cut came meanwhile");
    }

    #[test]
    fn parts_that_arrived_as_they_are_are_taken_once() {
        let mut ahead = SendAhead::default();
        drop(ahead.sending(40));
        ahead.sent(40, true);
        for start in [0, 10, 20, 30] {
            ahead.answered(start..start + 10, start != 30);
        }
        ahead.changed(&(10..11), true);
        assert_eq!(ahead.take_arrived(CORRECTED_MAX, false), [], "all are new");
        let taken = ahead.take_arrived(WRITTEN, false);
        assert!(taken.len() == 1 && taken[0] == (20..30), "{taken:?}");
        assert_eq!(ahead.take_arrived(WRITTEN, false), []);
        ahead.cut(5);
        assert_eq!(ahead.arrived, []);
    }

    #[test]
    fn a_program_that_corrects_bytes_is_followed_with_a_distance() {
        let mut ahead = SendAhead::default();
        ahead.changed(&(0..10), false);
        assert_eq!(ahead.distance(), 0);
        ahead.changed(&(5..10), true);
        assert!(ahead.end().is_none());
        assert_eq!(ahead.distance(), CORRECTED_MAX);
    }

    #[test]
    fn one_task_sends() {
        let mut ahead = SendAhead::default();
        assert!(ahead.run());
        assert!(!ahead.run());
        ahead.rest();
        assert!(ahead.run());
        assert!(ahead.end().is_none());
        assert!(ahead.is_moving());
        ahead.stop();
        assert_eq!(ahead.next(), None);
    }
}
