//! One open version of an object: its blocks, the open files that read it, and the registry of such
//! versions.
//!
//! `OpenObject` sends GETs and waits; `ObjectState` knows which bytes are here, `Readers` who still
//! comes to them; `ObjectRegistry` finds versions that are open already. Which ranges to ask for is
//! for `plan` to say.

mod open_object;
mod readers;
mod registry;
mod state;
mod version_id;

pub(super) use open_object::{Keep, Open, OpenObject, wait};
pub(super) use registry::ObjectRegistry;
pub(super) use version_id::VersionId;
