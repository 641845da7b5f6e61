//! The fields of a message, read one after the other.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// Bytes of a file or of an attribute. The log shows how many they are, never what they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::fuse) struct Content<'a>(pub(in crate::fuse) &'a [u8]);

impl fmt::Debug for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// The part of a message that was not parsed yet.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    /// The first fields of `fuse_read_in`.
    pub(super) fn handle_offset_size(&mut self) -> Option<(u64, u64, u32)> {
        Some((self.u64()?, self.u64()?, self.u32()?))
    }

    /// The next `len` bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A name that ends with NUL.
    pub(super) fn name(&mut self) -> Option<&'a OsStr> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        (!name.is_empty()).then(|| OsStr::from_bytes(name))
    }
}
