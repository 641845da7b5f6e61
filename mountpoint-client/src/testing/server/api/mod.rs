//! The operations of S3's API, on the buckets of the store.

pub(super) mod append;
pub(super) mod buckets;
pub(super) mod copy;
pub(super) mod express;
pub(super) mod listing;
pub(super) mod multipart;
pub(super) mod objects;
pub(super) mod reads;
pub(super) mod receive;
pub(super) mod s3;
pub(super) mod uploads;
