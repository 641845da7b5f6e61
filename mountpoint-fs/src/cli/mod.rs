//! The command line of `mount-s3`: parsing and checking, and nothing that touches the outside.

mod args;
mod bucket;

pub use args::CliArgs;
pub use bucket::{BucketArg, BucketArgError};
