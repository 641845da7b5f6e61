//! Costs of a mount's requests: a price list, and the sum. Pure, but for a file that is read
//! at the start.

mod meter;
mod prices;

pub(in crate::mount) use meter::CostMeter;
pub(in crate::mount) use prices::{CacheBucket, PriceFile, StorePrices};
