//! FUSE over io_uring: requests arrive in memory that kernel and process share, one queue for each
//! core.
//!
//! Linux 6.14 and later, where the module parameter `enable_uring` of `fuse` is on. [`Rings`] are
//! prepared before the handshake, so that the kernel hears of them only if they can be had, and
//! started after it; where they cannot be, everything goes through `/dev/fuse`. That keeps one
//! thread in any case: the kernel sends FORGET and INTERRUPT there.
//!
//! Knows neither operations nor files. Invariant: an entry has one request at a time, and its reply
//! is copied into it by its queue's thread alone, so that the memory of replies in transit is
//! bounded. Threads: `fuse-ring-N`, each bound to its core: unbound, a request costs three times as
//! much. They wait for the kernel and for replies, and nowhere else.

mod plan;
mod queue;
mod rings;

pub(in crate::fuse) use rings::{Rings, Started};
