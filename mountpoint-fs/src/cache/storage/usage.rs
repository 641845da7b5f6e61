//! The estimate of what a cache occupies, which all its processes share in a small file.
//!
//! Pure. Each process adds what it stores and takes away what it removes; whoever counts the entries
//! corrects the estimate. A damaged or lost file means that nothing is known, until they are counted.

use std::time::{Duration, SystemTime};

use crc_fast::{CrcAlgorithm, checksum};

/// What all entries occupy, as far as is known.
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
}

impl Usage {
    /// What the entries occupy by a count that ended at `now`.
    pub(crate) fn counted(bytes: u64, entries: u64, now: SystemTime) -> Self {
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        Self {
            bytes,
            entries,
            // Not "never", even by a wrong clock.
            counted_at: since.unwrap_or_default().as_secs().max(1),
            stored_since: 0,
        }
    }

    /// Whether all entries were ever counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted_at > 0
    }

    /// How long ago the entries were counted; `None` if they never were, or if the clock was wrong.
    pub(crate) fn age(&self, now: SystemTime) -> Option<Duration> {
        let counted = Duration::from_secs(self.counted_at);
        let counted = SystemTime::UNIX_EPOCH.checked_add(counted)?;
        now.duration_since(counted)
            .ok()
            .filter(|_| self.is_counted())
    }

    /// The file's content.
    pub(super) fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let numbers = [
            MAGIC,
            self.bytes,
            self.entries,
            self.counted_at,
            self.stored_since,
        ];
        let mut fields = bytes.chunks_exact_mut(8);
        for (field, number) in fields.by_ref().zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(CrcAlgorithm::Crc64Nvme, &bytes[..LEN - 8]);
        bytes[LEN - 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What the file tells; `None` if it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let mut numbers = bytes.chunks_exact(8).map(|field| {
            let field = field.try_into().expect("a chunk has 8 bytes");
            u64::from_le_bytes(field)
        });
        let magic = numbers.next()?;
        let usage = Self {
            bytes: numbers.next()?,
            entries: numbers.next()?,
            counted_at: numbers.next()?,
            stored_since: numbers.next()?,
        };
        let sum = checksum(CrcAlgorithm::Crc64Nvme, &bytes[..LEN - 8]);
        (magic == MAGIC && numbers.next()? == sum).then_some(usage)
    }
}

/// Length of the file.
pub(super) const LEN: usize = 6 * 8;

/// `USAGE_1` and an end of line.
const MAGIC: u64 = u64::from_le_bytes(*b"USAGE_1\n");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_damage_is_found() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let mut usage = Usage::counted(1 << 40, 123, now);
        usage.stored_since = 77;
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
        let at = |secs| SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
        let usage = Usage::counted(0, 0, at(1000));
        assert_eq!(usage.age(at(1060)), Some(Duration::from_secs(60)));
        assert_eq!(usage.age(at(999)), None, "the clock was wrong");
        assert_eq!(Usage::default().age(at(999)), None);
        assert!(!Usage::default().is_counted());
        assert!(Usage::counted(0, 0, at(0)).is_counted());
    }
}
