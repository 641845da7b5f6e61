//! When the shared bucket is asked, when its answer is waited for, and which node fills it.
//!
//! Pure: values in, values out. Each node has one [`TierPolicy`]; an [`ExtentSearch`] is one look
//! for one extent. What nodes know of each other is what the bucket tells them: an object that is
//! there already, or one that somebody was faster to write.

mod fleet;
mod health;
mod jitter;
mod miss_predictor;
mod search;
mod store_rate;

pub(super) use fleet::{FleetPolicy, SEEN_FOR};
pub(super) use health::TierHealth;
pub(super) use jitter::Jitter;
pub(super) use miss_predictor::MissPredictor;
pub(super) use search::{ExtentSearch, SearchStep};
pub(super) use store_rate::StoreRate;

/// One node's knowledge of the shared bucket.
#[derive(Debug)]
pub(super) struct TierPolicy {
    /// Of GETs.
    pub(super) reads: TierHealth,
    /// Of PUTs: a bucket that stores nothing may still have what others stored before.
    pub(super) stores: TierHealth,
    pub(super) store_rate: StoreRate,
    pub(super) misses: MissPredictor,
    pub(super) fleet: FleetPolicy,
}

impl TierPolicy {
    /// Knows nothing yet; `seed` differs from node to node.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            reads: TierHealth::default(),
            stores: TierHealth::default(),
            store_rate: StoreRate::default(),
            misses: MissPredictor::default(),
            fleet: FleetPolicy::new(Jitter::new(seed)),
        }
    }
}

#[cfg(test)]
mod tests;
