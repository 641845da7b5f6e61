//! Reading: which ranges to ask S3 for, and when a read can be answered.

mod reader;

pub use reader::{ReadContext, Reader};
