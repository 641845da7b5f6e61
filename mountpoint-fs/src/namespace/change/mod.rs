//! Changes made through this mount, and what the names make of them before the bucket has them.
//!
//! `key_locks` holds the keys that are being changed, `local_changes` remembers which answers are
//! older than a change, `written` knows the files that are being written.

#[expect(
    clippy::module_inception,
    reason = "the file does what the folder is for"
)]
mod change;
mod key_locks;
mod local_changes;
mod written;

pub use change::NameChange;
pub use key_locks::KeyLockGuard;
pub(super) use key_locks::KeyLocks;
pub(super) use local_changes::LocalChanges;
pub use written::{Created, Readers, being_written};
