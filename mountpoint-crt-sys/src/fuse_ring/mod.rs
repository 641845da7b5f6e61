//! FUSE over io_uring: a ring, the memory of its entries, and the owner of that memory at each
//! time.
//!
//! An entry is a place for one request and its reply. [`Ring::register`] gives entries to the
//! kernel; when a request arrives in one, [`Ring::next`] hands it out as a [`Slot`];
//! [`Ring::commit`] gives it back with the reply in it.
//!
//! Knows neither requests nor replies beyond their length. Invariant: an entry's memory belongs to
//! its one [`Slot`]; while there is none, it belongs to the kernel, which writes to it only while
//! the ring's thread is in [`Ring::submit`] or [`Ring::wait`]. Threads: a [`Ring`] stays on the
//! thread that registered it; slots and [`RingWaker`]s go anywhere.

mod memory;
mod ring;
mod slot;
#[cfg(test)]
mod tests;
mod waker;

pub use ring::{Event, Ring, RingOptions};
pub use slot::Slot;
pub use waker::RingWaker;
