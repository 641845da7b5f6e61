//! Whether replies to reads of a file go through the kernel's page cache or straight to the
//! application.
//!
//! Chosen once per open, since that is when the kernel must be told. [`ReadModes`] is the mount's
//! memory of how files were read and how programs read; [`choose`](policy::choose) is the rule;
//! [`ReadWatch`] looks at the reads of one open for what they tell.
//!
//! Knows no bytes and no requests. Any thread; the one lock is held for a look-up.

mod history;
mod modes;
mod policy;
mod program;
mod watch;

pub use modes::ReadModes;
pub use watch::ReadWatch;
