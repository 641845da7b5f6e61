//! Writing: content, headers, ends, and many files at once.

mod appending;
mod completion_tags;
mod copying;
mod creating;
mod gaps;
mod many_writers;
mod state_directory;
mod writing;
mod writing_ends;
mod writing_headers;
