//! Directories that a listing has shown and that no program has opened since.
//!
//! Pure. Sorted by prefix, which is the order in which `find`, `ls -R` and `rsync` open them.
//! Bounded by [`WALK_DIRECTORIES_MAX`]: the last ones are forgotten first.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::request::{ListedAhead, WalkRequestId};
use super::seen::WALK_DIRECTORIES_MAX;

/// State of a directory that a walk may open.
#[derive(Debug)]
pub(super) enum Upcoming {
    /// The directory exists; no request lists it.
    Known,
    /// This request lists the directory by itself.
    Asked(WalkRequestId),
    /// The answer of this request lists the directory.
    Ready(WalkRequestId, ListedAhead),
}

/// The directories, by prefix.
#[derive(Debug, Default)]
pub(super) struct UpcomingDirectories {
    by_prefix: BTreeMap<Arc<str>, Upcoming>,
    /// Number of names in the answers that are ready.
    names: usize,
    ready: usize,
}

impl UpcomingDirectories {
    /// Number of directories whose answer is ready.
    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    /// Number of names in the answers that are ready.
    pub(super) fn names(&self) -> usize {
        self.names
    }

    pub(super) fn get(&self, prefix: &str) -> Option<&Upcoming> {
        self.by_prefix.get(prefix)
    }

    /// Sets the state of the directory `prefix`.
    pub(super) fn set(&mut self, prefix: &Arc<str>, upcoming: Upcoming) {
        if let Upcoming::Ready(_, listed) = &upcoming {
            self.names += listed.names();
            self.ready += 1;
        }
        let before = self.by_prefix.insert(Arc::clone(prefix), upcoming);
        self.uncount(before.as_ref());
    }

    /// Adds directories that a listing has shown.
    pub(super) fn shown(&mut self, prefixes: impl IntoIterator<Item = Arc<str>>) {
        for prefix in prefixes {
            self.by_prefix.entry(prefix).or_insert(Upcoming::Known);
        }
        while self.by_prefix.len() > WALK_DIRECTORIES_MAX {
            let last = self.by_prefix.pop_last();
            self.uncount(last.map(|(_, upcoming)| upcoming).as_ref());
        }
    }

    /// Removes a directory that was opened or is gone.
    pub(super) fn remove(&mut self, prefix: &str) -> Option<Upcoming> {
        let removed = self.by_prefix.remove(prefix);
        self.uncount(removed.as_ref());
        removed
    }

    /// Directories below `root` in the order of a walk at `position`: first those behind it, then
    /// those in front of it, the nearest first.
    pub(super) fn from<'a>(
        &'a self,
        root: &'a str,
        position: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Upcoming)> {
        let behind = (Bound::Excluded(position), Bound::Unbounded);
        let before = (Bound::Included(root), Bound::Excluded(position));
        let before = (root < position).then(|| self.by_prefix.range::<str, _>(before));
        let behind = self.by_prefix.range::<str, _>(behind);
        let behind = behind.take_while(move |(prefix, _)| prefix.starts_with(root));
        behind.chain(before.into_iter().flatten().rev())
    }

    /// Discards the answer about `prefix` if a later lookup of `name` contradicts it.
    ///
    /// The lookup was requested at `asked`.
    pub(super) fn looked_up(&mut self, prefix: &str, name: &str, is_there: bool, asked: Duration) {
        let Some((shared, Upcoming::Ready(_, listed))) = self.by_prefix.get_key_value(prefix)
        else {
            return;
        };
        if listed.asked() <= asked && listed.has(prefix, name) != is_there {
            let shared = Arc::clone(shared);
            self.set(&shared, Upcoming::Known);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn uncount(&mut self, gone: Option<&Upcoming>) {
        if let Some(Upcoming::Ready(_, listed)) = gone {
            self.names -= listed.names();
            self.ready -= 1;
        }
    }
}
