//! Yield of LISTs without a delimiter: decides how to list the next directory.
//!
//! Pure. Such a LIST returns a thousand keys: many small directories completely, or a useless part
//! of a large one. The alternative is one LIST for each directory.

use std::sync::Arc;
use std::time::Duration;

use super::request::WalkRequestId;

/// Yield of the recent LISTs without a delimiter.
#[derive(Debug, Default)]
pub(super) struct SubtreeYield {
    /// Yield of the last answer; `None` before the first, or if it was poor.
    last: Option<Shown>,
    /// Whether a request is in flight to learn the yield.
    is_probing: bool,
    /// Number of poor answers in a row.
    poor: u32,
    /// Number of directories to list one by one before the next probe.
    skip: u32,
    is_refused: bool,
}

/// Number of directories that an answer lists completely.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) directories: usize,
    /// Number of those directories that were known before.
    pub(super) known: usize,
}

/// How to list the next directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextList {
    /// By itself.
    Directory,
    /// Together with those behind it, which makes this number of known directories.
    Subtree(usize),
    /// Together with those behind it, to learn the yield.
    Probe,
    /// Not before the probe in flight has its answer.
    Wait,
}

/// The keys that a LIST without a delimiter may return.
#[derive(Debug)]
pub(super) struct SubtreeExtent {
    pub(super) id: WalkRequestId,
    pub(super) at: Duration,
    pub(super) root: Arc<str>,
    pub(super) from: Arc<str>,
    /// Estimated end; `None` if unknown.
    pub(super) to: Option<Arc<str>>,
}

impl SubtreeExtent {
    /// Whether the answer may contain the directory `prefix`.
    pub(super) fn may_have(&self, prefix: &str) -> bool {
        let is_before_end = self.to.as_ref().is_none_or(|to| *prefix < **to);
        is_before_end && *prefix >= *self.from && prefix.starts_with(&*self.root)
    }
}

impl SubtreeYield {
    /// Starts over, because another walk begins.
    pub(super) fn begin(&mut self) {
        self.poor = self.poor.saturating_sub(1);
        self.skip = 0;
        self.last = None;
    }

    /// Records that the server refuses such LISTs.
    pub(super) fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Whether such a LIST may begin at a directory that a program opens now.
    pub(super) fn may_begin(&mut self) -> bool {
        let may_begin = self.poor == 0 && !self.is_probing && !self.is_refused;
        self.is_probing |= may_begin && self.last.is_none();
        may_begin
    }

    /// Number of directories that the next answer is expected to list.
    pub(super) fn expected(&self) -> usize {
        self.last.map_or(1, |last| last.directories)
    }

    /// Whether no recent answer was poor.
    pub(super) fn is_promising(&self) -> bool {
        self.poor == 0
    }

    /// Chooses the LIST for the next directory.
    pub(super) fn next(&mut self, may_list_subtrees: bool) -> NextList {
        if !may_list_subtrees || self.is_refused {
            return NextList::Directory;
        }
        match self.last {
            Some(last) => NextList::Subtree(last.known.max(1)),
            None if self.is_probing && self.is_promising() => NextList::Wait,
            None if self.is_probing || self.skip > 0 => {
                self.skip = self.skip.saturating_sub(1);
                NextList::Directory
            }
            None => {
                self.is_probing = true;
                NextList::Probe
            }
        }
    }

    /// Records the yield of an answer.
    pub(super) fn answered(&mut self, shown: Shown) {
        self.is_probing = false;
        if shown.directories < WALK_SUBTREE_LEAST {
            self.poor = (self.poor + 1).min(WALK_SKIP_MAX);
            self.skip = 1 << self.poor;
            self.last = None;
        } else {
            self.poor = 0;
            self.skip = 0;
            self.last = Some(shown);
        }
    }
}

/// Directories that a LIST without a delimiter has to show in full to be better than one LIST for
/// each.
const WALK_SUBTREE_LEAST: usize = 3;

/// Poor LISTs without a delimiter after which they do not become rarer: one for each 1,024
/// directories.
const WALK_SKIP_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(directories: usize) -> Shown {
        Shown {
            directories,
            known: directories,
        }
    }

    #[test]
    fn what_shows_little_is_asked_ever_less_often() {
        let mut subtrees = SubtreeYield::default();
        assert!(subtrees.may_begin());
        assert_eq!(subtrees.next(true), NextList::Wait);
        let mut probes = Vec::new();
        for number in 0..100 {
            subtrees.answered(shown(WALK_SUBTREE_LEAST - 1));
            assert!(!subtrees.may_begin());
            while subtrees.next(true) == NextList::Directory {
                probes.push(number);
            }
            if probes.len() > 100 {
                break;
            }
        }
        let between = |probe| probes.iter().filter(|number| **number == probe).count();
        assert_eq!([0, 1, 2, 3].map(between), [2, 4, 8, 16]);
        // Directories are listed one by one meanwhile.
        assert_eq!(subtrees.next(true), NextList::Directory);
        // A good answer ends the probing.
        subtrees.answered(shown(9));
        assert_eq!(subtrees.next(true), NextList::Subtree(9));
        assert_eq!(subtrees.next(false), NextList::Directory);
        assert!(subtrees.may_begin());
        subtrees.refuse();
        assert_eq!(subtrees.next(true), NextList::Directory);
        assert!(!subtrees.may_begin());
    }

    #[test]
    fn extents() {
        let extent = |to: Option<&str>| SubtreeExtent {
            id: WalkRequestId(1),
            at: Duration::ZERO,
            root: Arc::from("t/"),
            from: Arc::from("t/b/"),
            to: to.map(Arc::from),
        };
        for (prefix, open, bounded) in [
            ("t/a/", false, false),
            ("t/b/", true, true),
            ("t/b/x/", true, true),
            ("t/c/", true, false),
            ("u/", false, false),
        ] {
            assert_eq!(extent(None).may_have(prefix), open, "{prefix}");
            assert_eq!(extent(Some("t/c/")).may_have(prefix), bounded, "{prefix}");
        }
    }
}
