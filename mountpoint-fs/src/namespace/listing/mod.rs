//! Listings of directories: pages of names, in the order of keys, several key ranges at a time.
//!
//! [`Listing`] lists one directory: `source` has its requests, `ahead` bounds its pages.
//! `key_ranges` and `interpolation` (both pure) choose where the next request begins. `cache` keeps
//! pages that can answer later lookups. `walk` (pure) chooses directories to list before a program
//! opens them. `saved` has listings that the disk keeps. `unrepresentable` counts keys that no file
//! name can represent. [`AllKeys`] lists all keys of a bucket.

mod ahead;
mod all_keys;
pub(super) mod cache;
mod first_answer;
mod interpolation;
mod key_ranges;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the type it defines"
)]
mod listing;
pub(super) mod page;
mod saved;
pub(super) mod siblings;
mod source;
mod unrepresentable;
mod walk;

pub use ahead::AheadBudget;
pub use all_keys::AllKeys;
pub(super) use first_answer::FirstAnswer;
#[cfg(test)]
pub(crate) use key_ranges::{LIST_AHEAD_PAGES_MAX, LIST_REQUESTS_MAX};
pub use listing::Listing;
pub use page::{Listed, Page};
pub(super) use saved::SavedListings;
pub(super) use unrepresentable::{HiddenKeys, News, without_etag};
#[cfg(test)]
pub(crate) use walk::WALK_AGE_MAX;
pub use walk::WalkStats;
pub(super) use walk::{
    ListedAhead, SubtreeAnswer, WalkAnswer, WalkRequest, WalkRequestId, WalkScope, Walks,
};
