//! Time, passed in, so that tests move it instead of sleeping.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use nix::time::{ClockId, clock_gettime};
use time::OffsetDateTime;

/// A monotonic clock.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's: where it began, and what it said then.
    Monotonic(Instant, Duration),
    /// Stands still until a test moves it.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the machine's clock"
    )]
    #[must_use]
    pub fn monotonic() -> Self {
        Self::Monotonic(Instant::now(), Duration::ZERO)
    }

    /// The machine's clock since its boot: times before this process can be told, too.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the machine's clock"
    )]
    #[must_use]
    pub fn since_boot() -> Self {
        Self::Monotonic(Instant::now(), uptime())
    }

    /// A clock at zero that only [`Clock::advance`] moves.
    #[must_use]
    pub fn manual() -> Self {
        Self::Manual(Arc::new(AtomicU64::new(0)))
    }

    /// Time since the clock was made, or since the machine's boot.
    #[must_use]
    pub fn now(&self) -> Duration {
        match self {
            Self::Monotonic(start, at) => *at + start.elapsed(),
            Self::Manual(nanos) => Duration::from_nanos(nanos.load(Ordering::Acquire)),
        }
    }

    /// The time of day, for people to see. It decides only what is too old to go on with.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the machine's clock"
    )]
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        match self {
            Self::Monotonic(..) => SystemTime::now(),
            Self::Manual(_) => SystemTime::UNIX_EPOCH + self.now(),
        }
    }

    /// Time since the machine's boot. All processes share it, it counts while the machine sleeps,
    /// and nobody can set it.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        match self {
            Self::Monotonic(..) => uptime(),
            Self::Manual(_) => self.now(),
        }
    }

    /// Moves a manual clock forward. Panics on the machine's clock.
    pub fn advance(&self, by: Duration) {
        match self {
            Self::Monotonic(..) => panic!("only a manual clock can be moved"),
            Self::Manual(nanos) => {
                let by = u64::try_from(by.as_nanos())
                    .expect("a test moves the clock by less than 500 years");
                nanos.fetch_add(by, Ordering::AcqRel);
            }
        }
    }
}

/// The machine's uptime; zero where the kernel does not tell.
fn uptime() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

/// The date of `time`, which a file may have from anybody: within the years that texts have.
pub(crate) fn date(time: SystemTime) -> OffsetDateTime {
    let first = SystemTime::UNIX_EPOCH - BEFORE_1970_MAX;
    let last = SystemTime::UNIX_EPOCH + AFTER_1970_MAX;
    OffsetDateTime::from(time.clamp(first, last))
}

/// From the beginning of the year 0.
const BEFORE_1970_MAX: Duration = Duration::from_secs(62_167_219_200);

/// To the end of the year 9999.
const AFTER_1970_MAX: Duration = Duration::from_secs(253_402_300_799);

/// Waits for what another thread or the kernel does, and fails a test without it.
#[cfg(test)]
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Clock::monotonic();
    while !holds() {
        assert!(clock.now() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
