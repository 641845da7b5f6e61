//! A file that is open for reading.

use crate::operation::InodeNo;
use crate::read::Reader;
use crate::read_mode::ReadWatch;

/// One open of one version of a file. Reads of it may run in parallel: the reader needs no lock from here.
#[derive(Debug)]
pub struct OpenFile {
    /// The inode, which is there as long as this is.
    pub ino: InodeNo,
    /// Reads the version that was opened.
    pub reader: Reader,
    /// Looks at how it is read, where that tells how to open it the next time.
    pub watch: Option<ReadWatch>,
}
