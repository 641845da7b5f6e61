//! The shared bucket's contents: names of objects, and their bytes.
//!
//! Pure: neither a request nor a clock. doc/internals/shared-cache.md has the layout.

mod assembly;
mod extents;
mod frame;
mod names;

pub(super) use assembly::{Assembly, HeldBytes};
pub(super) use extents::{CHUNK_LEN, ExtentPlace, FRAME_BYTES, STORED_LEN_MAX, divide};
pub(super) use frame::{Seed, open};
pub(super) use names::{ExtentName, absent_key, folder, start_key};
