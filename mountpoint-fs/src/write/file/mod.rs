//! One file that is written: what is held of it, in which order its bytes come, and what it waits
//! for.
//!
//! [`writer::Writer`] takes the calls, `state` is what it keeps under its lock, `buffering` says
//! how much memory the next bytes need, `reordering` holds WRITEs that come before their turn, and
//! `gap` fills what a file lacks with zeros. `metadata` is what its object carries besides bytes;
//! `failure` is the first error, which is final.

pub(super) mod buffering;
pub(super) mod checksum;
pub(super) mod content_type;
pub(super) mod failure;
mod gap;
mod metadata;
pub(super) mod reordering;
pub(super) mod state;
pub(super) mod writer;
