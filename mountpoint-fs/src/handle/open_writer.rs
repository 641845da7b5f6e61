//! A file that is open for writing, and which of its closes ends it.
//!
//! The kernel tells of each `close`, also of a descriptor that was duplicated or inherited, and not which one is the last.
//! A close that has bytes to store stores them and returns the error, if there is one. Two closes do not: one before the
//! first byte was written (a shell moves the descriptor and closes the first one), and one by another process than the
//! opener, while the opener lives and has not closed it (a child of it has ended).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::operation::InodeNo;
use crate::write::Writer;

/// One open of a file for writing.
#[derive(Debug)]
pub struct OpenWriter {
    /// The inode, which is there as long as this is.
    pub ino: InodeNo,
    /// Takes the bytes.
    pub writer: Arc<Writer>,
    /// The thread that opened it, by the kernel's number; 0 if it is out of sight.
    opener: u32,
    /// The opener's process has closed one of its descriptors.
    was_closed: AtomicBool,
    /// The opener or an heir has closed one, or the file was synchronised: others may look at it now.
    was_flushed: AtomicBool,
}

/// Who closes a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closer {
    /// The process that opened the file.
    Opener,
    /// Another one, while the opener lives.
    Child,
    /// Another one, after the opener has ended.
    Heir,
}

impl OpenWriter {
    /// `writer` was opened by the thread `opener`.
    #[must_use]
    pub fn new(ino: InodeNo, writer: Arc<Writer>, opener: u32) -> Self {
        Self {
            ino,
            writer,
            opener,
            was_closed: AtomicBool::new(false),
            was_flushed: AtomicBool::new(false),
        }
    }

    /// The thread that opened it.
    #[must_use]
    pub fn opener(&self) -> u32 {
        self.opener
    }

    /// Whether a close by `closer` of a file of `size` bytes stores it.
    pub fn close_stores(&self, closer: Closer, size: u64) -> bool {
        // A child that ends does not end the file: its opener goes on.
        if closer != Closer::Child {
            self.was_flushed.store(true, Ordering::Release);
        }
        if closer == Closer::Opener && size > 0 {
            self.was_closed.store(true, Ordering::Release);
        }
        let was_closed = self.was_closed.load(Ordering::Acquire);
        size > 0 && (closer != Closer::Child || was_closed)
    }

    /// Whether somebody has closed or synchronised it since it was opened.
    #[must_use]
    pub fn was_flushed(&self) -> bool {
        self.was_flushed.load(Ordering::Acquire)
    }

    /// It was synchronised.
    pub fn synchronised(&self) {
        self.was_flushed.store(true, Ordering::Release);
    }

    /// Bytes were written: whoever looks at it now has to wait for the next close.
    pub fn written(&self) {
        self.was_flushed.store(false, Ordering::Release);
    }
}
