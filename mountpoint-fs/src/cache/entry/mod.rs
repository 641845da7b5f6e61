//! One version in the cache: what is there, reading it, storing more of it.
//!
//! `Entry` decides what the files mean, `files` opens and checks them. Every operation that touches
//! the disk blocks: only the cache's own threads call it.

#[expect(
    clippy::module_inception,
    reason = "the file is named after the type it defines"
)]
mod entry;
mod files;
mod inspect;

pub(super) use entry::{Entry, Place, StoreOutcome};
pub(super) use inspect::{Inspected, Inspection, inspect};
