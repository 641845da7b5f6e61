//! Whether replies to reads of a file go through the kernel's page cache or straight to the
//! application.
//!
//! Chosen once per open, when the kernel must be told. [`ReadModes`] remembers for the mount how
//! files were read and how programs read; [`choose`](policy::choose) is the rule; [`ReadWatch`]
//! observes the reads of one open.
//!
//! Knows no bytes and no requests. Any thread; the one lock is held for a look-up.

mod history;
mod modes;
mod policy;
mod program;
mod watch;

pub use modes::ReadModes;
pub use watch::ReadWatch;
