//! The bytes of a file of the simulated disk, as programs see them and as a power loss leaves them.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::SystemTime;

use rand::Rng as _;
use rand::rngs::StdRng;

use super::FileStatus;

/// A file, with a name or without.
#[derive(Debug)]
pub(super) struct FileState {
    bytes: SparseBytes,
    durable: SparseBytes,
    pending: Vec<PendingWrite>,
    /// Names, and open files.
    pub(super) links: usize,
    pub(super) handles: usize,
    pub(super) modified_at: SystemTime,
    pub(super) used_at: SystemTime,
    /// Bytes that it occupies without blocks of its own here.
    claimed: u64,
    /// Bytes that the disk counts for it.
    counted: u64,
    /// Taken while a handle of it lives.
    pub(super) lock: Weak<()>,
}

/// A change that is not durable yet.
#[derive(Debug)]
pub(super) enum PendingWrite {
    Bytes(u64, Vec<u8>),
    Size(u64),
}

/// Bytes at their offsets, with zeros between them.
#[derive(Clone, Debug, Default)]
struct SparseBytes {
    len: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl SparseBytes {
    fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap();
        let len = buffer.len().min(left);
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let place = usize::try_from(at % BLOCK).unwrap();
            let piece = &mut buffer[done..len.min(done + BLOCK_BYTES - place)];
            match self.blocks.get(&(at / BLOCK)) {
                Some(block) => piece.copy_from_slice(&block[place..place + piece.len()]),
                None => piece.fill(0),
            }
            done += piece.len();
        }
        len
    }

    fn write(&mut self, bytes: &[u8], offset: u64) {
        let (mut rest, mut at) = (bytes, offset);
        while !rest.is_empty() {
            let place = usize::try_from(at % BLOCK).unwrap();
            let (piece, behind) = rest.split_at(rest.len().min(BLOCK_BYTES - place));
            let block = self.blocks.entry(at / BLOCK);
            let block = block.or_insert_with(|| vec![0; BLOCK_BYTES]);
            block[place..place + piece.len()].copy_from_slice(piece);
            at += piece.len() as u64;
            rest = behind;
            self.len = self.len.max(at);
        }
    }

    fn set_len(&mut self, len: u64) {
        self.blocks.split_off(&len.div_ceil(BLOCK));
        if let Some(last) = self.blocks.get_mut(&(len / BLOCK)) {
            last[usize::try_from(len % BLOCK).unwrap()..].fill(0);
        }
        self.len = len;
    }

    fn apply(&mut self, write: &PendingWrite) {
        match write {
            PendingWrite::Size(len) => self.len = self.len.max(*len),
            PendingWrite::Bytes(offset, bytes) => self.write(bytes, *offset),
        }
    }

    fn flip(&mut self, offset: u64, bits: u8) {
        if let Some(block) = self.blocks.get_mut(&(offset / BLOCK)) {
            block[usize::try_from(offset % BLOCK).unwrap()] ^= bits;
        }
    }
}

impl FileState {
    pub(super) fn new(now: SystemTime) -> Self {
        Self {
            bytes: SparseBytes::default(),
            durable: SparseBytes::default(),
            pending: Vec::new(),
            links: 0,
            handles: 0,
            modified_at: now,
            used_at: now,
            claimed: 0,
            counted: 0,
            lock: Weak::new(),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        self.bytes.read(buffer, offset)
    }

    /// Has it occupy `bytes`, without content.
    pub(super) fn claim(&mut self, bytes: u64) {
        self.claimed = bytes;
        self.bytes.len = bytes;
        self.durable.len = bytes;
    }

    pub(super) fn flip(&mut self, offset: u64, bits: u8) {
        assert!(offset < self.len());
        self.bytes.flip(offset, bits);
        self.durable.flip(offset, bits);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.bytes.set_len(len);
        self.durable.set_len(len);
        self.claimed = self.claimed.min(len);
    }

    /// Bytes that it occupies more after `write`, about.
    pub(super) fn growth(&self, write: &PendingWrite) -> u64 {
        let end = match write {
            PendingWrite::Bytes(offset, bytes) => offset + bytes.len() as u64,
            PendingWrite::Size(len) => *len,
        };
        end.saturating_sub(self.bytes.len)
    }

    pub(super) fn write(&mut self, write: PendingWrite) {
        self.bytes.apply(&write);
        if let PendingWrite::Size(len) = write {
            self.claimed = self.claimed.max(len);
        }
        self.pending.push(write);
    }

    pub(super) fn sync(&mut self) {
        for write in self.pending.drain(..) {
            self.durable.apply(&write);
        }
    }

    /// Keeps some of what is pending, in any pieces, and forgets the rest.
    pub(super) fn lose(&mut self, random: &mut StdRng) {
        let durable = &mut self.durable;
        for write in self.pending.drain(..) {
            match (random.random_range(0..4), write) {
                (0, _) => {}
                (1, write) => durable.apply(&write),
                (2, PendingWrite::Bytes(offset, mut bytes)) => {
                    bytes.truncate(random.random_range(0..=bytes.len()));
                    durable.write(&bytes, offset);
                }
                (_, PendingWrite::Bytes(offset, bytes)) => {
                    for (sector, piece) in bytes.chunks(SECTOR).enumerate() {
                        if random.random() {
                            durable.write(piece, offset + (sector * SECTOR) as u64);
                        }
                    }
                }
                (_, PendingWrite::Size(_)) => {}
            }
        }
    }

    /// The file as a power loss leaves it.
    pub(super) fn restart(&mut self, random: &mut StdRng) -> Self {
        self.lose(random);
        Self {
            bytes: self.durable.clone(),
            durable: self.durable.clone(),
            claimed: self.claimed,
            used_at: self.used_at,
            ..Self::new(self.modified_at)
        }
    }

    /// What the disk has counted for it, and what it occupies now.
    pub(super) fn recount(&mut self) -> (u64, u64) {
        let now = match self.links + self.handles {
            0 => 0,
            _ => self.occupied(),
        };
        (std::mem::replace(&mut self.counted, now), now)
    }

    fn occupied(&self) -> u64 {
        let blocks = self.bytes.blocks.len() as u64 * BLOCK;
        blocks.max(self.claimed)
    }

    pub(super) fn status(&self, number: usize) -> FileStatus {
        FileStatus {
            len: self.bytes.len,
            allocated: self.occupied(),
            is_linked: self.links > 0,
            inode: number as u64,
            modified_at: self.modified_at,
            used_at: self.used_at,
        }
    }
}

/// Bytes that a disk writes as one.
const SECTOR: usize = 512;

/// Bytes that a file occupies at least, and grows by.
const BLOCK_BYTES: usize = 4096;
const BLOCK: u64 = BLOCK_BYTES as u64;
