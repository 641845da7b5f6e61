//! Opening files: for reading, for writing, and for their maker alone.

mod begin;
mod exclusive;
mod open_files;
mod open_for_reading;
mod open_for_writing;

pub(super) use begin::{adopt, begin, begin_new, share, unmake};
pub(super) use exclusive::make_object;
pub(super) use open_files::OpenFiles;
pub(super) use open_for_reading::open;
pub(super) use open_for_writing::{create, make_file, open_for_writing, permit_writing};
