//! Uploads of committed files in the background: their times, their number and their waiters.
//!
//! `schedule` decides, with `foreground`; `upload_queue` acts and waits. Knows neither contents nor
//! the journal: a file is a [`PendingFile`], which uploads itself.

mod foreground;
mod schedule;
mod types;
mod upload_queue;

pub(super) use types::{Attempt, PendingFile};
pub use types::{PendingUpload, PendingUploads};
pub(super) use upload_queue::UploadQueue;
