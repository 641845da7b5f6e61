//! Settings, resolved once at start-up, and the named bounds of everything that could grow.

pub mod limits;
mod settings;

pub use settings::{FsConfig, NamesConfig, ReadConfig, ReadMode};
