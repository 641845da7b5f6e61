//! Which versions are open for reading, so that those who read the same one share what they fetch.
//!
//! Knows neither blocks nor readers' places. One entry for each version; it goes with its last
//! reader.
//!
//! The lock is held for a look-up; nothing else is locked while it is, and nothing dropped. Any
//! thread.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

use super::open_object::OpenObject;
use super::version_id::VersionId;
use crate::sync::Mutex;

/// The versions that are open, by a hash of what names them: two of one hash do not share.
#[derive(Debug, Default)]
pub(in crate::read) struct ObjectRegistry {
    versions: Mutex<HashMap<VersionId, Weak<OpenObject>>>,
}

impl ObjectRegistry {
    /// What is open under `id`, or else what `new` makes, which is so from now on.
    pub(in crate::read) fn open(
        &self,
        id: VersionId,
        new: impl FnOnce() -> Arc<OpenObject>,
    ) -> Arc<OpenObject> {
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

    /// From now on `object` is what is open under `id`.
    pub(in crate::read) fn replace(&self, id: VersionId, object: &Arc<OpenObject>) {
        self.versions.lock().insert(id, Arc::downgrade(object));
    }

    /// `object`, which was open under `id`, is no more.
    pub(in crate::read) fn close(&self, id: VersionId, object: &OpenObject) {
        let mut versions = self.versions.lock();
        if let Entry::Occupied(entry) = versions.entry(id)
            && std::ptr::eq(entry.get().as_ptr(), object)
        {
            entry.remove();
        }
    }

    /// How many there are.
    pub(in crate::read) fn len(&self) -> usize {
        self.versions.lock().len()
    }
}
