//! Each request of the kernel and each request to S3, handed to the command that records them.
//!
//! Without such a command, a request costs one load of a flag. With one, records go into a queue of
//! bounded length, which a [`RunningCapture`] empties; a record that finds no room is counted. At
//! most one capture runs at a time. Records never have contents of files, credentials or headers.

mod record;
mod session;

pub use record::{AttemptRecord, CallRecord, CaptureRecord, LevelRecord, WaitRecord};
pub use session::{CaptureBusy, CapturedCall, RunningCapture, call_begins, install_observer};
