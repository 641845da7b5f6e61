//! Changes through this mount, and their effect on names before the bucket has completed them.
//!
//! `key_locks` locks the keys of changes in progress. `link_numbers` tells which inode numbers new
//! hard links show.

mod key_locks;
mod link_numbers;

pub use key_locks::KeyLockGuard;
pub(super) use key_locks::{AtRest, KeyLocks, Moving};
pub(super) use link_numbers::LinkNumbers;
