//! One directory's names, page by page.
//!
//! Knows nothing of inodes, of offsets in the kernel's sense or of replies: it has numbered pages.
//! What comes behind the page that is read is asked for ahead, one page of a small directory,
//! several [`Ranges`] of a large one, so a directory is listed at the pace of its reader or of S3,
//! whichever is slower. Memory is bounded by the pages ahead, a few behind, and for each page that
//! was seen what it takes to ask for it again (a key and a token, about 0.2 bytes for each name),
//! so a reader may go back to any page.
//!
//! Invariant: page `k` always is the same range of keys, whenever it is asked for. What changes in
//! the bucket meanwhile may be seen or missed, as POSIX allows; what does not change is seen
//! exactly once. Without an order of keys (directory buckets), page `k` is always asked for with
//! the same token.
//!
//! Not shared: an open directory's lock is around it. A future of it may be dropped at any await:
//! the requests stay in flight and the next call waits for the same.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::task::noop_waker_ref;
use mountpoint_client::types::{ListOutput, ListRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient, Pending};

use super::first_answer::FirstAnswer;
use super::key_ranges::{Extent, From, Part, RangeId, Ranges};
use super::page::{Batch, Listed, ListingNo, Page, Place, merge};
use super::unrepresentable::HiddenKeys;
use crate::clock::Clock;
use crate::config::limits::{
    LIST_AHEAD_MOUNT_MAX, LIST_HELD_PAGES_MAX, LIST_PAGE_ENTRIES_MAX, LIST_PAGE_KEYS,
};
use crate::operation::FsError;

/// Enumerates a directory.
pub struct Listing {
    source: Source,
    /// Tells its pages from those of others.
    number: ListingNo,
    /// What has not been read yet.
    ranges: Ranges,
    in_flight: Vec<InFlight>,
    /// How to ask again for each page that was read.
    starts: Vec<Start>,
    /// Files of the last page that was read that the next one may shadow; see [`merge`].
    held_back: Vec<Listed>,
    /// Whether it is known what was listed before.
    has_begun: bool,
    /// What was listed before, until the first page is asked for.
    ready: Option<Ready>,
    /// Pages that were read last.
    held: VecDeque<(usize, Arc<Page>)>,
    /// An old page that is asked for once more.
    again: Option<Again>,
    /// What asking for a page ended with while nobody waited for it.
    error: Option<(usize, FsError)>,
    ahead: AheadShare,
}

/// Whom to ask for what.
struct Source {
    client: Arc<dyn ObjectClient>,
    clock: Clock,
    prefix: Arc<str>,
    hidden: Arc<HiddenKeys>,
}

#[derive(Debug)]
struct Start {
    extent: Extent,
    /// Files of earlier pages that this one may shadow.
    held_back: Vec<Listed>,
}

/// What was listed before the directory was opened.
enum Ready {
    Whole(Arc<Page>),
    First(FirstAnswer),
}

/// A request for the next page of a range.
struct InFlight {
    range: RangeId,
    from: From,
    asked: Duration,
    answer: Pending<ListOutput>,
}

/// A page that was read before.
struct Again {
    number: usize,
    entries: Vec<Listed>,
    /// The last key of the answers so far.
    last: Option<Arc<str>>,
    asked: Duration,
    answer: Pending<ListOutput>,
}

impl Listing {
    /// A listing of the keys that begin with `prefix`. Sends no request yet.
    #[must_use]
    pub(in crate::namespace) fn new(
        client: Arc<dyn ObjectClient>,
        clock: Clock,
        prefix: String,
        ahead: &AheadBudget,
        hidden: &Arc<HiddenKeys>,
    ) -> Self {
        Self {
            ranges: Ranges::new(client.lists_in_order()),
            source: Source {
                client,
                clock,
                prefix: Arc::from(prefix),
                hidden: Arc::clone(hidden),
            },
            number: ListingNo::next(),
            in_flight: Vec::new(),
            starts: Vec::new(),
            held_back: Vec::new(),
            has_begun: false,
            ready: None,
            held: VecDeque::new(),
            again: None,
            error: None,
            ahead: ahead.share(),
        }
    }

    /// Starts over: pages read from now on show the bucket as it is now. A first page that nobody
    /// has seen yet stays in flight.
    pub fn rewind(&mut self) {
        if !self.starts.is_empty() {
            self.number = ListingNo::next();
            self.ranges = Ranges::new(self.source.client.lists_in_order());
            self.in_flight.clear();
            self.starts.clear();
            self.held_back.clear();
            self.held.clear();
            self.again = None;
            self.error = None;
            self.ahead.set(0);
        }
    }

    /// What all keys begin with that it lists: the directory's prefix when it was opened.
    #[must_use]
    pub fn prefix(&self) -> &Arc<str> {
        &self.source.prefix
    }

    /// Directories that are there whether S3 lists them or not. To be told before the first page is
    /// read.
    pub fn set_kept(&mut self, names: Vec<Arc<str>>) {
        if self.starts.is_empty() {
            self.held_back = names.into_iter().map(Listed::kept).collect();
        }
    }

    /// Whether a reader has begun with it.
    pub(in crate::namespace) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// A reader begins with it.
    pub(in crate::namespace) fn begin(&mut self) {
        self.has_begun = true;
    }

    /// The whole directory was listed before it was opened: that is the first page, and all. A
    /// reader that starts over sees the bucket as it is then.
    pub(in crate::namespace) fn begin_with(&mut self, page: Arc<Page>) {
        self.begin();
        self.ready = Some(Ready::Whole(page));
    }

    /// The first page was asked for before the directory was opened.
    pub(in crate::namespace) fn begin_with_answer(&mut self, answer: FirstAnswer) {
        self.begin();
        self.ready = Some(Ready::First(answer));
    }

    /// Page `number`, or `None` behind the end. Asks for what comes behind it.
    ///
    /// Errors are those of the request; the next call asks again.
    pub async fn page(&mut self, number: usize) -> Result<Option<Arc<Page>>, FsError> {
        poll_fn(|context| self.poll_page(number, context)).await
    }

    /// Page `number` if it is there without waiting and without an error.
    pub fn page_now(&mut self, number: usize) -> Option<Arc<Page>> {
        if matches!(&self.error, Some((failed, _)) if *failed == number) {
            return None;
        }
        // Whoever needs the page polls again, with a waker of its own.
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
                // What this made room for is asked for by the next turn.
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

    /// The reader comes to a page for the first time.
    fn hand_out(&mut self, part: Part) {
        let Part {
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
        self.hold(number, Page::part(merged.shown, asked, place));
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

    /// Asks for what a reader of the page in front of `number` will need.
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

    /// Takes in answers that have come and sends what is to be asked next. The error is that of the
    /// page the reader comes to next; others are asked for again when the reader gets there.
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
            // A client may begin with the first poll.
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
        let InFlight {
            range, from, asked, ..
        } = request;
        let is_awaited = self.ranges.is_awaited(range);
        let outcome = self.source.read(answer).and_then(|(batch, slow_downs)| {
            if slow_downs > 0 {
                self.ranges.slow_down();
            }
            let arrived = self.ranges.arrived(range, from.clone(), batch, asked);
            arrived.map_err(|what| self.source.broken(what))
        });
        if let Err(error) = outcome {
            self.ranges.slow_down();
            self.ranges.failed(range, from);
            if is_awaited {
                return Err(error);
            }
            tracing::debug!("listing ahead failed: {error}");
        }
        self.in_flight
            .retain(|request| self.ranges.has(request.range));
        Ok(())
    }

    fn take_ready(&mut self, ready: Ready) {
        let answer = match ready {
            Ready::Whole(page) => {
                let Page { entries, asked, .. } = &*page;
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
        // An answer that makes no sense is asked for again.
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
        // A client may begin with the first poll; an answer that has come is polled for again.
        again.answer = poll_once(&mut again.answer, context);
    }

    /// Moves on with asking for page `number` again; `Ready` when it is held.
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
                // Keys may have been added: the rest of the page is in the next answer.
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

impl Source {
    /// Sends a request.
    fn ask(&self, from: &From) -> (Duration, Pending<ListOutput>) {
        let (mut start_after, mut continuation_token) = (None, None);
        match from {
            From::Start => {}
            From::Behind(key) => start_after = Some(format!("{}{key}", self.prefix)),
            From::Token(token) => continuation_token = Some(String::from(&**token)),
        }
        let asked = self.clock.now();
        let answer = self.client.list(ListRequest {
            prefix: self.prefix.to_string(),
            delimiter: Some("/".to_owned()),
            start_after,
            continuation_token,
            max_keys: Some(LIST_PAGE_KEYS),
        });
        (asked, answer)
    }

    /// What an answer says, and how often the server wanted it slower.
    fn read(&self, answer: Result<ListOutput, ClientError>) -> Result<(Batch, u32), FsError> {
        let listed = answer?;
        if listed.objects.len() + listed.common_prefixes.len() > LIST_PAGE_ENTRIES_MAX / 2 {
            return Err(self.broken("more entries in a page than anybody asked for"));
        }
        self.hidden.note(&self.prefix, &listed);
        let slow_downs = listed.slow_downs;
        Ok((Batch::of(&self.prefix, listed), slow_downs))
    }

    fn broken(&self, what: &str) -> FsError {
        let message = format!("listing of {:?}: the server sent {what}", self.prefix);
        FsError::Client(ClientError::new(ErrorKind::InvalidResponse, message))
    }
}

/// Polls a request; whoever polls it next gets the answer that this may have brought.
fn poll_once(answer: &mut Pending<ListOutput>, context: &mut Context<'_>) -> Pending<ListOutput> {
    match answer.poll_unpin(context) {
        Poll::Ready(arrived) => Box::pin(std::future::ready(arrived)),
        Poll::Pending => std::mem::replace(answer, Box::pin(std::future::pending())),
    }
}

/// Pages that all listings of a mount hold ahead of their readers.
#[derive(Clone, Debug, Default)]
pub struct AheadBudget(Arc<AtomicUsize>);

/// One listing's part of an [`AheadBudget`].
#[derive(Debug)]
struct AheadShare {
    mount: AheadBudget,
    pages: usize,
}

impl AheadBudget {
    fn share(&self) -> AheadShare {
        AheadShare {
            mount: self.clone(),
            pages: 0,
        }
    }

    /// Pages that are held ahead or in flight now.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl AheadShare {
    fn set(&mut self, pages: usize) {
        self.mount.0.fetch_add(pages, Ordering::Relaxed);
        self.mount.0.fetch_sub(self.pages, Ordering::Relaxed);
        self.pages = pages;
    }

    /// Whether one more page may be asked for that no reader waits for.
    fn has_room(&self) -> bool {
        self.mount.pages() < LIST_AHEAD_MOUNT_MAX
    }
}

impl Drop for AheadShare {
    fn drop(&mut self) {
        self.set(0);
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
