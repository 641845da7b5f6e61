//! Memory for bytes that are not in S3 yet.
//!
//! `buffers` asks the mount's budget for memory, `pressure` sends parts early when memory is short,
//! and `pending` holds the bytes of waiting WRITEs, as many as `recent_writers` foresees.

pub(super) mod buffers;
pub(super) mod pending;
pub(super) mod pressure;
mod recent_writers;
