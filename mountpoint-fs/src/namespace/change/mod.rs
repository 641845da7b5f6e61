//! Changes made through this mount, and what the names make of them before the bucket has them.
//!
//! `key_locks` holds the keys that are being changed, and `local_changes` remembers which answers
//! are older than a change.

mod key_locks;
mod local_changes;

pub use key_locks::KeyLockGuard;
pub(super) use key_locks::{AtRest, KeyLocks, Moving};
pub(super) use local_changes::LocalChanges;
