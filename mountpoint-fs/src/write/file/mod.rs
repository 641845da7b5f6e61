//! One file that is written: its bytes, the order in which they come, and the waits for memory.
//!
//! [`writer::Writer`] is the open file and `state` what it keeps under its lock: `extent` its
//! length, `buffer` the bytes that are not sent, `sink` how they are sent. `intake` takes bytes,
//! `buffering` says how much memory the next bytes need, `reordering` holds WRITEs that come before
//! their turn, `gap` fills gaps with zeros, `server_copy` has the server copy, and `store` sends.
//! `metadata` is what the object carries besides bytes.

mod buffer;
pub(super) mod buffering;
mod extent;
mod gap;
mod intake;
mod metadata;
pub(super) mod reordering;
mod server_copy;
mod sink;
pub(super) mod state;
mod store;
pub(super) mod writer;
