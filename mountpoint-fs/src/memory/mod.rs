//! The one ledger of memory, for blocks that are read and buffers that are written.
//!
//! `budget` counts and serves; pure are `admission`, what writers may hold, and `writer_queue`, the
//! order in which they get it.

mod admission;
mod budget;
mod writer_queue;

pub use admission::{BufferKind, BufferRequest, WaitState, part_max};
pub use budget::{Budget, Deficit, Purpose, Reservation, Reserve};
