//! Why an index file cannot be used.

use std::io;

/// A file that is no index, or an index that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The file cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file begins as no index does.
    #[error("it is no index file; `mount-s3 index` makes one")]
    NotAnIndex,
    /// The file is an index of another version of the format.
    #[error("its format is version {0}, and this program reads version {ours}: make it anew with `mount-s3 index`", ours = super::header::VERSION)]
    Version(u32),
    /// Bytes of the file are missing or wrong.
    #[error("it is damaged ({0}): make it anew with `mount-s3 index`")]
    Damaged(&'static str),
    /// A key that cannot be in an index.
    #[error("a key of {0} bytes; the longest that S3 stores has 1024")]
    KeyLength(usize),
    /// The bytes are not in memory, and the caller does not wait for a disk.
    #[error("the index must be read from disk first")]
    NotInMemory,
}
