//! A file that is open for writing, and the rule which `close` ends it.
//!
//! The kernel reports each `close`, also of a duplicated or inherited descriptor, but not which one
//! is the last. A close that finds unsaved bytes stores them and returns any error. The exception
//! is a close by another process while the opener lives and has not closed the file (the end of a
//! child). A close stores a file without writes as well, unless the closing process has it open
//! once more: a shell duplicates the descriptor and closes the original before the command has
//! written anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::operation::InodeNo;
use crate::write::Writer;

/// One open of a file for writing. Several by one process, before the first write, share it.
#[derive(Debug)]
pub struct OpenWriter {
    /// The inode, which lives at least as long as this value.
    pub ino: InodeNo,
    /// Takes the bytes.
    pub writer: Arc<Writer>,
    opener: Opener,
    /// Number of its handles.
    handles: AtomicU32,
    /// Bytes were written since the open.
    was_written: AtomicBool,
    /// The opener's process has closed its descriptor for good, maybe before the first write. A
    /// visible duplicate means that it has not.
    was_closed: AtomicBool,
    /// The opener or an heir has closed a descriptor since the last write.
    was_ended: AtomicBool,
    /// The opener or an heir has closed a descriptor, or the file was synchronised. Other opens may
    /// read it now.
    was_flushed: AtomicBool,
}

/// The process that opened a file. The kernel may reuse a process id, so the start time belongs to
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opener {
    /// The process id; 0 if the process is not visible.
    pub process: u32,
    /// The start time, in the kernel's ticks since the boot.
    pub started: u64,
}

impl Opener {
    /// An unknown process.
    pub const UNSEEN: Self = Self {
        process: 0,
        started: 0,
    };
}

/// A process that closes a descriptor.
pub trait Closing: Send + Sync {
    /// The closing process's relation to `opener`.
    fn closer(&self, opener: Opener) -> Closer;
    /// Whether the process has another descriptor for writing of the file `ino`, called `name`.
    fn others(&self, ino: InodeNo, name: &str) -> OtherDescriptors;
}

/// The relation of a closing process to the opener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closer {
    /// The process that opened the file.
    Opener,
    /// Another process, while the opener lives.
    Child,
    /// Another process, after the opener has ended.
    Heir,
}

/// Other descriptors of the closed file in the process that closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherDescriptors {
    /// The process has another descriptor.
    Held,
    /// The process has no other descriptor.
    None,
    /// The process is not visible.
    Unknown,
}

impl OpenWriter {
    /// A file that `opener` has opened and that `writer` writes.
    #[must_use]
    pub fn new(ino: InodeNo, writer: Arc<Writer>, opener: Opener) -> Self {
        Self {
            ino,
            writer,
            opener,
            handles: AtomicU32::new(1),
            was_written: AtomicBool::new(false),
            was_closed: AtomicBool::new(false),
            was_ended: AtomicBool::new(false),
            was_flushed: AtomicBool::new(false),
        }
    }

    /// Whether `process` has opened it.
    ///
    /// Two invisible processes may differ, so an invisible one has opened nothing.
    #[must_use]
    pub fn was_opened_by(&self, process: Opener) -> bool {
        process != Opener::UNSEEN && process == self.opener
    }

    /// Adds a handle for an `opener` that opens the file twice, as pandas does.
    ///
    /// Before the first write that is allowed: both handles then write the same bytes. `false` if
    /// another process opens the file, or if written bytes could be lost.
    #[must_use]
    pub fn share(&self, opener: Opener) -> bool {
        let is_blank = !self.was_written.load(Ordering::Acquire)
            && self.writer.progress().size() == 0
            && self.writer.failure().is_none();
        self.was_opened_by(opener) && is_blank && self.add_handle()
    }

    /// Adds a handle for an `opener` that opens the file it is writing once more, to read it.
    /// `false` if another process opens it, or if the file has failed.
    #[must_use]
    pub fn share_for_reading(&self, opener: Opener) -> bool {
        self.was_opened_by(opener) && self.writer.failure().is_none() && self.add_handle()
    }

    /// Adds a handle, unless the last one was released.
    fn add_handle(&self) -> bool {
        let one_more = |handles: u32| (handles > 0).then_some(handles + 1);
        let added = self
            .handles
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        added.is_ok()
    }

    /// Releases a handle. Returns whether it was the last one.
    #[must_use]
    pub fn released(&self) -> bool {
        self.handles.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether a close by `closing` stores the file.
    pub fn close_stores(&self, closing: &dyn Closing) -> bool {
        let closer = closing.closer(self.opener);
        let was_written = self.was_written.load(Ordering::Acquire);
        if !was_written {
            // A child has nothing to store before the first write.
            if closer == Closer::Child {
                return false;
            }
            if closing.others(self.ino, self.name()) == OtherDescriptors::Held {
                return false;
            }
        }
        // The close of a child does not end the file: its opener goes on.
        if closer != Closer::Child {
            self.was_flushed.store(true, Ordering::Release);
            self.was_ended.store(true, Ordering::Release);
        }
        // Where other descriptors are not visible, this may be the last one: a child then stores
        // once too often, and never too rarely.
        if closer == Closer::Opener {
            self.was_closed.store(true, Ordering::Release);
        }
        closer != Closer::Child || self.was_closed.load(Ordering::Acquire)
    }

    /// The last component of its path.
    fn name(&self) -> &str {
        let key = self.writer.key().as_str();
        key.rsplit_once('/').map_or(key, |(_, name)| name)
    }

    /// Whether the file was closed or synchronised since it was opened.
    #[must_use]
    pub fn was_flushed(&self) -> bool {
        self.was_flushed.load(Ordering::Acquire)
    }

    /// Whether the file was synchronised and not closed: more writes are likely.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.was_flushed() && !self.was_ended.load(Ordering::Acquire)
    }

    /// Notes that the file was synchronised.
    pub fn synchronised(&self) {
        self.was_flushed.store(true, Ordering::Release);
    }

    /// Notes that bytes were written. An open for reading has to wait for the next close.
    pub fn written(&self) {
        self.was_written.store(true, Ordering::Release);
        self.was_flushed.store(false, Ordering::Release);
        self.was_ended.store(false, Ordering::Release);
    }
}
