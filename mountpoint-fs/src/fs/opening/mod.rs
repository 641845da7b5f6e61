//! Opening files: for reading, for writing, and for writing from the first change on.

mod open_for_reading;
mod open_for_writing;

pub(super) use open_for_writing::permit_writing;
