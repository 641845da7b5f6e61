//! Choice of how reads are answered: through the kernel's page cache or directly.
//!
//! Made once for each open, when the kernel must be told. [`ReadModes`] remembers how the mount's
//! files were read and how programs read. [`choose`](policy::choose) is the rule; [`ReadWatch`]
//! observes the reads of one open.
//!
//! Knows neither bytes nor requests. Any thread; the only lock is held for a lookup.

mod history;
mod modes;
mod policy;
mod program;
mod watch;

pub use modes::ReadModes;
pub use watch::ReadWatch;
