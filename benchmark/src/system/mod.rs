//! The systems under test: how each is started and mounted.

pub(crate) mod address;
pub(crate) mod catalog;
mod environment;
pub(crate) mod mount;
pub(crate) mod peers;
