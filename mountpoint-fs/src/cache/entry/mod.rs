//! One version in the cache: what is there, reading it, storing more of it.
//!
//! `Entry` decides what the files mean, and `files` opens and checks them. `state` is the index in
//! memory; `reading` and `writing` move bytes. Every operation that touches the disk blocks: only
//! the cache's own threads call it.

#[expect(
    clippy::module_inception,
    reason = "the file is named after the type it defines"
)]
mod entry;
mod files;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod inspect;
mod reading;
mod state;
mod writing;

pub(super) use entry::{Entry, StoreOutcome};
pub(crate) use files::EntryCheck;
pub(super) use inspect::{Inspected, inspect};
pub(super) use state::Place;
