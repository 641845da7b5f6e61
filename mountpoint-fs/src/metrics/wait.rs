//! The causes for which operations wait, and the clock of measurements. A leaf.

use std::sync::OnceLock;
use std::time::Duration;

use strum::{EnumCount, IntoStaticStr, VariantArray};

use crate::clock::Clock;

/// The cause of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum WaitCause {
    /// The kernel has not handed the request over yet.
    KernelQueue,
    /// Requests about names: look-ups, listings, attributes.
    Names,
    /// Memory for data.
    Memory,
    /// A place among the requests in flight.
    Connection,
    /// The first byte of an answer with data.
    FirstByte,
    /// The rest of that answer.
    Body,
    /// S3 said to slow down.
    Throttling,
    /// The time until a failed request is sent again.
    Retry,
    /// A local disk: that of the cache, or of staged files.
    Disk,
    /// The bucket that mounts share.
    SharedCache,
    /// Requests that change the bucket, and the writes before.
    Change,
    /// The kernel takes the reply.
    Reply,
    /// None of these.
    #[default]
    Other,
}

impl WaitCause {
    /// Every cause, in the order of a request's life.
    pub const ALL: [Self; Self::COUNT] = match Self::VARIANTS.first_chunk() {
        Some(all) => *all,
        None => panic!("there are that many"),
    };

    /// Whether such waits are for requests to S3 whose pauses are not told apart.
    #[must_use]
    pub fn is_of_requests(self) -> bool {
        matches!(self, Self::Names | Self::Change)
    }

    /// The cause as a label.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Times by cause, as of [`WaitCause::ALL`], in nanoseconds.
pub type WaitTimes = [u64; WaitCause::ALL.len()];

/// A wait in progress, as a number: its cause, and since when it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitToken(u64);

impl WaitToken {
    /// A wait for `cause` since `since`, a time of [`now`].
    pub(super) fn new(cause: WaitCause, since: Duration) -> Self {
        Self(nanos(since) << CAUSE_BITS | (cause as u64 + 1))
    }

    /// The wait of a number that [`Self::number`] has returned; `None` for 0.
    pub(super) fn of(number: u64) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// The number, which is not 0.
    pub(super) fn number(self) -> u64 {
        self.0
    }

    pub(super) fn cause(self) -> WaitCause {
        let place = (self.0 & ((1 << CAUSE_BITS) - 1)).saturating_sub(1);
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        WaitCause::ALL.get(place).copied().unwrap_or_default()
    }

    pub(super) fn since(self) -> Duration {
        Duration::from_nanos(self.0 >> CAUSE_BITS)
    }
}

/// Bits of a cause: the others hold nanoseconds for 36 years.
const CAUSE_BITS: u32 = 4;
const _: () = assert!(WaitCause::ALL.len() < 1 << CAUSE_BITS);

/// The operations that wait now, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitsInProgress {
    /// How many, as of [`WaitCause::ALL`].
    pub count: [u64; WaitCause::ALL.len()],
    /// The time since the oldest of them arrived.
    pub oldest: [Duration; WaitCause::ALL.len()],
}

impl WaitsInProgress {
    /// Adds an operation that arrived `age` ago.
    pub fn add(&mut self, cause: WaitCause, age: Duration) {
        self.count[cause as usize] += 1;
        let oldest = &mut self.oldest[cause as usize];
        *oldest = age.max(*oldest);
    }
}

/// Has all times measured by the clock of a mount, so that one reading serves the mount and its
/// measurements. Only the first call has an effect, and only before the first of [`now`].
pub fn measure_by(clock: &Clock) {
    CLOCK.get_or_init(|| clock.clone());
}

/// The time of measurements. No decision depends on it.
#[must_use]
pub fn now() -> Duration {
    CLOCK.get_or_init(Clock::monotonic).now()
}

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// A time in microseconds, as metrics have it.
#[must_use]
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A time in nanoseconds.
#[must_use]
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
