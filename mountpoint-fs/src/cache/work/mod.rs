//! The threads of the cache: every operation that touches the disk runs on one of them.

mod filler;
mod readers;

pub(super) use filler::Filler;
pub(super) use readers::DiskReaders;
