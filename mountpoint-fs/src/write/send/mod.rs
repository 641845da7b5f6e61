//! How the bytes of a file reach S3.
//!
//! `put` stores a small file with one request, `multipart` a larger one in parts, `append` makes an
//! object longer. `features` knows what the server
//! lacks, `permission` and `optimistic_create` what needs no question before, `ambiguous_outcome`
//! what S3 did when its answer was lost. Pure: `concurrency`, how many parts at once, and
//! `part_sizes`.

pub(super) mod ambiguous_outcome;
pub(super) mod append;
pub(super) mod concurrency;
pub(super) mod context;
pub(super) mod copied_range;
pub(super) mod features;
pub(super) mod multipart;
pub(super) mod optimistic_create;
pub(super) mod part_sizes;
pub(super) mod parts_in_flight;
pub(super) mod permission;
pub(super) mod proof;
pub(super) mod put;
