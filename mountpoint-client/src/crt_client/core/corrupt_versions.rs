//! Versions of objects whose bytes did not match their checksum.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::types::{ETag, Key};

/// Versions whose bytes did not match their checksum.
///
/// A piece of an object has no checksum of its own, and the kernel asks for pieces where the whole
/// has failed. So no piece of such a version is shown until the whole has matched.
#[derive(Debug, Default)]
pub(in crate::crt_client) struct CorruptVersions {
    /// Number of versions, read by each GET without the lock.
    count: AtomicUsize,
    /// Held for a few instructions; no other lock is taken under it.
    versions: Mutex<VecDeque<(Key, ETag)>>,
}

impl CorruptVersions {
    /// No piece of this version is to be shown.
    pub(in crate::crt_client) fn add(&self, key: &Key, version: &ETag) {
        let mut versions = self.versions.lock();
        versions.retain(|(known, _)| known != key);
        if versions.len() == CORRUPT_MAX {
            versions.pop_front();
        }
        versions.push_back((key.clone(), version.clone()));
        self.count.store(versions.len(), Ordering::Relaxed);
    }

    /// The whole object matched its checksum.
    pub(in crate::crt_client) fn remove(&self, key: &Key) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut versions = self.versions.lock();
            versions.retain(|(known, _)| known != key);
            self.count.store(versions.len(), Ordering::Relaxed);
        }
    }

    pub(in crate::crt_client) fn holds(&self, key: &Key, version: &ETag) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && self
                .versions
                .lock()
                .iter()
                .any(|(known, corrupt)| known == key && corrupt.matches(version))
    }
}

/// Corrupt versions that are remembered, the oldest are forgotten.
const CORRUPT_MAX: usize = 1024;
