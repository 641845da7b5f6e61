//! Reading: bytes, requests, memory, and who shares what.

mod cache;
mod cache_room;
mod interfaces;
pub(crate) mod memory;
mod one_file;
mod read_mode;
mod reading;
mod requests;
mod shared_cache;
mod small_files;
mod tail;
mod tls;
