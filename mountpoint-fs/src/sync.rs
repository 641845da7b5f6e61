//! The locks of this crate, in one place so that a scheduler for tests could replace them.

pub use parking_lot::{Mutex, RwLock};
