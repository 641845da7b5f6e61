//! Requests other than a GET into a block: listings, heads, uploads, copies, deletions.
//!
//! Frequent requests, and those with a body in our memory, go over the CRT ([`exchange`]); the rest
//! goes over the AWS SDK, which knows S3's documents.

pub(super) mod answer;
pub(super) mod append;
pub(super) mod exchange;
pub(super) mod listing;
pub(super) mod multipart;
pub(super) mod object_head;
pub(super) mod object_headers;
pub(super) mod objects;
mod prove_encryption;
pub(super) mod rename;
pub(super) mod session;
pub(super) mod upload;
