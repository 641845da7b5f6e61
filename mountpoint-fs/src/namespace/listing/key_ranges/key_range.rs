//! One range of keys: its requests, and its pages that the reader has not taken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::namespace::listing::interpolation::KeyScale;
use crate::namespace::listing::page::{Listed, Reached};

/// Identifies a range as long as it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeId(pub(super) u64);

/// Start of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// The beginning of the directory.
    Start,
    /// Behind a key, relative to the directory.
    Behind(Arc<str>),
    /// The end of the answer that returned this token.
    Token(Arc<str>),
}

/// A page that the reader has not taken yet.
#[derive(Debug)]
pub(crate) struct ReadyPage {
    pub(crate) entries: Vec<Listed>,
    pub(crate) extent: Extent,
    pub(crate) asked: Duration,
}

/// The keys that a page covers: what to list if the page is needed again.
#[derive(Clone, Debug)]
pub(crate) enum Extent {
    /// All keys behind `low`, up to `high`.
    Keys {
        low: Option<Arc<str>>,
        high: Option<Arc<str>>,
    },
    /// One answer of a listing without order, by its start.
    Answer(From),
}

impl Extent {
    /// How far a reader has come that has read this page and all in front of it.
    pub(crate) fn reached(&self) -> Reached<'_> {
        match self {
            Self::Keys {
                high: Some(high), ..
            } => Reached::Key(high),
            Self::Keys { high: None, .. } | Self::Answer(_) => Reached::End,
        }
    }
}

/// A range of keys and its pages.
#[derive(Debug)]
pub(super) struct KeyRange {
    pub(super) id: RangeId,
    /// Keys up to here have been listed, or belong to the range in front.
    pub(super) seen: Option<Arc<str>>,
    /// Last key of the answer that the next request continues, even beyond the range.
    pub(super) continued: Option<Arc<str>>,
    /// The last key of the range; `None` for the end of the directory.
    pub(super) high: Option<Arc<str>>,
    /// Whether an answer has arrived for the range.
    pub(super) is_touched: bool,
    pub(super) next: Next,
    /// Whether the last request failed. The next one is then sent only when the reader needs it.
    pub(super) is_failed: bool,
    pub(super) parts: VecDeque<ReadyPage>,
    pub(super) scale: Option<Arc<KeyScale>>,
}

/// The next request of a range.
#[derive(Debug)]
pub(super) enum Next {
    Ask(From),
    InFlight,
    Done,
}

/// How far an answer reaches: it has all keys up to there.
#[derive(Debug)]
pub(super) enum Reach {
    Key(Arc<str>),
    End,
    /// An empty answer that is not the last.
    Nowhere,
}

impl KeyRange {
    /// Its next request, which is in flight from now on.
    pub(super) fn ask(&mut self) -> Option<From> {
        if !matches!(self.next, Next::Ask(_)) {
            return None;
        }
        match std::mem::replace(&mut self.next, Next::InFlight) {
            Next::Ask(from) => Some(from),
            Next::InFlight | Next::Done => None,
        }
    }
}
