//! The bytes of an object: one GET, over several attempts if need be, into existing memory.
//!
//! [`GetOperation`] fills a block, [`first_bytes`] is a small answer in memory of its own. A byte
//! is shown only once the head of its answer, and the checksum where S3 sends one, prove that it
//! belongs to the version.

pub(super) mod answer_head;
pub(super) mod first_bytes;
mod operation;
pub(super) mod read_checksum;
mod state;

pub(super) use operation::GetOperation;
