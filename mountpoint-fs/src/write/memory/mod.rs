//! Memory for bytes that are not in S3 yet.
//!
//! `admission` decides (pure) who may take how much and when, `buffers` queues those that wait and
//! takes back what they let go, `pressure` sends and closes files early when memory is short, and
//! `pending` holds the bytes of WRITEs that wait, as many as `recent_writers` foresees.

pub(super) mod admission;
pub(super) mod buffers;
pub(super) mod pending;
pub(super) mod pressure;
mod recent_writers;
