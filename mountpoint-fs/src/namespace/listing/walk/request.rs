//! LISTs that are sent ahead of walks, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use crate::namespace::listing::first_answer::FirstAnswer;
use crate::namespace::listing::page::Page;

/// Names a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::namespace) struct WalkRequestId(pub(super) u64);

/// A LIST to send ahead of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::namespace) struct WalkRequest {
    pub(in crate::namespace) id: WalkRequestId,
    pub(in crate::namespace) scope: WalkScope,
}

/// What a LIST ahead lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::namespace) enum WalkScope {
    /// The directory of this prefix, alone.
    Directory(Arc<str>),
    /// All keys below `root`, from the directory `from` on, as far as one page goes.
    Subtree { root: Arc<str>, from: Arc<str> },
}

/// What came of a LIST ahead.
#[derive(Debug)]
pub(in crate::namespace) enum WalkAnswer {
    /// The first answer about a directory.
    Directory(FirstAnswer),
    /// The directories that a subtree's answer has shown in full.
    Subtree(Vec<(Arc<str>, Arc<Page>)>),
    /// Nothing.
    Failed,
    /// Nothing, because the keys below may not be listed so.
    Refused,
}

/// What a directory was listed with before it was opened.
#[derive(Debug)]
pub(in crate::namespace) enum ListedAhead {
    /// All of it.
    Whole(Arc<Page>),
    /// The first answer of its own listing.
    First(Box<FirstAnswer>),
}

/// What a program gets that opens a directory.
#[derive(Debug, Default)]
pub(in crate::namespace) struct Opening {
    /// What the directory was listed with.
    pub(in crate::namespace) listed: Option<ListedAhead>,
    /// The request in flight that may tell.
    pub(in crate::namespace) awaits: Option<WalkRequestId>,
    /// What to send now.
    pub(in crate::namespace) requests: Vec<WalkRequest>,
}

/// LISTs ahead of walks, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkStats {
    /// Requests sent.
    pub requests: u64,
    /// Requests of which nothing was used.
    pub wasted: u64,
    /// Directories that needed no request when they were opened.
    pub directories: u64,
}

/// A request that was sent.
#[derive(Debug)]
pub(super) struct SentAhead {
    pub(super) at: Duration,
    pub(super) scope: WalkScope,
    /// Directories that are expected of it while it is in flight.
    pub(super) expected: usize,
    pub(super) is_in_flight: bool,
    pub(super) is_used: bool,
    /// Directories that it has made ready.
    pub(super) ready: Vec<Arc<str>>,
}

impl ListedAhead {
    /// When it was asked for.
    pub(in crate::namespace) fn asked(&self) -> Duration {
        match self {
            Self::Whole(page) => page.asked,
            Self::First(answer) => answer.asked(),
        }
    }

    /// How many names it holds.
    pub(super) fn names(&self) -> usize {
        match self {
            Self::Whole(page) => page.entries.len(),
            Self::First(answer) => answer.names(),
        }
    }

    /// Whether `name` is among them.
    pub(super) fn has(&self, prefix: &str, name: &str) -> bool {
        match self {
            Self::Whole(page) => page.find(name).is_some(),
            Self::First(answer) => answer.has(prefix, name),
        }
    }
}
