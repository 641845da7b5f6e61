//! Chooses the ranges to request from S3 for each read.
//!
//! Pure: owns no buffer, makes no request, takes no lock, reads no clock. `AccessHistory` records
//! where the file was read. `patterns` detect reads that are no plain sequence, and each proposes
//! ranges; `arbiter` picks one proposal. `Window` sets how far ahead of its reader a stream may be,
//! and `MinLatencies` measures the distance to the store. `Planner` combines them into ranges.

mod access;
mod block_map;
mod history;
mod latency;
mod patterns;
mod planner;
mod proposal;
mod proven_window;
mod ranges;
#[cfg(test)]
pub(super) mod tests;
mod window;
mod windowed_min;

pub(super) use access::{Access, AccessKind, Bounds};
pub(super) use block_map::{BlockMap, without};
pub(super) use history::READ_RANGE_MIN;
pub(super) use latency::{CLASSES, MinLatencies, class};
pub use patterns::STRIDE_RUNS_MAX;
pub(super) use planner::{Planner, ReadPlan};
pub(super) use proven_window::ProvenWindow;
