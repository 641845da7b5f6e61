//! Prefetch by the layout of the file before: files of one kind are read at the same places.
//!
//! `Replays` (pure) compares an open file with the one before it and says what to ask for; `Traces` keeps what was
//! learned of closed files, by kind.

mod cache;
mod prefetch;

pub(super) use cache::Traces;
pub(super) use prefetch::{Before, Kind, Replays};
