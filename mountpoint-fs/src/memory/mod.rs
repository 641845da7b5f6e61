//! The one ledger of memory, for blocks of reads and buffers of writes.
//!
//! `budget` counts and serves. Pure: `admission`, the limits of writers, and `writer_queue`, their
//! order.

mod admission;
mod budget;
mod writer_queue;

pub use admission::{BufferKind, BufferRequest, WaitState, part_max};
pub use budget::{Budget, Deficit, Purpose, Reservation, Reserve};
