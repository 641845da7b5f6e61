//! Which ranges to ask S3 for when a read comes in.
//!
//! Pure: owns no buffer, makes no request, takes no lock, reads no clock. `Planner` decides; the history says where the
//! file was read, `patterns` recognise what is no sequence, `Window` says how far ahead a stream asks, `LeastDelays` how
//! far the store is.

mod block_map;
mod history;
mod latency;
mod patterns;
mod planner;
#[cfg(test)]
pub(super) mod tests;
mod window;
mod windowed_min;

pub(super) use block_map::{BlockMap, without};
pub(super) use latency::{CLASSES, LeastDelays, class};
pub(super) use planner::{Access, Bounds, Plan, Planner};
pub(super) use window::{PaidWindows, is_apart};
