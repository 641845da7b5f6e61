//! The files that are open, and what decides how their reads are served.

use std::sync::Arc;

use crate::fs::parts::Parts;
use crate::fs::written::{end_of, release};
use crate::handle::{HandleTable, OpenFile, OpenStaged, Opener, StagedHandle};
use crate::operation::{HandleNo, Opened, WriteOptions};
use crate::read::SiblingPrefetch;
use crate::read::mode::ReadModes;

/// The open files of a mount.
#[derive(Debug)]
pub(in crate::fs) struct OpenFiles {
    pub(in crate::fs) handles: HandleTable<OpenFile>,
    pub(in crate::fs) read_modes: ReadModes,
    /// Set where files are opened as they were last known.
    pub(in crate::fs) sibling_prefetch: Option<SiblingPrefetch>,
}

impl OpenFiles {
    /// Adds a handle of a staged file, for writing with `options` or for reading alone.
    pub(super) fn insert_staged(
        &self,
        parts: &Parts,
        open: Arc<OpenStaged>,
        options: Option<WriteOptions>,
        opener: Opener,
    ) -> Opened {
        let writes = options.is_some();
        // In memory, bytes need no second copy in the page cache; a mapping does.
        let is_mapped = options.is_none_or(|options| options.both);
        let direct_io = !is_mapped && !parts.staged.have_disk();
        let keep_cache = !direct_io && parts.namespace.opened_staged(open.ino);
        let mut handle = StagedHandle::new(open, opener);
        handle.writes = writes;
        handle.is_synchronous = options.is_some_and(|options| options.synchronous);
        handle.is_direct = direct_io;
        if writes {
            parts.staged.add_writer(&handle.open);
        }
        Opened {
            handle: self.handles.insert(OpenFile::Staged(handle)),
            direct_io,
            keep_cache,
            flush: writes,
            local: None,
        }
    }

    /// Closes a file.
    pub(in crate::fs) fn release(&self, parts: &Parts, handle: HandleNo) {
        let (staged, namespace) = (&parts.staged, &parts.namespace);
        match self.handles.remove(handle).as_deref() {
            Some(OpenFile::Staged(handle)) => {
                release((staged, namespace), &handle.open, handle.writes);
            }
            Some(OpenFile::Reading { ino, watch, .. }) => {
                if let Some(watch) = watch {
                    self.read_modes.close(watch, parts.reading.consumed());
                }
                namespace.close(*ino);
                end_of(staged, namespace, *ino);
            }
            None => {}
        }
    }
}
