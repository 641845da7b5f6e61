//! Storing staged files.
//!
//! `feed` brings a snapshot to an [`ObjectUpload`], `store_file` makes the object, and `conflict`
//! does what the user wants if another client changed it. `recognise` tells such a client from this
//! file's own upload, of a process that was killed. `early` begins an object before its file is
//! whole. `stop` ends a store for a removal or a rename. `checkpoint_file` keeps what the next
//! attempt needs to send no part again, and `checkpoint_lines` has its bytes.
//!
//! [`ObjectUpload`]: crate::write::ObjectUpload

mod checkpoint_file;
mod checkpoint_lines;
mod conflict;
mod early;
mod feed;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod recognise;
mod request;
mod stop;
mod store_file;

#[cfg(test)]
pub(super) use checkpoint_file::checkpoint_file;
pub(super) use checkpoint_file::{checkpoint, find_checkpoint};
pub(super) use checkpoint_lines::FoundCheckpoint;
pub(super) use conflict::{Resolved, is_conflict, resolve};
pub(super) use early::{EarlyStore, NewPart, SentChanges};
pub(super) use request::{StoreIdentity, StoreRequest};
pub(super) use stop::StoreStop;
