//! Fuzz targets of staged writes.

pub(crate) use super::commit::fuzz::record;
pub(crate) use super::contents::fuzz::contents;
pub(crate) use super::control::fuzz::message;
pub(crate) use super::directory::fuzz::name;
pub(crate) use super::journal::fuzz::journal;
pub(crate) use super::kept::fuzz::description;
pub(crate) use super::store::fuzz::checkpoint;
