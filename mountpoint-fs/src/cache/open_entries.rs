//! Which entries are open, so that all open files of a version share one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::entry::Entry;
use super::storage::EntryName;
use crate::sync::Mutex;

/// Open entries by name. The lock is a leaf, and no entry is dropped while it is held.
#[derive(Debug, Default)]
pub(super) struct OpenEntries(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    entries: HashMap<EntryName, Weak<Entry>>,
    /// Entries from which on those that were closed are looked for.
    sweep_at: usize,
}

impl OpenEntries {
    /// The open entry `name`, and whether it is new: if there is none, `new` makes it.
    pub(super) fn open(
        &self,
        name: EntryName,
        new: impl FnOnce() -> Arc<Entry>,
    ) -> (Arc<Entry>, bool) {
        let mut open = self.0.lock();
        if let Some(entry) = open.entries.get(&name).and_then(Weak::upgrade) {
            return (entry, false);
        }
        if open.entries.len() >= open.sweep_at {
            open.entries.retain(|_, entry| entry.strong_count() > 0);
            open.sweep_at = (2 * open.entries.len()).max(SWEEP_MIN);
        }
        let entry = new();
        open.entries.insert(name, Arc::downgrade(&entry));
        (entry, true)
    }

    /// The open entry `name`.
    pub(super) fn find(&self, name: EntryName) -> Option<Arc<Entry>> {
        self.0.lock().entries.get(&name).and_then(Weak::upgrade)
    }
}

/// Fewer entries are not looked through.
const SWEEP_MIN: usize = 1024;
