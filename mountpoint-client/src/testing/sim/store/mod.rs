//! The simulated bucket's content: objects, listings, uploads, and the conditions that S3 checks.

pub(super) mod bucket;
pub(super) mod check;
pub(super) mod content;
mod listing;
mod multipart;
pub(super) mod object;
mod uploads;
