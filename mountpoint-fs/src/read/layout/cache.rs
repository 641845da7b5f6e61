//! Where the short reads of files went that are closed.
//!
//! Files of one length and one extension are of one kind: what is written by one program, record for record, has the same
//! layout. Knows neither blocks nor requests; told at the end of an open file, asked at its first reads.
//!
//! The lock is held for a look-up among [`TRACES_MAX`]; nothing else is locked while it is. Any thread.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::Key;

use super::prefetch::Before;
use crate::config::limits::TRACES_MAX;
use crate::sync::Mutex;

/// Traces of the latest files, by kind.
#[derive(Debug, Default)]
pub(in crate::read) struct Traces {
    /// Whether there are any: most mounts never have one.
    has_any: AtomicBool,
    /// The latest last.
    latest: Mutex<Vec<(Kind, Before)>>,
}

/// A hash of an extension and a length: two kinds of one hash are taken for one, and what is asked for may be in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) struct Kind(u64);

impl Kind {
    pub(in crate::read) fn of(key: &Key, size: u64) -> Self {
        let name = key.as_str().rsplit('/').next();
        let extension = name.and_then(|name| name.rsplit_once('.'));
        let mut hasher = DefaultHasher::new();
        (extension.map(|(_, extension)| extension), size).hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl Traces {
    /// What is known of the file before, if there was one.
    pub(in crate::read) fn before(&self, key: &Key, size: u64) -> Option<Before> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        let kind = Kind::of(key, size);
        let latest = self.latest.lock();
        let found = latest.iter().find(|(known, _)| *known == kind);
        found.map(|(_, before)| before.clone())
    }

    /// A file was read like this.
    pub(in crate::read) fn keep(&self, key: &Key, size: u64, read: Before) {
        let kind = Kind::of(key, size);
        let mut latest = self.latest.lock();
        let known = latest.iter().position(|(known, _)| *known == kind);
        let oldest = (latest.len() == TRACES_MAX).then_some(0);
        let replaced = known.or(oldest).map(|place| latest.remove(place));
        latest.push((kind, read));
        drop(latest);
        drop(replaced);
        self.has_any.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use super::*;

    fn read(place: u64) -> Before {
        let reads: Vec<Range<u64>> = vec![place..place + 1, 9..10];
        Before {
            trace: Arc::new(reads),
            ..Before::default()
        }
    }

    fn key(name: &str) -> Key {
        Key::parse(name).unwrap()
    }

    #[test]
    fn files_of_one_length_and_extension_are_of_one_kind() {
        let traces = Traces::default();
        assert!(traces.before(&key("a/1.h5"), 7).is_none());
        traces.keep(&key("a/1.h5"), 7, read(1));
        traces.keep(&key("b"), 7, read(2));
        for (name, size, place) in [
            ("a/2.h5", 7, Some(1)),
            ("b/c/2.h5", 7, Some(1)),
            ("a/2.h5", 8, None),
            ("a/2.nc", 7, None),
            ("a.h5/1", 7, Some(2)),
        ] {
            let before = traces.before(&key(name), size);
            assert_eq!(before.map(|before| before.trace[0].start), place, "{name}");
        }
    }

    #[test]
    fn the_latest_are_kept() {
        let traces = Traces::default();
        let count = TRACES_MAX as u64;
        for size in 0..count {
            traces.keep(&key("a"), size, read(size));
        }
        traces.keep(&key("a"), 0, read(100));
        traces.keep(&key("a"), count, read(count));
        let start = |size| {
            traces
                .before(&key("a"), size)
                .map(|before| before.trace[0].start)
        };
        assert_eq!((start(0), start(1), start(2)), (Some(100), None, Some(2)));
        assert_eq!(traces.latest.lock().len(), TRACES_MAX);
    }
}
