//! Patterns of reads that are no sequence. Each is pure and proposes what to ask for; the planner
//! decides.

mod run_length;
mod sparse_scan;
mod stride;

pub(super) use run_length::RunLengthPredictor;
pub(super) use sparse_scan::SparseScan;
pub(super) use stride::Stride;
