//! A file that is open for writing, and which of its closes ends it.
//!
//! The kernel tells of each `close`, also of a descriptor that was duplicated or inherited, and not which one is the last.
//! A close that has bytes to store stores them and returns the error, if there is one; not one by another process than
//! the opener, while the opener lives and has not closed it (a child of it has ended). A file that nothing was written to
//! is stored by a close as well, unless the process that closes has it open once more: a shell moves the descriptor and
//! closes the first one, before the command has written anything.

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
    /// Bytes were written since it was opened.
    was_written: AtomicBool,
    /// The opener's process has closed one of its descriptors, and not only moved it.
    was_closed: AtomicBool,
    /// The opener or an heir has closed one, or the file was synchronised: others may look at it now.
    was_flushed: AtomicBool,
}

/// A process that closes a descriptor.
pub trait Closing: Send + Sync {
    /// Who it is, for a file that the thread `opener` opened.
    fn closer(&self, opener: u32) -> Closer;
    /// Whether it has another descriptor of the file `ino`, called `name`, that is open for writing.
    fn others(&self, ino: InodeNo, name: &str) -> Others;
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

/// Other descriptors of the file that is closed, in the process that closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// There is one.
    Held,
    /// There is none.
    None,
    /// The process is out of sight.
    Unknown,
}

impl OpenWriter {
    /// `writer` was opened by the thread `opener`.
    #[must_use]
    pub fn new(ino: InodeNo, writer: Arc<Writer>, opener: u32) -> Self {
        Self {
            ino,
            writer,
            opener,
            was_written: AtomicBool::new(false),
            was_closed: AtomicBool::new(false),
            was_flushed: AtomicBool::new(false),
        }
    }

    /// Whether a close by `closing` stores the file.
    pub fn close_stores(&self, closing: &dyn Closing) -> bool {
        let closer = closing.closer(self.opener);
        let was_written = self.was_written.load(Ordering::Acquire);
        let mut others = Others::None;
        if !was_written {
            // A child that has written nothing has nothing to store.
            if closer == Closer::Child {
                return false;
            }
            others = closing.others(self.ino, self.name());
            if others == Others::Held {
                return false;
            }
        }
        // A child that ends does not end the file: its opener goes on.
        if closer != Closer::Child {
            self.was_flushed.store(true, Ordering::Release);
        }
        if closer == Closer::Opener && others == Others::None {
            self.was_closed.store(true, Ordering::Release);
        }
        closer != Closer::Child || self.was_closed.load(Ordering::Acquire)
    }

    /// The last name of its path.
    fn name(&self) -> &str {
        let key = self.writer.key().as_str();
        key.rsplit_once('/').map_or(key, |(_, name)| name)
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
        self.was_written.store(true, Ordering::Release);
        self.was_flushed.store(false, Ordering::Release);
    }
}
