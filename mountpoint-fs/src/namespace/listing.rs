//! One directory's names, page by page.
//!
//! Knows nothing of inodes, of offsets in the kernel's sense or of replies: it has numbered pages. The page behind
//! the one that is read is asked for ahead, so a long directory is listed at the pace of its reader or of S3,
//! whichever is slower. Memory is bounded by two pages and, for each page that was seen, what it takes to ask for it
//! again (a token, a few names), so a reader may go back to any page.
//!
//! Invariant: page `k` is always asked for with the same token, whenever it is asked for. What changes in the bucket
//! meanwhile may be seen or missed, as POSIX allows; what does not change is seen exactly once.
//!
//! Not shared: an open directory's lock is around it. A future of it may be dropped at any await: the request stays
//! in the air and the next call waits for the same.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::task::noop_waker_ref;
use mountpoint_client::types::{ListOutput, ListRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient, Pending};

use super::page::{Listed, Page, merge};
use crate::clock::Clock;
use crate::config::limits::{LIST_PAGE_ENTRIES_MAX, LIST_PAGE_KEYS};
use crate::operation::FsError;

/// Enumerates a directory.
pub struct Listing {
    client: Arc<dyn ObjectClient>,
    clock: Clock,
    prefix: String,
    /// How to ask for each page that is known to exist.
    starts: Vec<Start>,
    /// Whether the last of `starts` is the last page.
    is_complete: bool,
    /// The page that was read last and the one behind it.
    held: VecDeque<(usize, Arc<Page>)>,
    asked: Option<Asked>,
}

#[derive(Debug, Default)]
struct Start {
    token: Option<String>,
    /// Files of earlier pages that this one may shadow; see [`merge`].
    held_back: Vec<Listed>,
}

/// A page that was asked for.
struct Asked {
    number: usize,
    at: Duration,
    answer: Answer,
}

enum Answer {
    Pending(Pending<ListOutput>),
    Arrived(Result<ListOutput, ClientError>),
}

impl Listing {
    /// A listing of the keys that begin with `prefix`. Sends no request yet.
    #[must_use]
    pub fn new(client: Arc<dyn ObjectClient>, clock: Clock, prefix: String) -> Self {
        let starts = vec![Start::default()];
        Self {
            client,
            clock,
            prefix,
            starts,
            is_complete: false,
            held: VecDeque::new(),
            asked: None,
        }
    }

    /// Starts over: pages read from now on show the bucket as it is now. A first page that nobody has seen yet
    /// stays in the air.
    pub fn rewind(&mut self) {
        if self.starts.len() > 1 || !self.held.is_empty() || self.is_complete {
            let client = Arc::clone(&self.client);
            *self = Self::new(client, self.clock.clone(), std::mem::take(&mut self.prefix));
        }
    }

    /// Directories that are there whether S3 lists them or not. To be told before the first page is read.
    pub fn set_kept(&mut self, names: Vec<Arc<str>>) {
        let kept = names.into_iter().map(Listed::kept);
        self.starts[0].held_back = kept.collect();
    }

    /// Page `number`, or `None` behind the end. Asks for the page behind it.
    ///
    /// Errors are those of the request; the next call asks again.
    pub async fn page(&mut self, number: usize) -> Result<Option<Arc<Page>>, FsError> {
        if self.held(number).is_none() {
            if number >= self.starts.len() {
                return Ok(None);
            }
            self.ask(number);
            let Some(asked) = &mut self.asked else {
                return Ok(None);
            };
            if let Answer::Pending(pending) = &mut asked.answer {
                asked.answer = Answer::Arrived(pending.await);
            }
            self.take_in(number)?;
        }
        self.ask_behind(number);
        Ok(self.held(number))
    }

    /// Page `number` if it is there without waiting and without an error.
    pub fn page_now(&mut self, number: usize) -> Option<Arc<Page>> {
        if self.held(number).is_none() {
            let asked = self.asked.as_mut().filter(|asked| asked.number == number)?;
            asked.answer.poll();
            if !matches!(asked.answer, Answer::Arrived(Ok(_))) {
                return None;
            }
            self.take_in(number).ok()?;
        }
        self.ask_behind(number);
        self.held(number)
    }

    fn held(&self, number: usize) -> Option<Arc<Page>> {
        self.held
            .iter()
            .find(|(held, _)| *held == number)
            .map(|(_, page)| Arc::clone(page))
    }

    /// Sends the request for page `number`, unless it is in the air.
    fn ask(&mut self, number: usize) {
        if self
            .asked
            .as_ref()
            .is_some_and(|asked| asked.number == number)
        {
            return;
        }
        let at = self.clock.now();
        let mut answer = Answer::Pending(self.client.list(ListRequest {
            prefix: self.prefix.clone(),
            delimiter: Some("/".to_owned()),
            continuation_token: self.starts[number].token.clone(),
            max_keys: Some(LIST_PAGE_KEYS),
            start_after: None,
        }));
        // A client may begin with the first poll. Whoever needs the page polls again, with a waker of its own.
        answer.poll();
        self.asked = Some(Asked { number, at, answer });
    }

    /// Asks for the page behind `number`, if there is one and nothing else is in the air.
    fn ask_behind(&mut self, number: usize) {
        let behind = number + 1;
        if behind < self.starts.len() && self.held(behind).is_none() {
            self.ask(behind);
        }
    }

    /// Takes in the answer for page `number`, which has arrived.
    fn take_in(&mut self, number: usize) -> Result<(), FsError> {
        let Some(Asked {
            answer: Answer::Arrived(answer),
            at,
            ..
        }) = self.asked.take()
        else {
            return Ok(());
        };
        let listed = answer?;
        let start = &self.starts[number];
        if listed.objects.len() + listed.common_prefixes.len() > LIST_PAGE_ENTRIES_MAX {
            return Err(self.broken("more entries in a page than anybody asked for"));
        }
        if listed.continuation_token.is_some() && listed.continuation_token == start.token {
            return Err(self.broken("a page that continues with itself"));
        }
        let merged = merge(&self.prefix, &listed, &start.held_back);
        if self.starts.len() == number + 1 {
            match listed.continuation_token {
                Some(token) => self.starts.push(Start {
                    token: Some(token),
                    held_back: merged.held_back,
                }),
                None => self.is_complete = true,
            }
        }
        // Of the others only the page in front of this one may be needed again.
        self.held.retain(|(held, _)| held + 1 == number);
        self.held.push_back((
            number,
            Arc::new(Page {
                entries: merged.shown,
                asked: at,
            }),
        ));
        Ok(())
    }

    fn broken(&self, what: &str) -> FsError {
        let message = format!("listing of {:?}: the server sent {what}", self.prefix);
        FsError::Client(ClientError::new(ErrorKind::InvalidResponse, message))
    }
}

impl Answer {
    /// Moves the request on without waiting for it.
    fn poll(&mut self) {
        if let Self::Pending(pending) = self
            && let Poll::Ready(arrived) =
                pending.poll_unpin(&mut Context::from_waker(noop_waker_ref()))
        {
            *self = Self::Arrived(arrived);
        }
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.asked.as_ref().map(|asked| asked.number);
        write!(
            f,
            "Listing({:?}, {} pages, asked {asked:?})",
            self.prefix,
            self.starts.len()
        )
    }
}
