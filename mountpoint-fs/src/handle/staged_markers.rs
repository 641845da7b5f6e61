//! Markers of new directories that are staged files.
//!
//! Knows no requests. A marker is here until the bucket has it and the journal has released it.

use std::collections::BTreeMap;

use crate::file::StagedFile;
use crate::sync::Mutex;

/// The markers of a mount that the bucket lacks.
#[derive(Debug, Default)]
pub struct StagedMarkers {
    /// By key, which is the directory's prefix. A leaf.
    by_key: Mutex<BTreeMap<String, StagedFile>>,
}

impl StagedMarkers {
    /// The marker of the directory `prefix`.
    #[must_use]
    pub fn of(&self, prefix: &str) -> Option<StagedFile> {
        self.by_key.lock().get(prefix).cloned()
    }

    /// The markers of the directory `prefix` and of those below it.
    #[must_use]
    pub fn below(&self, prefix: &str) -> Vec<StagedFile> {
        let markers = self.by_key.lock();
        let from = markers.range(prefix.to_owned()..);
        let below = from.take_while(|(key, _)| key.starts_with(prefix));
        below.map(|(_, marker)| marker.clone()).collect()
    }

    /// Adds the marker of the directory `prefix`.
    pub fn insert(&self, prefix: String, marker: StagedFile) {
        self.by_key.lock().insert(prefix, marker);
    }

    /// Removes `file`, unless there is another one for `prefix` by now.
    pub fn remove(&self, prefix: &str, file: &StagedFile) {
        let mut markers = self.by_key.lock();
        let is_it = |marker: &StagedFile| marker.is(file);
        if markers.get(prefix).is_some_and(is_it) {
            markers.remove(prefix);
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.lock().is_empty()
    }

    /// Whether one more may wait.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.by_key.lock().len() < STAGED_MARKERS_MAX
    }

    /// Ends the marker `prefix` if no store of it is to come, and the journal has no record, which
    /// a kill would bring back.
    pub fn end(&self, prefix: &str) {
        let is_over = |file: &StagedFile| !file.is_changed() && !file.is_recorded();
        if let Some(marker) = self.of(prefix).filter(is_over) {
            self.remove(prefix, &marker);
        }
    }
}

/// Markers that wait at a time. Beyond them `mkdir` asks the bucket.
const STAGED_MARKERS_MAX: usize = 10_000;
