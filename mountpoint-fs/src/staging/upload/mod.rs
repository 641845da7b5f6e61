//! Storing staged files: their contents go through a [`Writer`] of the streaming path, as any
//! written file's do.
//!
//! `feed` brings a snapshot to a writer, `store` makes the object, and `conflict` does what the
//! user wants if another client changed it. `recognise` tells such a client from this file's own
//! upload, of a process that was killed.
//!
//! [`Writer`]: crate::write::Writer

mod conflict;
mod feed;
mod recognise;
mod store;

pub(super) use conflict::{Resolved, is_conflict, resolve};
pub(super) use store::{RecoveredFrom, StoreRequest};
