//! Layouts of recently closed files: the offsets of their short reads.
//!
//! Files of one length and one extension are of one kind: a program that writes the same records
//! gives them the same layout. Knows neither blocks nor requests. A layout is stored when a file is
//! closed and looked up at the first reads of another.
//!
//! The lock is held for a search among [`LAYOUTS_MAX`]; no other lock is taken under it. Any
//! thread.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::Key;

use super::prefetch::KnownLayout;
use crate::sync::Mutex;

/// Layouts of the latest files, by kind.
#[derive(Debug, Default)]
pub(in crate::read) struct LayoutCache {
    /// Whether there is any layout: most mounts never have one.
    has_any: AtomicBool,
    /// The latest is the last.
    latest: Mutex<Vec<(FileKind, KnownLayout)>>,
}

/// A hash of an extension and a length. If two kinds have the same hash, some prefetch is wasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileKind(u64);

impl FileKind {
    fn of(key: &Key, size: u64) -> Self {
        let name = key.as_str().rsplit('/').next();
        let extension = name.and_then(|name| name.rsplit_once('.'));
        let mut hasher = DefaultHasher::new();
        (extension.map(|(_, extension)| extension), size).hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl LayoutCache {
    /// The layout of the previous file of this kind, if there is one.
    pub(in crate::read) fn find(&self, key: &Key, size: u64) -> Option<KnownLayout> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        let kind = FileKind::of(key, size);
        let latest = self.latest.lock();
        let found = latest.iter().find(|(known, _)| *known == kind);
        found.map(|(_, before)| before.clone())
    }

    /// Stores the layout of a closed file.
    pub(in crate::read) fn keep(&self, key: &Key, size: u64, read: KnownLayout) {
        let kind = FileKind::of(key, size);
        let mut latest = self.latest.lock();
        let known = latest.iter().position(|(known, _)| *known == kind);
        let oldest = (latest.len() == LAYOUTS_MAX).then_some(0);
        let replaced = known.or(oldest).map(|place| latest.remove(place));
        latest.push((kind, read));
        drop(latest);
        drop(replaced);
        self.has_any.store(true, Ordering::Relaxed);
    }
}

/// Kinds of files whose layouts are remembered: 256 KiB together at most.
const LAYOUTS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use super::*;

    fn read(place: u64) -> KnownLayout {
        let reads: Vec<Range<u64>> = vec![place..place + 1, 9..10];
        KnownLayout {
            layout: Arc::new(reads),
            ..KnownLayout::default()
        }
    }

    fn key(name: &str) -> Key {
        Key::parse(name).unwrap()
    }

    #[test]
    fn files_of_one_length_and_extension_are_of_one_kind() {
        let layouts = LayoutCache::default();
        assert!(layouts.find(&key("a/1.h5"), 7).is_none());
        layouts.keep(&key("a/1.h5"), 7, read(1));
        layouts.keep(&key("b"), 7, read(2));
        for (name, size, place) in [
            ("a/2.h5", 7, Some(1)),
            ("b/c/2.h5", 7, Some(1)),
            ("a/2.h5", 8, None),
            ("a/2.nc", 7, None),
            ("a.h5/1", 7, Some(2)),
        ] {
            let before = layouts.find(&key(name), size);
            assert_eq!(before.map(|before| before.layout[0].start), place, "{name}");
        }
    }

    #[test]
    fn the_latest_are_kept() {
        let layouts = LayoutCache::default();
        let count = LAYOUTS_MAX as u64;
        for size in 0..count {
            layouts.keep(&key("a"), size, read(size));
        }
        layouts.keep(&key("a"), 0, read(100));
        layouts.keep(&key("a"), count, read(count));
        let start = |size| {
            layouts
                .find(&key("a"), size)
                .map(|before| before.layout[0].start)
        };
        assert_eq!((start(0), start(1), start(2)), (Some(100), None, Some(2)));
        assert_eq!(layouts.latest.lock().len(), LAYOUTS_MAX);
    }
}
