//! The thread that fills the cache.

mod filler;

pub(super) use filler::Filler;
