//! Reading: bytes, requests, memory, and sharing.

mod caches;
mod interfaces;
pub(crate) mod memory;
mod one_file;
mod read_mode;
mod reading;
mod requests;
mod small_files;
mod tail;
mod tls;
