//! Who removes trees, and what comes to light on the way.
//!
//! A directory hides the object of its name, so who removes a tree (`rm -r`) has not seen it: the directory above was listed
//! before the one that hides it was removed. That thread asked for all of it, and this remembers the evidence: it listed the
//! directory above, then removed something in the one that hides and that one itself, and has not listed again. Who removes
//! empty directories only (`rmdir -p`, a walk that tries each) gives no such evidence.
//!
//! Pure. What it forgets, or has no room for, stays in the bucket.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use crate::config::limits::REMOVALS_REMEMBERED;
use crate::operation::InodeNo;

/// What came to light in a directory, perhaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uncovered {
    /// Names of directories that were removed.
    pub(super) names: Vec<Arc<str>>,
    /// When the directory was listed: what is younger was never hidden from who did that.
    pub(super) since: SystemTime,
}

/// Threads in directories that they have listed.
#[derive(Debug, Default)]
pub(super) struct Removals {
    listed: HashMap<By, Listed>,
    /// Oldest first; some may be gone.
    order: VecDeque<By>,
    /// Names that are remembered.
    names: usize,
}

/// A thread, by its number in our PID namespace, in a directory.
type By = (u32, InodeNo);

#[derive(Debug)]
struct Listed {
    has_removed: bool,
    uncovered: Uncovered,
}

impl Removals {
    /// `thread` begins to list `directory`: it sees what has come to light so far.
    pub(super) fn listed(&mut self, thread: u32, directory: InodeNo, now: SystemTime) {
        if thread == 0 {
            return;
        }
        let by = (thread, directory);
        self.forget(by);
        while self.order.len() >= REMOVALS_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.forget(oldest);
        }
        self.order.push_back(by);
        let uncovered = Uncovered {
            names: Vec::new(),
            since: now,
        };
        let listed = Listed {
            has_removed: false,
            uncovered,
        };
        self.listed.insert(by, listed);
    }

    /// `thread` has removed a file in `directory`.
    pub(super) fn removed_file(&mut self, thread: u32, directory: InodeNo) {
        if let Some(listed) = self.listed.get_mut(&(thread, directory)) {
            listed.has_removed = true;
        }
    }

    /// `thread` has removed the directory `ino`, whose name in `directory` was `name`.
    pub(super) fn removed_directory(
        &mut self,
        thread: u32,
        directory: InodeNo,
        (ino, name): (InodeNo, &str),
    ) {
        let was_emptied = self
            .listed
            .get(&(thread, ino))
            .is_some_and(|it| it.has_removed);
        self.forget((thread, ino));
        if was_emptied
            && self.names < REMOVALS_REMEMBERED
            && let Some(listed) = self.listed.get_mut(&(thread, directory))
        {
            listed.has_removed = true;
            listed.uncovered.names.push(Arc::from(name));
            self.names += 1;
        }
    }

    /// What came to light in `directory` while `thread` removed what it had seen there.
    pub(super) fn uncovered(&self, thread: u32, directory: InodeNo) -> Option<&Uncovered> {
        let uncovered = &self.listed.get(&(thread, directory))?.uncovered;
        (!uncovered.names.is_empty()).then_some(uncovered)
    }

    fn forget(&mut self, by: By) {
        if let Some(listed) = self.listed.remove(&by) {
            self.names -= listed.uncovered.names.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const T: InodeNo = InodeNo(2);
    const X: InodeNo = InodeNo(3);

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    /// Each letter is a step of thread 7: it lists `T` or `X`, removes a file in one of them (`t`, `x`), or the directory `X`
    /// (`r`).
    #[track_caller]
    fn check(steps: &str, expected: Option<u64>) {
        let mut removals = Removals::default();
        for (second, step) in (1..).zip(steps.chars()) {
            match step {
                'T' => removals.listed(7, T, at(second)),
                'X' => removals.listed(7, X, at(second)),
                't' => removals.removed_file(7, T),
                'x' => removals.removed_file(7, X),
                'r' => removals.removed_directory(7, T, (X, "x")),
                other => panic!("{other}"),
            }
        }
        let uncovered = removals.uncovered(7, T);
        assert_eq!(uncovered.map(|it| it.since), expected.map(at), "{steps}");
        assert!(uncovered.is_none_or(|it| *it.names == [Arc::from("x")]));
        assert_eq!(removals.uncovered(8, T), None, "{steps}");
    }

    #[test]
    fn who_empties_a_tree_uncovers_what_it_hides() {
        check("TXxr", Some(1));
        check("TXxxtr", Some(1));
        // By hand, or only what is empty.
        check("r", None);
        check("Tr", None);
        check("TXr", None);
        check("TXtr", None);
        check("Xxr", None);
        // It sees it now.
        check("TXxrT", None);
        check("XxrT", None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut removals = Removals::default();
        removals.listed(7, T, at(1));
        for ino in 10..10 + 2 * REMOVALS_REMEMBERED as u64 {
            removals.listed(7, InodeNo(ino), at(2));
        }
        removals.listed(7, T, at(3));
        for ino in 10..10 + 2 * REMOVALS_REMEMBERED as u64 {
            removals.listed(7, InodeNo(ino), at(4));
            removals.removed_file(7, InodeNo(ino));
            removals.removed_directory(7, T, (InodeNo(ino), "x"));
            assert!(removals.listed.len() <= REMOVALS_REMEMBERED);
            assert!(removals.names <= REMOVALS_REMEMBERED);
        }
        removals.listed(7, T, at(5));
        assert_eq!(removals.names, 0);
        removals.listed(0, T, at(6));
        assert!(removals.uncovered(0, T).is_none());
    }
}
