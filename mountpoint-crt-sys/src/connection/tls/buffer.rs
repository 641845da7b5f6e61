//! Memory for bytes as they are on the wire.
//!
//! All buffers have one size and go back to one bounded pool, so that the bytes that are decrypted
//! have just been received to memory that is in the core's cache.

use std::ops::{Deref, DerefMut};

use parking_lot::Mutex;

/// Bytes of a buffer: what is received at once, and what is encrypted before it is sent.
pub(super) const BUFFER_LEN: usize = 128 << 10;

/// Buffers that are kept for later.
const SPARE_MAX: usize = 16;

static SPARE: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

/// `BUFFER_LEN` bytes, given back when dropped.
pub(super) struct Buffer(Box<[u8]>);

impl Buffer {
    pub(super) fn new() -> Self {
        let spare = SPARE.lock().pop();
        Self(spare.unwrap_or_else(|| vec![0; BUFFER_LEN].into_boxed_slice()))
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.0);
        let mut spare = SPARE.lock();
        if spare.len() < SPARE_MAX {
            spare.push(memory);
        }
    }
}

/// Bytes that have come and are not yet understood.
#[derive(Default)]
pub(super) struct Incoming {
    /// None while there are none.
    buffer: Option<Buffer>,
    start: usize,
    end: usize,
}

impl Incoming {
    /// Where the next bytes are to be put; empty if there is no room.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let buffer = self.buffer.get_or_insert_with(Buffer::new);
        if self.start > 0 {
            buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut buffer[self.end..]
    }

    /// So many bytes have been put there.
    pub(super) fn came(&mut self, len: usize) {
        self.end += len;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer
            .as_ref()
            .map_or(&[], |buffer| &buffer[self.start..self.end])
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let range = self.start..self.end;
        self.buffer
            .as_mut()
            .map_or(&mut [], |buffer| &mut buffer[range])
    }

    /// The first bytes are needed no more.
    pub(super) fn discard(&mut self, len: usize) {
        self.start += len;
    }

    /// Gives the buffer back if nothing is in it.
    pub(super) fn rest(&mut self) {
        if self.start == self.end {
            *self = Self::default();
        }
    }
}
