//! Uploads of committed files in the background: their times, their number and their waiters.
//!
//! `schedule` decides, with `foreground`; `queue` acts and waits. Knows neither contents nor the
//! journal: a file is a [`PendingFile`], which uploads itself.

mod foreground;
mod queue;
mod schedule;
mod types;

pub(super) use queue::UploadQueue;
pub(super) use types::{Attempt, PendingFile};
pub use types::{PendingUpload, PendingUploads};
