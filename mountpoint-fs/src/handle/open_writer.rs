//! A file that is open for writing, and which of its closes ends it.
//!
//! The kernel tells of each `close`, also of a descriptor that was duplicated or inherited, and not which one is the last.
//! A close that has bytes to store stores them and returns the error, if there is one; not one by another process than
//! the opener, while the opener lives and has not closed it (a child of it has ended). A file that nothing was written to
//! is stored by a close as well, unless the process that closes has it open once more: a shell moves the descriptor and
//! closes the first one, before the command has written anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::operation::InodeNo;
use crate::write::Writer;

/// One open of a file for writing; or several of one process, of a file that nothing was written to yet.
#[derive(Debug)]
pub struct OpenWriter {
    /// The inode, which is there as long as this is.
    pub ino: InodeNo,
    /// Takes the bytes.
    pub writer: Arc<Writer>,
    opener: Opener,
    /// Handles that have it.
    handles: AtomicU32,
    /// Bytes were written since it was opened.
    was_written: AtomicBool,
    /// The opener's process has closed one of its descriptors, and was not seen to have moved it; maybe before there was
    /// anything to write.
    was_closed: Arc<AtomicBool>,
    /// The opener or an heir has closed one since it was written.
    was_ended: AtomicBool,
    /// The opener or an heir has closed one, or the file was synchronised: others may look at it now.
    was_flushed: AtomicBool,
}

/// The process that opened a file. A number alone may be another process's later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opener {
    /// The kernel's number; 0 if it is out of sight.
    pub process: u32,
    /// When it began, in the kernel's ticks since the boot.
    pub started: u64,
}

impl Opener {
    /// Nobody knows who.
    pub const UNSEEN: Self = Self {
        process: 0,
        started: 0,
    };
}

/// A process that closes a descriptor.
pub trait Closing: Send + Sync {
    /// Who it is, for a file that `opener` opened.
    fn closer(&self, opener: Opener) -> Closer;
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
    /// `writer` was opened by `opener`.
    #[must_use]
    pub fn new(ino: InodeNo, writer: Arc<Writer>, opener: Opener) -> Self {
        Self::begun(ino, writer, opener, Arc::default())
    }

    /// `writer` makes the first change of what `opener` has opened before, and closed since if it `was_closed`.
    #[must_use]
    pub fn begun(
        ino: InodeNo,
        writer: Arc<Writer>,
        opener: Opener,
        was_closed: Arc<AtomicBool>,
    ) -> Self {
        Self {
            ino,
            writer,
            opener,
            handles: AtomicU32::new(1),
            was_written: AtomicBool::new(false),
            was_closed,
            was_ended: AtomicBool::new(false),
            was_flushed: AtomicBool::new(false),
        }
    }

    /// One more handle for `opener`, which opens the file a second time before anything was written to it, as pandas does:
    /// both write the same bytes. `false` if it is another process, or there is something to be lost. Two processes that
    /// cannot be seen may be two: an unseen opener never shares.
    #[must_use]
    pub fn share(&self, opener: Opener) -> bool {
        let is_blank = !self.was_written.load(Ordering::Acquire)
            && self.writer.progress().size() == 0
            && self.writer.failure().is_none();
        let one_more = |handles: u32| (handles > 0).then_some(handles + 1);
        opener != Opener::UNSEEN
            && opener == self.opener
            && is_blank
            && self
                .handles
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
                .is_ok()
    }

    /// A handle is closed for good. Whether it was the last one.
    #[must_use]
    pub fn released(&self) -> bool {
        self.handles.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether a close by `closing` stores the file.
    pub fn close_stores(&self, closing: &dyn Closing) -> bool {
        let closer = closing.closer(self.opener);
        let was_written = self.was_written.load(Ordering::Acquire);
        if !was_written {
            // A child that has written nothing has nothing to store.
            if closer == Closer::Child {
                return false;
            }
            if closing.others(self.ino, self.name()) == Others::Held {
                return false;
            }
        }
        // A child that ends does not end the file: its opener goes on.
        if closer != Closer::Child {
            self.was_flushed.store(true, Ordering::Release);
            self.was_ended.store(true, Ordering::Release);
        }
        // Where others are out of sight it may be the last one: a child then stores once too often, and never too rarely.
        if closer == Closer::Opener {
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

    /// Whether it was synchronised and not closed: more is likely to come.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.was_flushed() && !self.was_ended.load(Ordering::Acquire)
    }

    /// It was synchronised.
    pub fn synchronised(&self) {
        self.was_flushed.store(true, Ordering::Release);
    }

    /// Bytes were written: whoever looks at it now has to wait for the next close.
    pub fn written(&self) {
        self.was_written.store(true, Ordering::Release);
        self.was_flushed.store(false, Ordering::Release);
        self.was_ended.store(false, Ordering::Release);
    }
}
