//! Small files fetched before they are opened, where a directory's files are opened in order.
//!
//! `Runs` decides which, `PrefetchBudget` how many bytes may be at stake; [`SiblingPrefetch`] does.
//! Only for mounts that open files at the version they were last known to have: where each open
//! asks for the newest version, a GET that was sent before it proves nothing.

mod prefetch;
mod runs;

pub use prefetch::{SiblingPrefetch, SiblingPrefetchStats};
pub use runs::Sibling;

#[cfg(test)]
mod tests;
