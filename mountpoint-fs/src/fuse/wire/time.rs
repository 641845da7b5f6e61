//! Times and validities as the kernel counts them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `ttl` as the kernel can count it: 136 years are for ever; more would overflow its signed
/// seconds.
pub(in crate::fuse) fn kept_for(ttl: Duration) -> Duration {
    ttl.min(Duration::from_secs(u32::MAX.into()))
}

/// How long the kernel may keep something.
pub(super) struct Ttl {
    pub(super) seconds: u64,
    pub(super) nanos: u32,
}

impl From<Duration> for Ttl {
    fn from(ttl: Duration) -> Self {
        let ttl = kept_for(ttl);
        Self {
            seconds: ttl.as_secs(),
            nanos: ttl.subsec_nanos(),
        }
    }
}

/// A point in time as the kernel wants it: seconds of two's complement, nanoseconds that count
/// forward.
pub(super) struct Timestamp {
    pub(super) seconds: u64,
    pub(super) nanos: u32,
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self {
                seconds: after.as_secs(),
                nanos: after.subsec_nanos(),
            },
            Err(before) => {
                let before = before.duration();
                let (seconds, nanos) = match before.subsec_nanos() {
                    0 => (before.as_secs(), 0),
                    nanos => (before.as_secs() + 1, 1_000_000_000 - nanos),
                };
                Self {
                    seconds: 0_u64.wrapping_sub(seconds),
                    nanos,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970() {
        let time = Timestamp::from(UNIX_EPOCH - Duration::new(1, 250_000_000));
        assert_eq!((time.seconds, time.nanos), (u64::MAX - 1, 750_000_000));
        let time = Timestamp::from(UNIX_EPOCH - Duration::from_secs(3));
        assert_eq!((time.seconds, time.nanos), (u64::MAX - 2, 0));
    }
}
