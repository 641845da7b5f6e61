//! The estimate of what a cache occupies, which all its processes share in a small file.
//!
//! Pure. Each process adds what it stores and takes away what it removes; a count of the
//! entries corrects the estimate. A damaged or lost file means that nothing is known, until they
//! are counted.

use std::time::{Duration, SystemTime};

use crc_fast::{CrcAlgorithm, checksum};

use crate::local_disk::Fields;

/// The room of all entries, as far as it is known, and how fast the cache turns over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Bytes on the disk.
    pub(crate) bytes: u64,
    /// Number of entries.
    pub(crate) entries: u64,
    /// When all entries were last counted, in seconds since 1970; 0 for never.
    counted_at: u64,
    /// Bytes that were stored since then.
    pub(crate) stored_since: u64,
    /// Number of turns: in each, as many bytes were stored as the cache had.
    pub(crate) turn: u64,
    /// Bytes that were stored in this turn.
    stored_in_turn: u64,
    /// When this turn and those before began, in seconds since 1970, the latest first.
    turns: [u64; TURNS],
}

impl Usage {
    /// Adds what was stored.
    pub(crate) fn store(&mut self, bytes: u64, entries: u64, now: SystemTime) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries = self.entries.saturating_add(entries);
        self.stored_since = self.stored_since.saturating_add(bytes);
        self.stored_in_turn = self.stored_in_turn.saturating_add(bytes);
        if self.stored_in_turn > self.bytes {
            self.turn = self.turn.wrapping_add(1);
            self.stored_in_turn = 0;
            self.turns.rotate_right(1);
            self.turns[0] = seconds(now);
        }
    }

    /// Takes away what was removed.
    pub(crate) fn remove(&mut self, bytes: u64, entries: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.entries = self.entries.saturating_sub(entries);
    }

    /// Notes the result of a count that ended at `now`.
    pub(crate) fn count(&mut self, bytes: u64, entries: u64, now: SystemTime) {
        (self.bytes, self.entries) = (bytes, entries);
        // Not "never", even by a wrong clock.
        self.counted_at = seconds(now).max(1);
        self.stored_since = 0;
    }

    /// Whether all entries were ever counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted_at > 0
    }

    /// How long ago the entries were counted; `None` if they never were, or if the clock was wrong.
    pub(crate) fn age(&self, now: SystemTime) -> Option<Duration> {
        let age = seconds(now).checked_sub(self.counted_at)?;
        self.is_counted().then(|| Duration::from_secs(age))
    }

    /// Since then, the cache was turned over more than once.
    pub(crate) fn turned_since(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.turns[TURNS - 1].min(u64::from(u32::MAX)))
    }

    fn numbers(&self) -> [u64; NUMBERS] {
        let [first, second, third] = self.turns;
        [
            MAGIC,
            self.bytes,
            self.entries,
            self.counted_at,
            self.stored_since,
            self.turn,
            self.stored_in_turn,
            first,
            second,
            third,
        ]
    }

    /// The file's content.
    pub(super) fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        for (field, number) in bytes.chunks_exact_mut(8).zip(self.numbers()) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(CrcAlgorithm::Crc64Nvme, &bytes[..LEN - 8]);
        bytes[LEN - 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The usage that the file has; `None` if it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let mut numbers = [0; NUMBERS + 1];
        let mut fields = Fields(bytes);
        for number in &mut numbers {
            *number = fields.u64()?;
        }
        let sum = checksum(CrcAlgorithm::Crc64Nvme, &bytes[..LEN - 8]);
        let [
            magic,
            bytes,
            entries,
            counted_at,
            stored_since,
            turn,
            stored_in_turn,
            first,
            second,
            third,
            told,
        ] = numbers;
        (magic == MAGIC && told == sum).then_some(Self {
            bytes,
            entries,
            counted_at,
            stored_since,
            turn,
            stored_in_turn,
            turns: [first, second, third],
        })
    }
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// Turns whose beginning is remembered.
const TURNS: usize = 3;

/// Numbers in the file, its magic number first.
const NUMBERS: usize = 7 + TURNS;

/// Length of the file: the numbers and a checksum.
pub(super) const LEN: usize = (NUMBERS + 1) * 8;

/// `USAGE_1` and an end of line.
const MAGIC: u64 = u64::from_le_bytes(*b"USAGE_1\n");

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_found() {
        let mut usage = Usage::default();
        usage.count(1 << 40, 123, at(1000));
        for secs in 1001..1005 {
            usage.store(1 << 41, 1, at(secs));
        }
        let bytes = usage.encode();
        assert_eq!(Usage::decode(&bytes), Some(usage));
        for place in 0..LEN {
            let mut damaged = bytes;
            damaged[place] ^= 1;
            assert_eq!(Usage::decode(&damaged), None, "byte {place}");
        }
        for len in 0..LEN {
            assert_eq!(Usage::decode(&bytes[..len]), None, "{len} bytes");
        }
        assert_eq!(Usage::decode(&[0; LEN]), None);
    }

    #[test]
    fn ages() {
        let mut usage = Usage::default();
        assert_eq!(usage.age(at(999)), None);
        assert!(!usage.is_counted());
        usage.count(0, 0, at(1000));
        assert_eq!(usage.age(at(1060)), Some(Duration::from_secs(60)));
        assert_eq!(usage.age(at(999)), None, "the clock was wrong");
        usage.count(0, 0, at(0));
        assert!(usage.is_counted());
    }

    #[test]
    fn a_turn_stores_what_the_cache_has() {
        let mut usage = Usage::default();
        usage.count(100, 1, at(0));
        let mut turns = Vec::new();
        for secs in 1..=12 {
            usage.store(30, 1, at(secs));
            // A full cache: as much goes as comes.
            usage.remove(30, 1);
            turns.push((usage.turn, usage.turned_since()));
        }
        let expected = |turn, since| (turn, at(since));
        assert_eq!(turns[3], expected(0, 0));
        assert_eq!(turns[4], expected(1, 0));
        assert_eq!(turns[9], expected(2, 0));
        for secs in 13..=20 {
            usage.store(30, 1, at(secs));
            usage.remove(30, 1);
        }
        assert_eq!((usage.turn, usage.turned_since()), expected(4, 10));
        assert_eq!((usage.bytes, usage.entries), (100, 1));
    }
}
