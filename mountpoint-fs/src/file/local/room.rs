//! Files that can give back room on the disk, for a write or a commit that finds none.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use crate::file::directory::DataFileName;
use crate::sync::Mutex;

/// A file with bytes on the disk.
pub(in crate::file) trait RoomHolder: Send + Sync {
    /// Gives back the room of bytes that the bucket has as well, and of those that nothing needs.
    /// Blocks for as long as the disk takes; never for another call.
    fn give_back(self: Arc<Self>);
}

/// The files of a mount.
#[derive(Default)]
pub(in crate::file) struct RoomHolders {
    /// A leaf.
    files: Mutex<HashMap<DataFileName, Weak<dyn RoomHolder>>>,
}

impl RoomHolders {
    /// Adds a file, until [`Self::remove`].
    pub(in crate::file) fn add(&self, name: DataFileName, file: Weak<dyn RoomHolder>) {
        self.files.lock().insert(name, file);
    }

    /// Removes a file, unless `name` has another value than the one at `place` by now.
    pub(in crate::file) fn remove(&self, name: DataFileName, place: *const ()) {
        let mut files = self.files.lock();
        let is_it = |file: &Weak<dyn RoomHolder>| file.as_ptr().cast() == place;
        if files.get(&name).is_some_and(is_it) {
            files.remove(&name);
        }
    }

    /// Has all files give back what they can. Blocks.
    pub(in crate::file) fn give_back(&self) {
        let files: Vec<_> = self.files.lock().values().cloned().collect();
        // None ends under the lock, which its end takes.
        let files = files.iter().filter_map(Weak::upgrade);
        files.for_each(|file: Arc<dyn RoomHolder>| file.give_back());
    }
}

impl fmt::Debug for RoomHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoomHolders")
            .field("files", &self.files.lock().len())
            .finish()
    }
}
