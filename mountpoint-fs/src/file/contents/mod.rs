//! The contents of a staged file: which bytes are where. Pure.

#[expect(
    clippy::module_inception,
    reason = "the file of the type that the folder is about"
)]
mod contents;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod last_commit;
mod piece;
mod snapshot;
#[cfg(any(test, fuzzing))]
mod test_model;
#[cfg(test)]
mod tests;

pub(super) use contents::Contents;
pub(super) use last_commit::LastCommit;
pub(super) use piece::{DataFileNo, Piece, Source};
pub(super) use snapshot::{LocalRange, Snapshot};
