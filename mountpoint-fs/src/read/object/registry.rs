//! Which versions are open for reading, so that their readers share what they fetch.
//!
//! Knows neither blocks nor readers. One entry for each version; the entry goes with the last
//! reader of the version.
//!
//! The lock is held for a look-up; nothing else is locked while it is, and nothing dropped. Any
//! thread.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

use crate::read::object_version::VersionId;
use crate::sync::Mutex;

/// Open objects by the hash of their version: two versions of one hash do not share.
#[derive(Debug)]
pub(in crate::read) struct ObjectRegistry<T> {
    versions: Mutex<HashMap<VersionId, Weak<T>>>,
}

impl<T> Default for ObjectRegistry<T> {
    fn default() -> Self {
        Self {
            versions: Mutex::default(),
        }
    }
}

impl<T> ObjectRegistry<T> {
    /// The object that is open under `id`; if there is none, `new` makes it and it is entered.
    pub(in crate::read) fn open(&self, id: VersionId, new: impl FnOnce() -> Arc<T>) -> Arc<T> {
        match self.versions.lock().entry(id) {
            Entry::Occupied(mut entry) => entry.get().upgrade().unwrap_or_else(|| {
                let object = new();
                entry.insert(Arc::downgrade(&object));
                object
            }),
            Entry::Vacant(entry) => {
                let object = new();
                entry.insert(Arc::downgrade(&object));
                object
            }
        }
    }

    /// Enters `object` under `id`, in place of the object that was.
    pub(in crate::read) fn replace(&self, id: VersionId, object: &Arc<T>) {
        self.versions.lock().insert(id, Arc::downgrade(object));
    }

    /// Removes `object`, unless another one has taken its entry.
    pub(in crate::read) fn close(&self, id: VersionId, object: &T) {
        let mut versions = self.versions.lock();
        if let Entry::Occupied(entry) = versions.entry(id)
            && std::ptr::eq(entry.get().as_ptr(), object)
        {
            entry.remove();
        }
    }

    /// How many versions are open.
    pub(in crate::read) fn len(&self) -> usize {
        self.versions.lock().len()
    }
}
