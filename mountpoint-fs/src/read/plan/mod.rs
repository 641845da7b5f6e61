//! Which ranges to ask S3 for when a read comes in.
//!
//! Pure: owns no buffer, makes no request, takes no lock, reads no clock. `AccessHistory` says
//! where the file was read, `patterns` recognise what is no sequence and propose, `arbiter` picks a
//! proposal, `Window` says how far ahead a stream asks, `MinLatencies` how far the store is, and
//! `Planner` turns all of it into ranges.

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
pub(super) use latency::{CLASSES, MinLatencies, class};
pub(super) use planner::{Planner, ReadPlan};
pub(super) use proven_window::ProvenWindow;
