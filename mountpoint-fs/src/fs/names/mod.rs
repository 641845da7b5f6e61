//! Operations that make, remove and change names.

mod change;
mod links;
mod rename;

pub(super) use change::{make_directory, remove_directory, unlink};
pub(super) use links::{link, make_special, read_link, symbolic_link};
pub(super) use rename::rename;
