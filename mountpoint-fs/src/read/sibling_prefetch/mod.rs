//! Prefetch of small files while a directory's files are opened in order.
//!
//! `Runs` chooses the files, `PrefetchBudget` bounds the unread bytes, and [`SiblingPrefetch`]
//! fetches. Only for mounts that open files in the last known version: if each open requests the
//! newest version, an earlier GET proves nothing.

mod prefetch;
mod runs;

pub use prefetch::{SiblingPrefetch, SiblingPrefetchStats};
pub use runs::{SIBLINGS_AHEAD_MAX, Sibling};

#[cfg(test)]
mod tests;
