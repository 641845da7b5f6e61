//! The requests that store a file.
//!
//! `whole_object` stores a small file by the one request of `put`, `multipart` a larger one in
//! parts, and `append` makes an object longer. `context` is their shared state: `features` of the
//! server, `permission` to store, and how many `parts` are in flight. `permission_probe` asks S3
//! before a file is stored. `checkpoint` has an upload that a later attempt continues.

pub(super) mod append;
pub(super) mod checkpoint;
pub(super) mod context;
pub(super) mod copied_range;
pub(super) mod features;
pub(super) mod multipart;
pub(super) mod parts;
pub(super) mod permission;
pub(super) mod permission_probe;
pub(super) mod put;
pub(super) mod whole_object;
