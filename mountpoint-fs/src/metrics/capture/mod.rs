//! Each request of the kernel and each request to S3, handed to whoever records them.
//!
//! While nobody does, a request costs one load of a flag. While somebody does, requests go into a
//! queue of bounded length that a [`RunningCapture`] empties; what finds no room is counted. There
//! is at most one at a time. Never has what files hold, credentials or headers.

mod call;
mod record;
mod session;

pub use call::{CallOutcome, CallSubject, CapturedCall};
pub use record::{AttemptRecord, CallRecord, CaptureRecord, LevelRecord, WaitRecord};
pub use session::{
    CaptureBusy, CaptureOptions, RunningCapture, call_begins, install_observer, is_on,
};
