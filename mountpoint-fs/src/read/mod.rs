//! Reading: which ranges to ask S3 for, and when a read can be answered.
//!
//! One range, one GET, one block of our own memory; a reply is slices of blocks, and nothing is copied. [`Reader`]
//! does, `Planner`, `Window` and `HedgePolicy` decide, `Flight` is a range in the
//! air, `Traces` remembers where files were read, [`ReadContext`] is what a mount's readers share. [`NextFiles`] has readers
//! of files that are not open yet.

mod blocks;
mod context;
mod delay;
mod flight;
mod habit;
mod hedge;
mod hedger;
mod held;
mod next_files;
mod open_object;
mod part_length;
mod planner;
mod reader;
mod recent_least;
mod replay;
mod seats;
mod sharing;
mod skips;
mod stride;
mod traces;
mod tracks;
mod window;

pub use context::{ReadContext, ReadStats};
pub use next_files::{NextFile, NextFiles, NextFilesStats};
pub use reader::Reader;

#[cfg(test)]
mod tests;
