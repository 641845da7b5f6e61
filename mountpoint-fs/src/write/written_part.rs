//! The bytes of one part of a file that is written in memory: at any place, before and after the
//! part is sent.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::types::{Checksum, ChecksumAlgorithm};
use mountpoint_crt_sys::block::{Block, BlockFill};

use super::checksum::RunningChecksum;
use super::memory::buffers::{Grant, Lease, Spared};
use crate::config::limits::WRITE_SIZE_MAX;

/// The bytes of a part, from its first one on.
#[derive(Debug)]
pub struct WrittenPart {
    fill: BlockFill,
    /// The memory of the bytes, which requests have as well.
    lease: Arc<Lease>,
    algorithm: Option<ChecksumAlgorithm>,
    /// The checksum of all bytes; `None` if some were written over.
    checksum: Option<RunningChecksum>,
}

/// The bytes of a part as the body of a request.
#[derive(Debug)]
pub struct PartBody {
    pub(super) bytes: Bytes,
    pub(super) checksum: Option<Checksum>,
}

impl WrittenPart {
    /// Room for as many bytes as were granted. The part will be sent with a checksum of
    /// `algorithm`.
    #[must_use]
    pub fn new(grant: Grant, algorithm: Option<ChecksumAlgorithm>) -> Self {
        let (fill, lease) = grant.block();
        Self {
            fill,
            lease,
            algorithm,
            checksum: Some(RunningChecksum::new(algorithm)),
        }
    }

    /// Bytes that there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.fill.capacity()
    }

    /// Bytes from the first to the last that was written; those between that were not are zeros.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fill.filled()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a request has the bytes: then none of them can be written over, and there can be no
    /// more room.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.fill.is_shared()
    }

    /// Makes room for as many bytes as were granted, for a part of this capacity. Panics if a
    /// request has the bytes. Returns what others may have now.
    pub fn grow(&mut self, grant: Grant) -> Option<Spared> {
        grant.grow(&mut self.fill, &self.lease)
    }

    /// Gives back the memory of a whole part behind the last byte, where that is worth it and no
    /// request has the bytes.
    pub fn cut(&mut self) -> Option<Spared> {
        let is_worth_it = self.capacity() - self.len() >= WRITE_SIZE_MAX;
        let cuts = is_worth_it && self.lease.is_part();
        cuts.then(|| self.lease.cut(&mut self.fill)).flatten()
    }

    /// Takes over the bytes of `other`, which were written before any of this part.
    pub fn copy_from(&mut self, other: &Self) {
        // A copy of file data: a request has the other part.
        self.fill.append(other.fill.bytes());
        self.checksum = other.checksum;
    }

    /// Writes `data` from the offset `at` of the part on. Panics if there is no room, or if a
    /// request has bytes that are written over.
    pub fn write(&mut self, at: usize, data: &[u8]) {
        while self.len() < at {
            let len = (at - self.len()).min(ZEROS.len());
            self.append(&ZEROS[..len]);
        }
        let (over, behind) = data.split_at(data.len().min(self.len() - at));
        if !over.is_empty() {
            assert!(self.fill.overwrite(at, over), "no request has the bytes");
            self.checksum = None;
        }
        self.append(behind);
    }

    fn append(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(SUMMED_AT_ONCE) {
            // A copy of file data: from the kernel's request to where the file keeps it.
            self.fill.append(piece);
            if let Some(checksum) = &mut self.checksum {
                checksum.update(piece);
            }
        }
    }

    /// The bytes of `range`. Panics if they were not written.
    #[must_use]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.fill.bytes()[range]
    }

    /// Whether a body of the first `len` bytes has a checksum without a look at all of them.
    #[must_use]
    pub fn is_summed(&self, len: usize) -> bool {
        self.algorithm.is_none() || self.checksum.is_some() && len == self.len()
    }

    /// A body of the first `len` bytes, which shares their memory.
    #[must_use]
    pub fn body(&self, len: usize) -> PartBody {
        let checksum = match self.checksum.filter(|_| len == self.len()) {
            Some(checksum) => checksum,
            None => {
                let mut checksum = RunningChecksum::new(self.algorithm);
                let pieces = self.fill.bytes()[..len].chunks(SUMMED_AT_ONCE);
                pieces.for_each(|piece| checksum.update(piece));
                checksum
            }
        };
        let bytes = Bytes::from_owner(Written {
            block: self.fill.block(),
            len,
        });
        PartBody {
            bytes,
            checksum: checksum.value(),
        }
    }
}

impl PartBody {
    /// Bytes of the body.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The checksum of `algorithm`.
    pub(super) fn checksum_of(&self, algorithm: Option<ChecksumAlgorithm>) -> Option<Checksum> {
        let is_of = |checksum: &Checksum| match checksum {
            Checksum::Crc32c(_) => algorithm == Some(ChecksumAlgorithm::Crc32c),
            Checksum::Crc64Nvme(_) => algorithm == Some(ChecksumAlgorithm::Crc64Nvme),
        };
        if self.checksum.as_ref().is_some_and(is_of) {
            return self.checksum;
        }
        let mut checksum = RunningChecksum::new(algorithm);
        checksum.update(&self.bytes);
        checksum.value()
    }
}

/// The first bytes of a block.
struct Written {
    block: Block,
    len: usize,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        self.block.bytes(0..self.len)
    }
}

/// Bytes of a part that are read and summed together: they fit into the second-level cache of a
/// core.
pub const SUMMED_AT_ONCE: usize = 256 << 10;

/// What a hole within a part has.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

#[cfg(test)]
mod tests {
    use mountpoint_crt_sys::block::BlockPool;

    use super::*;
    use crate::clock::Clock;
    use crate::memory::{Budget, BufferRequest};
    use crate::write::memory::buffers::{MemorySource, WriteMemory};

    const CRC: Option<ChecksumAlgorithm> = Some(ChecksumAlgorithm::Crc64Nvme);

    fn memory() -> Arc<WriteMemory> {
        let source = MemorySource {
            budget: Budget::new(64 << 20),
            pool: BlockPool::new(0),
            make_room: Arc::new(|| {}),
        };
        WriteMemory::new(source, 8 << 20, Clock::monotonic())
    }

    fn grant(memory: &Arc<WriteMemory>, held: u64, len: u64) -> Grant {
        let request = BufferRequest {
            held,
            len,
            least: len,
            whole: 8 << 20,
            shortest: 8 << 20,
            is_large: false,
        };
        memory.try_take(request).expect("there is enough")
    }

    fn sum_of(bytes: &[u8]) -> Option<Checksum> {
        let mut checksum = RunningChecksum::new(CRC);
        checksum.update(bytes);
        checksum.value()
    }

    fn check(part: &WrittenPart, expected: &[u8]) {
        for len in [expected.len(), expected.len() / 2] {
            let body = part.body(len);
            assert_eq!(&body.bytes[..], &expected[..len]);
            assert_eq!(body.checksum, sum_of(&expected[..len]));
        }
    }

    #[test]
    fn bytes_are_written_at_any_place() {
        let memory = memory();
        let mut part = WrittenPart::new(grant(&memory, 0, 100), CRC);
        part.write(0, b"abc");
        assert!(part.is_summed(3));
        check(&part, b"abc");
        part.write(3, b"def");
        assert!(part.is_summed(6));
        check(&part, b"abcdef");
        part.write(8, b"x");
        assert!(part.is_summed(9));
        check(&part, b"abcdef\0\0x");
        part.write(1, b"12");
        assert!(!part.is_summed(9));
        part.write(7, b"4567");
        check(&part, b"a12def\x004567");
        part.grow(grant(&memory, 100, 200));
        assert_eq!((part.capacity(), part.len()), (200, 11));
    }

    #[test]
    fn a_request_keeps_its_bytes() {
        let memory = memory();
        let mut part = WrittenPart::new(grant(&memory, 0, 100), CRC);
        part.write(0, b"abcdef");
        let body = part.body(6);
        assert!(part.is_in_flight());
        part.write(6, b"g");
        let mut copy = WrittenPart::new(grant(&memory, 0, 100), CRC);
        copy.copy_from(&part);
        copy.write(0, b"X");
        assert_eq!(&body.bytes[..], b"abcdef");
        check(&copy, b"Xbcdefg");
        drop(body);
        assert!(!part.is_in_flight());
        part.write(0, b"Y");
        check(&part, b"Ybcdefg");
    }
}
