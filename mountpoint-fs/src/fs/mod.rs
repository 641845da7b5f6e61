//! The file system's operations, in domain types: no FUSE message, no errno, no thread.

mod attribute_change;
mod change;
mod file_system;
mod open_directory;
mod open_mode;
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        reason = "the operations that ask come with the next changes"
    )
)]
mod permission;

#[cfg(test)]
mod tests;

pub use file_system::FileSystem;
