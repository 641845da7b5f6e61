//! When the shared bucket is asked and filled.
//!
//! Pure: values in, values out. Each mount has one [`TierPolicy`].

mod health;
mod store_rate;

pub(super) use health::TierHealth;
pub(super) use store_rate::StoreRate;

/// One mount's knowledge of the shared bucket.
#[derive(Debug, Default)]
pub(super) struct TierPolicy {
    /// Of GETs.
    pub(super) reads: TierHealth,
    /// Of PUTs: a bucket that stores nothing may still have what others stored before.
    pub(super) stores: TierHealth,
    pub(super) store_rate: StoreRate,
}
