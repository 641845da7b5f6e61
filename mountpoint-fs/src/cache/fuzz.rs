//! Fuzz targets of the cache.

pub(crate) use super::entry::fuzz::entry;
pub(crate) use super::index::fuzz::{extents, file as index};
pub(crate) use super::listings::fuzz::listing;
pub(crate) use super::shared::fuzz::{places, read as shared};
pub(crate) use super::storage::fuzz::{name, usage};
