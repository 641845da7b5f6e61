//! Open files: the state that stays the same from `open` to `release`.
//!
//! Knows no names and no inodes' contents. Invariant: a handle number is never used twice, so a
//! late request can never hit another open. The table's lock is held only to clone an `Arc`.

mod closing;
mod handle_table;
mod open_file;
mod staged;
mod staged_markers;

pub use closing::{Closer, Closing, Opener, OtherDescriptors};
pub use handle_table::HandleTable;
pub use open_file::OpenFile;
pub use staged::{OpenStaged, StagedFiles, StagedHandle};
pub use staged_markers::StagedMarkers;
