//! LISTs ahead of walks, and their answers.

use std::sync::Arc;
use std::time::Duration;

use crate::namespace::listing::first_answer::FirstAnswer;
use crate::namespace::listing::page::Page;

/// Identifies a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WalkRequestId(pub(super) u64);

/// A LIST to send ahead of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WalkRequest {
    pub(crate) id: WalkRequestId,
    pub(crate) scope: WalkScope,
}

/// The keys that a LIST ahead covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WalkScope {
    /// One directory, with a delimiter.
    Directory(Arc<str>),
    /// All keys below `root` from the directory `from` on, at most one page.
    Subtree { root: Arc<str>, from: Arc<str> },
}

/// The outcome of a LIST ahead.
#[derive(Debug)]
pub(crate) enum WalkAnswer {
    /// The first answer about a directory.
    Directory(FirstAnswer),
    /// The answer about a subtree.
    Subtree(SubtreeAnswer),
    /// The request failed.
    Failed,
    /// The server refuses a LIST of this subtree without a delimiter.
    Refused,
}

/// The directories in a LIST without a delimiter.
#[derive(Debug, Default)]
pub(crate) struct SubtreeAnswer {
    /// The directories that the answer lists completely.
    pub(crate) whole: Vec<(Arc<str>, Arc<Page>)>,
    /// The deepest directory that takes most of the answer and goes on behind its end.
    pub(crate) large: Option<Arc<str>>,
}

/// An answer about a directory that was requested before its `opendir`.
#[derive(Debug)]
pub(crate) enum ListedAhead {
    /// The whole directory.
    Whole(Arc<Page>),
    /// The first page of the directory.
    First(Box<FirstAnswer>),
}

/// Decision about an `opendir`.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// The answer, if the directory was listed ahead.
    pub(crate) listed: Option<ListedAhead>,
    /// A request in flight that may list the directory.
    pub(crate) awaits: Option<WalkRequestId>,
    /// Requests to send now.
    pub(crate) requests: Vec<WalkRequest>,
}

/// Counts of LISTs ahead of walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkStats {
    /// Requests sent.
    pub requests: u64,
    /// Requests that no program used.
    pub wasted: u64,
    /// Directories that needed no request when they were opened.
    pub directories: u64,
}

/// A request that was sent ahead.
#[derive(Debug)]
pub(super) struct SentAhead {
    pub(super) at: Duration,
    pub(super) scope: WalkScope,
    /// Number of directories that the answer is expected to list.
    pub(super) expected: usize,
    pub(super) is_in_flight: bool,
    pub(super) is_used: bool,
    /// Directories that the answer has listed.
    pub(super) ready: Vec<Arc<str>>,
}

impl ListedAhead {
    /// Time of the request.
    pub(crate) fn asked(&self) -> Duration {
        match self {
            Self::Whole(page) => page.asked,
            Self::First(answer) => answer.asked(),
        }
    }

    /// Number of names in the answer.
    pub(super) fn names(&self) -> usize {
        match self {
            Self::Whole(page) => page.entries.len(),
            Self::First(answer) => answer.names(),
        }
    }

    /// Whether the answer has `name` in the directory `prefix`.
    pub(super) fn has(&self, prefix: &str, name: &str) -> bool {
        match self {
            Self::Whole(page) => page.find(name).is_some(),
            Self::First(answer) => answer.has(prefix, name),
        }
    }
}
