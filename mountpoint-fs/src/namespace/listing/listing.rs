//! One directory's names, page by page.
//!
//! Knows numbered pages; knows nothing of inodes, directory offsets or replies. Later pages are
//! requested ahead of the reader: one page of a small directory, several [`Ranges`] of a large one.
//! Memory holds the pages ahead, a few pages that were read, and a key and a token for each other
//! page (about 0.2 bytes for each name): with these a reader can go back to any page.
//!
//! Invariant: page `k` covers the same keys at each request, or begins with the same token in a
//! directory bucket, which has no order. An unchanged key is seen exactly once; a key that changes
//! meanwhile may be seen or missed, as POSIX allows. Not shared: the lock of an open directory
//! protects it. A dropped future leaves its requests in flight, and the next call waits for them.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::task::noop_waker_ref;
use mountpoint_client::types::ListOutput;
use mountpoint_client::{ClientError, ObjectClient, Pending};

use super::ahead::{AheadBudget, AheadShare};
use super::first_answer::FirstAnswer;
use super::key_ranges::{Extent, From, Ranges, ReadyPage};
use super::page::{Listed, ListingNo, Page, Place, merge};
use super::source::{InFlight, ListSource, poll_once};
use super::unrepresentable::HiddenKeys;
use crate::clock::Clock;
use crate::config::limits::LIST_PAGE_ENTRIES_MAX;
use crate::operation::FsError;

/// Enumerates a directory.
pub struct Listing {
    source: ListSource,
    /// Distinguishes pages of this listing from pages of others.
    number: ListingNo,
    /// Key ranges that the reader has not finished.
    ranges: Ranges,
    in_flight: Vec<InFlight>,
    /// How to request each page that was read once more.
    starts: Vec<Start>,
    /// Files of the last page that was read that the next one may shadow; see [`merge`].
    held_back: Vec<Listed>,
    /// Whether a reader has begun, perhaps with an answer that arrived before the directory was
    /// opened.
    has_begun: bool,
    /// An earlier answer about the directory, until the first page is requested.
    ready: Option<Ready>,
    /// Whether what is read now comes from the disk.
    is_saved: bool,
    /// The pages that were read most recently.
    held: VecDeque<(usize, Arc<Page>)>,
    /// An old page that is being requested once more.
    again: Option<Again>,
    /// The error of a page that no reader waited for, with the page's number.
    error: Option<(usize, FsError)>,
    ahead: AheadShare,
}

#[derive(Debug)]
struct Start {
    extent: Extent,
    /// Files of earlier pages that this one may shadow.
    held_back: Vec<Listed>,
}

/// An answer about the directory from before it was opened.
enum Ready {
    Whole(Arc<Page>),
    First(FirstAnswer),
}

/// A page that was read before and is being requested once more.
struct Again {
    number: usize,
    entries: Vec<Listed>,
    /// The last key that the new answers have reached.
    last: Option<Arc<str>>,
    asked: Duration,
    answer: Pending<ListOutput>,
}

impl Listing {
    /// A listing of the keys that begin with `prefix`. Sends no request yet.
    #[must_use]
    pub(crate) fn new(
        client: Arc<dyn ObjectClient>,
        clock: Clock,
        prefix: String,
        ahead: &AheadBudget,
        hidden: &Arc<HiddenKeys>,
    ) -> Self {
        Self {
            ranges: Ranges::new(client.lists_in_order()),
            source: ListSource {
                client,
                clock,
                prefix: Arc::from(prefix),
                hidden: Some(Arc::clone(hidden)),
            },
            number: ListingNo::next(),
            in_flight: Vec::new(),
            starts: Vec::new(),
            held_back: Vec::new(),
            has_begun: false,
            ready: None,
            is_saved: false,
            held: VecDeque::new(),
            again: None,
            error: None,
            ahead: ahead.share(),
        }
    }

    /// Starts over: pages read from now on show the bucket as it is now. Keeps a first page that is
    /// in flight and that no reader has seen.
    pub fn rewind(&mut self) {
        if !self.starts.is_empty() {
            self.number = ListingNo::next();
            self.ranges = Ranges::new(self.source.client.lists_in_order());
            self.in_flight.clear();
            self.starts.clear();
            self.held_back.clear();
            self.is_saved = false;
            self.held.clear();
            self.again = None;
            self.error = None;
            self.ahead.set(0);
        }
    }

    /// Prefix of all listed keys: the directory's prefix at the time when it was opened.
    #[must_use]
    pub fn prefix(&self) -> &Arc<str> {
        &self.source.prefix
    }

    /// Sets directories to show even if S3 lists no key in them. Call it before the first page is
    /// read.
    pub fn set_kept(&mut self, names: Vec<Arc<str>>) {
        if self.starts.is_empty() {
            self.held_back = names.into_iter().map(Listed::kept).collect();
        }
    }

    /// Whether a reader has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Records that a reader begins.
    pub(crate) fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Begins with a `page` that holds the whole directory. A rewind lists the bucket anew.
    pub(crate) fn begin_with(&mut self, page: Arc<Page>) {
        self.begin();
        self.ready = Some(Ready::Whole(page));
    }

    /// Begins with an `answer` to a request for the first page that was sent earlier.
    pub(crate) fn begin_with_answer(&mut self, answer: FirstAnswer) {
        self.begin();
        self.ready = Some(Ready::First(answer));
    }

    /// Page `number`, or `None` behind the end. Also requests the pages behind it.
    ///
    /// Errors are those of the request; the next call sends the request again.
    pub async fn page(&mut self, number: usize) -> Result<Option<Arc<Page>>, FsError> {
        poll_fn(|context| self.poll_page(number, context)).await
    }

    /// Page `number` if it is there without waiting and without an error.
    pub fn page_now(&mut self, number: usize) -> Option<Arc<Page>> {
        if matches!(&self.error, Some((failed, _)) if *failed == number) {
            return None;
        }
        // A reader that needs this page polls again, with its own waker.
        match self.poll_page(number, &mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(Ok(page)) => page,
            Poll::Ready(Err(error)) => {
                self.error = Some((number, error));
                None
            }
            Poll::Pending => None,
        }
    }

    fn poll_page(
        &mut self,
        number: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Arc<Page>>, FsError>> {
        if let Some((_, error)) = self.error.take_if(|(failed, _)| *failed == number) {
            return Poll::Ready(Err(error));
        }
        if let Some(ready) = self.ready.take() {
            self.take_ready(ready);
        }
        loop {
            if let Some(page) = self.held(number) {
                self.go_ahead(number + 1, context);
                return Poll::Ready(Ok(Some(page)));
            }
            if number < self.starts.len() {
                match self.poll_again(number, context) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            if number > self.starts.len() {
                return Poll::Ready(Ok(None));
            }
            let outcome = self.pump(context);
            if let Some(part) = self.ranges.take() {
                self.hand_out(part);
                // The next turn of the loop sends the requests that now have room.
                if let Err(error) = outcome {
                    self.error = Some((self.starts.len(), error));
                }
                continue;
            }
            return match outcome {
                Err(error) => Poll::Ready(Err(error)),
                Ok(()) if self.ranges.is_finished() => Poll::Ready(Ok(None)),
                Ok(()) => Poll::Pending,
            };
        }
    }

    fn held(&self, number: usize) -> Option<Arc<Page>> {
        self.held
            .iter()
            .find(|(held, _)| *held == number)
            .map(|(_, page)| Arc::clone(page))
    }

    fn hold(&mut self, number: usize, page: Page) {
        if self.held.len() == LIST_HELD_PAGES_MAX {
            self.held.pop_front();
        }
        self.held.push_back((number, Arc::new(page)));
    }

    /// Makes the next `part` the page that the reader has reached.
    fn hand_out(&mut self, part: ReadyPage) {
        let ReadyPage {
            entries,
            extent,
            asked,
        } = part;
        let held_back = std::mem::take(&mut self.held_back);
        let merged = merge(entries, &held_back, extent.reached());
        self.held_back = merged.held_back;
        let number = self.starts.len();
        let is_last = self.ranges.is_finished();
        let place = Place {
            listing: self.number,
            number,
            is_last,
        };
        let mut page = Page::part(merged.shown, asked, place);
        page.is_saved = self.is_saved;
        self.hold(number, page);
        self.starts.push(Start { extent, held_back });
        if is_last {
            tracing::debug!(
                "{:?} was listed in {} pages, {} keys in vain",
                self.source.prefix,
                self.starts.len(),
                self.ranges.keys_wasted(),
            );
        }
    }

    /// Requests page `number`, which the reader of the page before it will need next.
    fn go_ahead(&mut self, number: usize, context: &mut Context<'_>) {
        if self.error.is_some() {
            return;
        }
        if number < self.starts.len() && self.held(number).is_none() {
            if self.again.is_none() {
                self.ask_again(number, context);
            }
        } else if let Err(error) = self.pump(context) {
            self.error = Some((self.starts.len(), error));
        }
    }

    /// Processes the answers that have arrived and sends the next requests. Returns the error of a
    /// page only if the reader waits for that page; other pages are requested again when the reader
    /// reaches them.
    fn pump(&mut self, context: &mut Context<'_>) -> Result<(), FsError> {
        let mut index = 0;
        while index < self.in_flight.len() {
            let polled = self.in_flight[index].answer.poll_unpin(context);
            let Poll::Ready(answer) = polled else {
                index += 1;
                continue;
            };
            let request = self.in_flight.swap_remove(index);
            self.take_in(request, answer)?;
            index = 0;
        }
        loop {
            self.ahead.set(self.ranges.pages_ahead());
            let Some((range, from)) = self.ranges.next_request(self.ahead.has_room()) else {
                return Ok(());
            };
            let (asked, mut answer) = self.source.ask(&from);
            // A client may send its request only when it is polled.
            let polled = answer.poll_unpin(context);
            let request = InFlight {
                range,
                from,
                asked,
                answer,
            };
            match polled {
                Poll::Ready(answer) => self.take_in(request, answer)?,
                Poll::Pending => self.in_flight.push(request),
            }
        }
    }

    fn take_in(
        &mut self,
        request: InFlight,
        answer: Result<ListOutput, ClientError>,
    ) -> Result<(), FsError> {
        self.source.take_in(&mut self.ranges, request, answer)?;
        self.in_flight
            .retain(|request| self.ranges.has(request.range));
        Ok(())
    }

    fn take_ready(&mut self, ready: Ready) {
        let answer = match ready {
            Ready::Whole(page) => {
                let Page { entries, asked, .. } = &*page;
                self.is_saved = page.is_saved;
                self.ranges = Ranges::whole(entries.clone(), *asked);
                return;
            }
            Ready::First(answer) => answer,
        };
        let Some((range, from)) = self.ranges.next_request(true) else {
            return;
        };
        let (listed, asked) = answer.into_parts();
        let request = InFlight {
            range,
            from,
            asked,
            answer: Box::pin(std::future::pending()),
        };
        // An invalid answer is ignored: the page is requested again.
        if let Err(error) = self.take_in(request, Ok(listed)) {
            tracing::debug!("listing ahead failed: {error}");
        }
    }

    fn ask_again(&mut self, number: usize, context: &mut Context<'_>) {
        let from = match &self.starts[number].extent {
            Extent::Keys { low: None, .. } => From::Start,
            Extent::Keys { low: Some(low), .. } => From::Behind(Arc::clone(low)),
            Extent::Answer(from) => from.clone(),
        };
        let (asked, answer) = self.source.ask(&from);
        let again = self.again.insert(Again {
            number,
            entries: Vec::new(),
            last: None,
            asked,
            answer,
        });
        // A client may send its request only when it is polled. `poll_once` keeps an answer that is
        // ready.
        again.answer = poll_once(&mut again.answer, context);
    }

    /// Continues the repeated request for page `number`. `Ready` once the page is held.
    fn poll_again(
        &mut self,
        number: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), FsError>> {
        if self
            .again
            .as_ref()
            .is_none_or(|again| again.number != number)
        {
            self.ask_again(number, context);
        }
        loop {
            let Some(again) = &mut self.again else {
                return Poll::Pending;
            };
            let Poll::Ready(answer) = again.answer.poll_unpin(context) else {
                return Poll::Pending;
            };
            let batch = match self.source.read(answer) {
                Ok((batch, _)) => batch,
                Err(error) => {
                    self.again = None;
                    return Poll::Ready(Err(error));
                }
            };
            let Start { extent, held_back } = &self.starts[number];
            let mut entries = batch.entries;
            let mut is_whole = true;
            if let Extent::Keys { low, high } = extent {
                entries.retain(|entry| {
                    low.as_ref().is_none_or(|low| entry.is_behind(low))
                        && high.as_ref().is_none_or(|high| !entry.is_behind(high))
                });
                // If keys were added, the next answer has the rest of this page.
                let last = batch.span.as_ref().map(|(_, last)| last);
                if batch.token.is_some() && last <= again.last.as_ref() {
                    self.again = None;
                    let what = "a listing that repeats names";
                    return Poll::Ready(Err(self.source.broken(what)));
                }
                again.last = last.cloned();
                is_whole = batch.token.is_none()
                    || high.is_some() && last.is_some_and(|last| Some(last) >= high.as_ref());
            }
            again.entries.append(&mut entries);
            if let Some(token) = batch.token.filter(|_| !is_whole) {
                if again.entries.len() > LIST_PAGE_ENTRIES_MAX / 2 {
                    self.again = None;
                    let what = "a listing that grows faster than it can be read";
                    return Poll::Ready(Err(self.source.broken(what)));
                }
                again.answer = self.source.ask(&From::Token(Arc::from(token))).1;
                continue;
            }
            let entries = std::mem::take(&mut again.entries);
            let merged = merge(entries, held_back, extent.reached());
            let asked = again.asked;
            self.again = None;
            self.hold(number, Page::some(merged.shown, asked));
            return Poll::Ready(Ok(()));
        }
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Listing({:?}, {} pages read, {} requests in flight)",
            self.source.prefix,
            self.starts.len(),
            self.in_flight.len()
        )
    }
}

/// Pages that one listing holds behind its reader. Two readers of one descriptor have two each.
const LIST_HELD_PAGES_MAX: usize = 4;
