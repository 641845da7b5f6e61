//! Buckets and objects in memory, their bytes, checksums and conditions.

pub(super) mod buckets;
pub(super) mod checksum;
pub(super) mod conditions;
pub(super) mod content;
pub(super) mod gather;
pub(super) mod object;
pub(super) mod synthetic;
pub(super) mod upload;
