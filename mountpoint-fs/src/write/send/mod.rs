//! The requests that store a file.
//!
//! `put` stores a small file with one request, `multipart` a larger one in parts, `append` makes an
//! object longer. `context` is their shared state: `features` of the server, `permission` to store,
//! `parts_in_flight` at once. `permission_probe` and `optimistic_create` ask S3 before a file is
//! stored. `checkpoint` has an upload that a later attempt continues. Pure: `part_sizes`.

pub(super) mod append;
pub(super) mod checkpoint;
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
