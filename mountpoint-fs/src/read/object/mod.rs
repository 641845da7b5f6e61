//! One open version of an object: its blocks, the open files that read it, and the registry of such versions.
//!
//! `OpenObject` sends GETs and waits; `Held` and `Seats` know which bytes are here and who still comes to them;
//! `OpenVersions` finds what is open already. Which ranges to ask for is for `plan` to say.

mod open_object;
mod readers;
mod registry;
mod state;

pub(super) use open_object::{Keep, Open, OpenObject, wait};
pub(super) use readers::Fit;
pub(super) use registry::{OpenVersions, VersionId};
