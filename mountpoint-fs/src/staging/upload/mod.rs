//! Storing staged files: their contents go through a [`Writer`] of the streaming path, as any
//! written file's do.
//!
//! `feed` brings a snapshot to a writer, `store` makes the object, and `conflict` does what the
//! user wants if another client changed it.
//!
//! [`Writer`]: crate::write::Writer

mod conflict;
mod feed;
mod store;

pub(super) use conflict::{Resolved, is_conflict, resolve};
pub(super) use store::StoreRequest;
