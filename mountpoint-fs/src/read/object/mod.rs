//! One open version of an object: its blocks, the open files that read it, and the registry of such
//! versions.
//!
//! `OpenObject` reads; `ObjectGets` prepares and sends what a read calls for. `ObjectState` knows
//! which bytes are here, `Readers` who still comes to them; `ObjectRegistry` finds versions that
//! are open already. Which ranges to ask for is for `plan` to say.

mod gets;
mod open_object;
mod readers;
mod registry;
mod state;

pub(super) use open_object::{Open, OpenObject};
#[cfg(test)]
pub(super) use readers::SHARERS_MAX;
pub(super) use registry::ObjectRegistry;

#[cfg(test)]
mod tests;
