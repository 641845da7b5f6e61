//! One ranged GET at a time: its bytes, the reads that wait for them, and the second GET when it is
//! late.
//!
//! `Fetch` is a range in flight and fills one block; `HedgePolicy` (pure) says which are late;
//! `HedgeScheduler` looks at the ones that readers wait for. Knows nothing of patterns, or of what
//! else an open file holds.

#[expect(
    clippy::module_inception,
    reason = "the file is named after the type it defines"
)]
mod fetch;
mod hedge_policy;
mod hedge_scheduler;

pub(super) use fetch::Fetch;
pub(super) use hedge_scheduler::HedgeScheduler;
