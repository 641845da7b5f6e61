//! Changes through this mount, and their effect on names before the bucket has completed them.
//!
//! `key_locks` locks the keys of changes in progress. `local_changes` tells which answers are older
//! than a change.

mod key_locks;
mod local_changes;

pub use key_locks::KeyLockGuard;
pub(super) use key_locks::{AtRest, KeyLocks, Moving};
pub(super) use local_changes::LocalChanges;
