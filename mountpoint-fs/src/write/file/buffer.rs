//! The unsent bytes of a file: the part that is being filled.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_crt_sys::block::{Block, BlockFill};

use crate::write::checksum::RunningChecksum;
use crate::write::memory::buffers::Lease;

/// The unsent bytes of a file.
#[derive(Debug, Default)]
pub(in crate::write) enum Buffer {
    #[default]
    Empty,
    /// A part is being filled.
    Filling(Filling),
    /// A part was sent, and its buffer holds overflow: bytes behind the part.
    Overflow(Overflow),
}

#[derive(Debug)]
pub(in crate::write) struct Filling {
    pub(in crate::write) fill: BlockFill,
    /// The memory of the buffer.
    pub(in crate::write) lease: Arc<Lease>,
    pub(in crate::write) checksum: RunningChecksum,
    /// Bytes of the whole part; the buffer may be smaller, or larger by one write.
    pub(in crate::write) part_size: usize,
    /// The time of the last grant of memory for a whole part.
    pub(in crate::write) part_since: Duration,
}

#[derive(Debug)]
pub(in crate::write) struct Overflow {
    pub(in crate::write) bytes: BlockBytes,
    /// The memory of the part in front of the overflow.
    pub(in crate::write) lease: Arc<Lease>,
    pub(in crate::write) checksum: RunningChecksum,
}

/// Valid bytes of a block, as the body of a request.
#[derive(Clone, Debug)]
pub(in crate::write) struct BlockBytes {
    pub(in crate::write) block: Block,
    pub(in crate::write) start: usize,
    pub(in crate::write) end: usize,
}

impl AsRef<[u8]> for BlockBytes {
    fn as_ref(&self) -> &[u8] {
        self.block.bytes(self.start..self.end)
    }
}

impl Filling {
    /// All filled bytes.
    pub(in crate::write) fn bytes(&self) -> BlockBytes {
        BlockBytes {
            block: self.fill.block(),
            start: 0,
            end: self.fill.filled(),
        }
    }

    /// Bytes that still fit into the buffer.
    pub(in crate::write) fn room(&self) -> usize {
        self.fill.capacity() - self.fill.filled()
    }
}

impl Buffer {
    /// Unsent bytes.
    pub(in crate::write) fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Filling(filling) => filling.fill.filled(),
            Self::Overflow(overflow) => overflow.bytes.as_ref().len(),
        }
    }

    /// The unsent bytes; `None` if there is no buffer.
    pub(in crate::write) fn bytes(&self) -> Option<BlockBytes> {
        match self {
            Self::Empty => None,
            Self::Filling(filling) => Some(filling.bytes()),
            Self::Overflow(overflow) => Some(overflow.bytes.clone()),
        }
    }

    /// Whether the buffer takes `len` bytes more.
    pub(in crate::write) fn has_room(&self, len: usize) -> bool {
        self.filling().is_some_and(|filling| filling.room() >= len)
    }

    pub(in crate::write) fn filling(&self) -> Option<&Filling> {
        match self {
            Self::Filling(filling) => Some(filling),
            Self::Empty | Self::Overflow(_) => None,
        }
    }

    pub(in crate::write) fn filling_mut(&mut self) -> Option<&mut Filling> {
        match self {
            Self::Filling(filling) => Some(filling),
            Self::Empty | Self::Overflow(_) => None,
        }
    }

    /// Takes the bytes, with their checksum; `None` if there was no buffer.
    pub(in crate::write) fn take(&mut self) -> Option<(BlockBytes, RunningChecksum)> {
        match std::mem::take(self) {
            Self::Empty => None,
            Self::Filling(filling) => Some((filling.bytes(), filling.checksum)),
            Self::Overflow(overflow) => Some((overflow.bytes, overflow.checksum)),
        }
    }

    /// Takes the overflow behind the last sent part, if there is any.
    pub(in crate::write) fn take_overflow(&mut self) -> Option<Overflow> {
        match std::mem::take(self) {
            Self::Overflow(overflow) => Some(overflow),
            other => {
                *self = other;
                None
            }
        }
    }
}
