//! WRITEs that wait for memory, with their bytes.

use std::fmt;

use mountpoint_crt_sys::block::Block;

use super::buffers::WriteMemory;
use crate::memory::Reservation;

/// Bytes of a waiting WRITE, in counted memory.
pub struct PendingWrite {
    block: Block,
    len: usize,
    /// Dropped after the bytes.
    _counted: Reservation,
}

impl PendingWrite {
    pub(in crate::write) fn new(memory: &WriteMemory, data: &[u8]) -> Self {
        let counted = memory.wait(data.len() as u64);
        let mut fill = memory.pool().allocate(data.len());
        // A second copy of file data: the request's buffer is needed for the next one.
        fill.append(data);
        Self {
            block: fill.block(),
            len: data.len(),
            _counted: counted,
        }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.block.bytes(0..self.len)
    }
}

impl AsRef<[u8]> for PendingWrite {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Debug for PendingWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingWrite")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
