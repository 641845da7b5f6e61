//! How far a store is: decides what reads fetch ahead and how many parts uploads send at once.

use std::time::Duration;

/// How far a store is, by the least time until its first answer.
///
/// The least of many answers tells how far the store is; an average would tell how busy this
/// machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoreDistance {
    /// On this machine, or beside it.
    Local,
    /// The network decides what requests take, and the first window of a stream may be large
    /// enough.
    Near,
    /// The first window of a stream is surely too small.
    Far,
}

impl StoreDistance {
    /// The distance of a store whose first answer takes `latency`.
    pub(crate) fn of(latency: Duration) -> Self {
        if latency < NEAR {
            Self::Local
        } else if latency < FAR {
            Self::Near
        } else {
            Self::Far
        }
    }

    /// Whether a request takes what the network takes, not this machine.
    pub(crate) fn is_remote(self) -> bool {
        self > Self::Local
    }
}

/// Least latency of a store that is neither on this machine nor beside it.
///
/// S3 Express answers a GET in 3 ms and S3 in 20 ms, on the same machine it takes less than 1 ms.
const NEAR: Duration = Duration::from_millis(2);

/// Least latency of a store for which the first window of a stream is surely too small.
const FAR: Duration = Duration::from_millis(10);
