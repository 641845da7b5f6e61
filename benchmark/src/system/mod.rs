//! The systems under test: how each is started and mounted.

pub(crate) mod catalog;
pub(crate) mod mount;
