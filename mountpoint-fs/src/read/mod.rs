//! Reading: which ranges to ask S3 for, and when a read can be answered.

mod blocks;
mod planner;
mod reader;
mod window;

pub use reader::{ReadContext, Reader};
