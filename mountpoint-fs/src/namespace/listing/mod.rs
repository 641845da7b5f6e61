//! Directories as S3 lists them: pages, merged in order, several key ranges at once.
//!
//! [`Listing`] enumerates one directory; `key_ranges` and `interpolation` (pure) say where to ask
//! next; `cache` keeps pages that still answer lookups; `walk` (pure) says what to list before it
//! is opened. Keys that no name can show are counted in `unrepresentable`. [`AllKeys`] lists a
//! whole bucket.

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
mod siblings;
mod unrepresentable;
mod walk;

pub use all_keys::AllKeys;
pub(super) use first_answer::FirstAnswer;
pub use listing::{AheadBudget, Listing};
pub use page::{Listed, Page};
pub(super) use siblings::Siblings;
pub(super) use unrepresentable::{HiddenKeys, News, without_etag};
pub use walk::WalkStats;
pub(super) use walk::{ListedAhead, WalkAnswer, WalkRequest, WalkRequestId, WalkScope, Walks};
