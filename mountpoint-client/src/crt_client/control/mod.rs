//! Requests other than a GET into a block: listings, heads, uploads, copies, deletions.
//!
//! What a mount asks all the time, and what has a body in our memory, goes over the CRT
//! ([`exchange`]); the rest goes over the AWS SDK, which knows S3's documents.

pub(super) mod append;
pub(super) mod encryption_proof;
pub(super) mod exchange;
mod list_xml;
pub(super) mod listing;
pub(super) mod multipart;
pub(super) mod object_head;
pub(super) mod objects;
pub(super) mod rename;
pub(super) mod upload;
