//! How the bytes of a file reach S3.
//!
//! `put` stores a small file with one request, `multipart` a larger one in parts, `append` makes an
//! object longer. `context` is what they share: `features` knows what the server lacks,
//! `permission` what may be stored, `parts_in_flight` how many parts are sent at once. `proof` and
//! `optimistic_create` ask S3 before a file is stored, `ambiguous_outcome` after an answer was
//! lost. Pure: `part_sizes`.

pub(super) mod ambiguous_outcome;
pub(super) mod append;
pub(super) mod context;
pub(super) mod copied_range;
pub(super) mod features;
pub(super) mod multipart;
pub(super) mod optimistic_create;
pub(super) mod part_sizes;
pub(super) mod parts_in_flight;
pub(super) mod permission;
pub(super) mod permission_probe;
pub(super) mod put;
