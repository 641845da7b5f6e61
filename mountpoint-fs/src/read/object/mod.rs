//! One open version of an object: its blocks, the open files that read it, and the registry of such
//! versions.
//!
//! `OpenObject` reads; `read_start` begins a read, and `ObjectGets` prepares and sends its GETs.
//! `ObjectState` knows which bytes are here, `Readers` the open files that still come to them;
//! `ObjectRegistry` finds versions that are open already. Which ranges to ask for is for `plan` to
//! say.

mod gets;
mod open_object;
mod read_start;
mod readers;
mod registry;
mod state;

pub(super) use open_object::{Open, OpenObject};
#[cfg(test)]
pub(super) use readers::SHARERS_MAX;
pub(super) use registry::ObjectRegistry;

#[cfg(test)]
mod tests;
