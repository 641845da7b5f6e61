//! Writing files: names, content, headers and metadata of the new objects.

mod creating;
mod header_changes;
mod makers;
mod metadata;
mod posix;
mod writing;

use super::*;
