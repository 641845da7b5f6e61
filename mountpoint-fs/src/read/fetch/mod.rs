//! Ranged GETs: their bytes, the reads that wait for them, and the second GET when one is late.
//!
//! `Fetcher` sends and waits; `Fetch` is a range in flight and fills one block; `observers` hear of
//! its bytes, and `Waiters` are its reads. `HedgePolicy` (pure) says which GETs are late, and
//! `Hedger` asks those again. Knows nothing of patterns, or of other ranges of an open file.

mod arrival;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the type it defines"
)]
mod fetch;
mod fetcher;
mod hedge_policy;
mod hedge_queue;
mod hedger;
mod metrics;
mod observers;
mod progress;
mod waiters;

pub(super) use fetch::Fetch;
pub(super) use fetcher::{Fetcher, Sources};
pub use hedge_policy::HEDGE_BURST;
#[cfg(test)]
pub(super) use hedge_policy::HEDGE_SHARE;
