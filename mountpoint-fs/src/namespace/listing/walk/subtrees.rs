//! How much one LIST without a delimiter shows, and so whether to send one or a LIST for each
//! directory.
//!
//! Pure. Such a LIST brings a thousand keys: the whole of many small directories, or nothing of use
//! of a large one.

use std::sync::Arc;
use std::time::Duration;

use super::request::WalkRequestId;
use crate::config::limits::{WALK_SKIP_MAX, WALK_SUBTREE_LEAST};

/// What LISTs without a delimiter have shown of late.
#[derive(Debug, Default)]
pub(super) struct SubtreeYield {
    /// What the last answer has shown; `None` before the first.
    last: Option<Shown>,
    /// A request is in flight to find out.
    is_probing: bool,
    /// Answers in a row that were not worth it.
    poor: u32,
    /// Directories that are to be listed by themselves before the next.
    skip: u32,
    is_refused: bool,
}

/// Directories that an answer has shown in full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) directories: usize,
    /// Those that were known to be there.
    pub(super) known: usize,
}

/// How to list the next directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextList {
    /// Alone.
    Directory,
    /// With what is behind it: so many known directories in all.
    Subtree(usize),
    /// With what is behind it, to find out how far it goes.
    Probe,
    /// Not before it is known how.
    Wait,
}

/// The keys that a LIST without a delimiter may show.
#[derive(Debug)]
pub(super) struct SubtreeExtent {
    pub(super) id: WalkRequestId,
    pub(super) at: Duration,
    pub(super) root: Arc<str>,
    pub(super) from: Arc<str>,
    /// Where it is expected to end; `None` if nobody knows.
    pub(super) to: Option<Arc<str>>,
}

impl SubtreeExtent {
    /// Whether it may show the directory `prefix`.
    pub(super) fn may_have(&self, prefix: &str) -> bool {
        let is_before_end = self.to.as_ref().is_none_or(|to| *prefix < **to);
        is_before_end && *prefix >= *self.from && prefix.starts_with(&*self.root)
    }
}

impl SubtreeYield {
    /// Another walk begins.
    pub(super) fn begin(&mut self) {
        self.poor = self.poor.saturating_sub(1);
        self.skip = 0;
        self.last = None;
    }

    /// The server does not permit such a LIST.
    pub(super) fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Whether to list from a directory on that is being opened.
    pub(super) fn may_begin(&mut self) -> bool {
        let may_begin = self.poor == 0 && !self.is_probing && !self.is_refused;
        self.is_probing |= may_begin && self.last.is_none();
        may_begin
    }

    /// Directories to expect of the next.
    pub(super) fn expected(&self) -> usize {
        self.last.map_or(1, |last| last.directories)
    }

    /// Whether nothing is known to speak against such a LIST.
    pub(super) fn is_promising(&self) -> bool {
        self.poor == 0
    }

    /// How to list the next directory.
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

    /// What an answer has shown.
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
        // Meanwhile directories are listed by themselves.
        assert_eq!(subtrees.next(true), NextList::Directory);
        // What shows many ends it.
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
