//! One written file: its bytes, their order, and the waits for memory.
//!
//! [`writer::Writer`] is the open file, and `state` the part under its lock: `extent` is the
//! length, `buffer` the unsent bytes, `sink` their way to the bucket. `intake` takes bytes,
//! `buffering` computes the memory for the next bytes, `reordering` holds WRITEs that come before
//! their turn, `gap` fills gaps with zeros, `server_copy` copies on the server, and `store` sends.
//! `metadata` is the object's metadata.

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
