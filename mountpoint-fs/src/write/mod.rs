//! Files that are being written: one after another byte, into an object that appears whole or not
//! at all.
//!
//! A [`Writer`] is one open file. Bytes are copied once, into a buffer of the memory budget; a file
//! that never filled a part is one PutObject when it is closed, a larger one is a multipart upload
//! whose parts are sent while the application goes on. Knows no names, no inodes and no handles.
//!
//! Invariants: the first failure of a file is final, and then nothing of it appears in the bucket;
//! an upload that was begun is completed or aborted, or named in the journal. Runs on whatever
//! thread polls it or brings an answer.

mod abilities;
mod ahead;
pub(crate) mod background;
mod base;
mod checksum;
mod content_type;
mod context;
mod copied;
mod copying;
mod failure;
mod front;
mod gap;
mod growth;
mod lost_answer;
mod memory;
mod pace;
mod part_plan;
mod parts_in_flight;
mod permission;
mod room;
mod shares;
mod shortage;
mod unasked;
mod upload;
mod waiting;
mod whole;
mod writer;

#[cfg(test)]
mod ahead_tests;
#[cfg(test)]
mod copying_tests;
#[cfg(test)]
mod fault_matrix;
#[cfg(test)]
mod gap_tests;
#[cfg(test)]
mod growth_tests;
#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod permission_tests;
#[cfg(test)]
mod shortage_tests;
#[cfg(test)]
mod tests;

pub use context::WriteContext;
pub use copied::Copied;
pub use memory::MemorySource;
pub use waiting::HeldWrite;
pub use whole::Adopts;
pub use writer::{Beginning, Stored, WriteObserver, Writer};
