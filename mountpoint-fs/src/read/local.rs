//! Which local files may stand for objects.
//!
//! Knows no cache: [`LocalFiles`] finds the files. A version that had to be opened in another way
//! is left out for a while, so that this open finds no reader of the local file in its way. Any
//! thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mountpoint_client::types::{ETag, Key};

use crate::clock::Clock;
use crate::operation::{LocalFiles, LocalVersion};
use crate::sync::Mutex;

/// The local files of a mount.
pub(super) struct LocalSource {
    files: OnceLock<Arc<dyn LocalFiles>>,
    /// Whether the kernel may read the files.
    is_used: AtomicBool,
    /// Versions that are left out, the newest last. The lock is a leaf.
    paused: Mutex<VecDeque<Paused>>,
    clock: Clock,
}

/// A version that is left out.
#[derive(Debug)]
struct Paused {
    key: Key,
    etag: ETag,
    until: Duration,
}

impl LocalSource {
    /// No local files.
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            files: OnceLock::new(),
            is_used: AtomicBool::new(false),
            paused: Mutex::default(),
            clock,
        }
    }

    /// Has files from `files`; only the first call has an effect.
    pub(super) fn set(&self, files: Arc<dyn LocalFiles>) {
        self.files.set(files).ok();
    }

    pub(super) fn is_set(&self) -> bool {
        self.files.get().is_some()
    }

    /// Whether the kernel may read the files.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// Begins or ends the use of the files. Returns whether that is a change.
    pub(super) fn use_files(&self, is_used: bool) -> bool {
        self.is_used.swap(is_used, Ordering::AcqRel) != is_used
    }

    /// The version of an open, with its local file. `None` if no file can ever stand for it.
    pub(super) fn version(&self, key: &Key, etag: &ETag, size: u64) -> Option<LocalVersion> {
        let is_used = size > 0 && self.is_used();
        let files = self.files.get().filter(|_| is_used)?;
        let file = match self.is_paused(key, etag) {
            true => None,
            false => files.whole(key, etag, size),
        };
        Some(LocalVersion {
            etag: etag.clone(),
            size,
            file,
        })
    }

    /// Leaves a version out for [`PAUSE`].
    pub(super) fn pause(&self, key: Key, etag: ETag) {
        let until = self.clock.now() + PAUSE;
        let mut paused = self.paused.lock();
        if paused.len() >= PAUSED_MAX {
            paused.pop_front();
        }
        paused.push_back(Paused { key, etag, until });
    }

    fn is_paused(&self, key: &Key, etag: &ETag) -> bool {
        let mut paused = self.paused.lock();
        if paused.is_empty() {
            return false;
        }
        let now = self.clock.now();
        while paused.front().is_some_and(|first| first.until <= now) {
            paused.pop_front();
        }
        let mut versions = paused.iter();
        versions.any(|version| version.key == *key && version.etag.matches(etag))
    }
}

/// Far longer than the look-up and the open of a file that is opened again.
const PAUSE: Duration = Duration::from_secs(5);

/// Versions that are left out at once; one more ends the pause of the oldest.
const PAUSED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Has every object of 5 bytes.
    struct Fives;

    impl LocalFiles for Fives {
        fn whole(&self, _: &Key, _: &ETag, size: u64) -> Option<Arc<File>> {
            (size == 5).then(|| Arc::new(tempfile::tempfile().unwrap()))
        }
    }

    fn key(name: &str) -> Key {
        Key::parse(name).unwrap()
    }

    #[test]
    fn versions_have_the_files_of_the_source() {
        let local = LocalSource::new(Clock::manual());
        let version = |size| local.version(&key("a"), &ETag::from_header("1"), size);
        assert!(version(5).is_none(), "no source");
        local.set(Arc::new(Fives));
        assert!(version(5).is_none(), "not used");
        assert_eq!(
            (local.use_files(true), local.use_files(true)),
            (true, false)
        );
        assert!(version(0).is_none(), "an empty file may be written");
        assert!(version(4).unwrap().file.is_none());
        assert!(version(5).unwrap().file.is_some());
    }

    #[test]
    fn a_pause_concerns_one_version_and_ends() {
        let clock = Clock::manual();
        let local = LocalSource::new(clock.clone());
        local.set(Arc::new(Fives));
        local.use_files(true);
        let has_file = |name: &str, etag: &str| {
            let version = local.version(&key(name), &ETag::from_header(etag), 5);
            version.unwrap().file.is_some()
        };
        local.pause(key("a"), ETag::from_header("1"));
        assert_eq!(
            [
                has_file("a", "1"),
                has_file("a", "\"1\""),
                has_file("a", "2"),
                has_file("b", "1")
            ],
            [false, false, true, true]
        );
        clock.advance(PAUSE);
        assert!(has_file("a", "1"));
        for number in 0..=PAUSED_MAX {
            local.pause(key(&number.to_string()), ETag::from_header("1"));
        }
        assert!(
            has_file("0", "1") && !has_file("1", "1"),
            "the oldest is dropped"
        );
    }
}
