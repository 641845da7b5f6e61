//! The index of an entry: which ranges are there, with their checksums.
//!
//! `header` and `record` are the format on disk, `extents` is the same in memory, with
//! `whole_chunks`. Pure: bytes and values in, values out. A format that is not understood is a
//! miss.

mod extents;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod header;
mod record;
mod whole_chunks;

pub(super) use extents::{EXTENT_MEMORY_MAX, Extent, Extents, Placement, by_chunk};
pub(super) use header::{HEADER_LEN_MAX, Header};
pub(super) use record::{RECORD_LEN, Record, records_max};
