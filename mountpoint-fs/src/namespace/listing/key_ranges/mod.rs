//! Which parts of a directory's listing to ask for next, and in which order they come.
//!
//! Pure: answers go in, requests to make and pages come out. S3 can begin a listing behind any key,
//! so a large directory is listed in several *ranges* of its keys at once. Each range is listed
//! page by page, and the reader gets all pages in order. Nothing may be far ahead of the reader, so
//! ranges are short, and new ones begin behind the last one while the first are read. Where they
//! begin is a guess ([`KeyScale`]); a wrong one costs requests, and these are counted against going
//! on so.
//!
//! A directory of a few pages is listed page by page. S3 knows no key to end at: an answer may go
//! beyond its range, and then counts for the ranges behind as far as nothing has come for them, or
//! is cut.
//!
//! Invariant: ranges follow each other without a gap and do not overlap, so each key is in one of
//! them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::PageCycle;

use crate::config::limits::{LIST_AHEAD_PAGES_MAX, LIST_PAGE_KEYS, LIST_REQUESTS_MAX};
use crate::namespace::listing::interpolation::KeyScale;
use crate::namespace::listing::page::{Batch, Listed, Reached};

/// The ranges of one listing that are not read to their end, in order.
#[derive(Debug)]
pub(in crate::namespace) struct Ranges {
    ranges: VecDeque<KeyRange>,
    last_id: RangeId,
    /// Whether keys come in order. What does not is listed page by page.
    is_ordered: bool,
    may_split: bool,
    /// Pages that the reader has taken.
    taken: usize,
    /// Keys that were listed and could not be used, those of empty answers as if they had been
    /// full.
    keys_wasted: usize,
    /// Most requests at once; less than the limit where the server says to slow down.
    requests_max: usize,
    /// Answers since that was changed.
    answers: usize,
    /// Pages as long as there is one range, each known by its first and last key and their number.
    cycle: PageCycle<(Arc<str>, Arc<str>, usize)>,
}

/// Names a range while it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::namespace) struct RangeId(u64);

/// Where a request begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::namespace) enum From {
    /// At the beginning.
    Start,
    /// Behind a key, relative to the directory.
    Behind(Arc<str>),
    /// Where the answer with this token ended.
    Token(Arc<str>),
}

/// A page that the reader has not seen.
#[derive(Debug)]
pub(in crate::namespace) struct Part {
    pub(in crate::namespace) entries: Vec<Listed>,
    pub(in crate::namespace) extent: Extent,
    pub(in crate::namespace) asked: Duration,
}

/// What a page is a page of: what to list if it is wanted again.
#[derive(Clone, Debug)]
pub(in crate::namespace) enum Extent {
    /// All keys behind `low`, up to `high`.
    Keys {
        low: Option<Arc<str>>,
        high: Option<Arc<str>>,
    },
    /// One answer of a listing without order.
    Answer(From),
}

impl Extent {
    /// What has been seen when it and all in front of it were.
    pub(in crate::namespace) fn reached(&self) -> Reached<'_> {
        match self {
            Self::Keys {
                high: Some(high), ..
            } => Reached::Key(high),
            Self::Keys { high: None, .. } | Self::Answer(_) => Reached::End,
        }
    }
}

#[derive(Debug)]
struct KeyRange {
    id: RangeId,
    /// All keys up to this have been listed, or are of another range.
    seen: Option<Arc<str>>,
    /// The last key of the answer that the next request continues, wherever it lies.
    continued: Option<Arc<str>>,
    /// Its last key; `None` for the end of the directory.
    high: Option<Arc<str>>,
    /// Whether an answer has come for it.
    is_touched: bool,
    next: Next,
    /// Whether it is asked for only when the reader needs it, because that has failed.
    is_failed: bool,
    parts: VecDeque<Part>,
    scale: Option<Arc<KeyScale>>,
}

#[derive(Debug)]
enum Next {
    Ask(From),
    InFlight,
    Done,
}

impl Ranges {
    /// One range, the whole directory.
    pub(in crate::namespace) fn new(is_ordered: bool) -> Self {
        let whole = KeyRange {
            id: RangeId::default(),
            seen: None,
            continued: None,
            high: None,
            is_touched: false,
            next: Next::Ask(From::Start),
            is_failed: false,
            parts: VecDeque::new(),
            scale: None,
        };
        Self {
            ranges: VecDeque::from([whole]),
            last_id: RangeId::default(),
            is_ordered,
            may_split: is_ordered,
            taken: 0,
            keys_wasted: 0,
            requests_max: LIST_REQUESTS_MAX,
            answers: 0,
            cycle: PageCycle::default(),
        }
    }

    /// A directory that was listed already: one page, and no request.
    pub(in crate::namespace) fn whole(entries: Vec<Listed>, asked: Duration) -> Self {
        let mut ranges = Self::new(true);
        let extent = Extent::Keys {
            low: None,
            high: None,
        };
        for range in &mut ranges.ranges {
            range.next = Next::Done;
            range.parts.push_back(Part {
                entries: entries.clone(),
                extent: extent.clone(),
                asked,
            });
        }
        ranges
    }

    /// The next page in order, if it has come.
    pub(in crate::namespace) fn take(&mut self) -> Option<Part> {
        while let Some(front) = self.ranges.front_mut() {
            if let Some(part) = front.parts.pop_front() {
                self.taken += 1;
                return Some(part);
            }
            if !matches!(front.next, Next::Done) {
                return None;
            }
            self.ranges.pop_front();
        }
        None
    }

    /// Whether all was taken.
    pub(in crate::namespace) fn is_finished(&self) -> bool {
        let is_done = |range: &KeyRange| range.parts.is_empty() && matches!(range.next, Next::Done);
        self.ranges.iter().all(is_done)
    }

    /// Whether a range is still wanted.
    pub(in crate::namespace) fn has(&self, id: RangeId) -> bool {
        self.ranges.iter().any(|range| range.id == id)
    }

    /// Whether the reader needs nothing but this range's next page.
    pub(in crate::namespace) fn is_awaited(&self, id: RangeId) -> bool {
        self.ranges
            .front()
            .is_some_and(|front| front.id == id && front.parts.is_empty())
    }

    /// Pages that have come or are in flight.
    pub(in crate::namespace) fn pages_ahead(&self) -> usize {
        let parts: usize = self.ranges.iter().map(|range| range.parts.len()).sum();
        parts + self.in_flight()
    }

    /// Keys that were listed and could not be used.
    pub(in crate::namespace) fn keys_wasted(&self) -> usize {
        self.keys_wasted
    }

    /// What to ask for now, which is then in flight. With `may_go_ahead` also what the reader does
    /// not wait for.
    pub(in crate::namespace) fn next_request(
        &mut self,
        may_go_ahead: bool,
    ) -> Option<(RangeId, From)> {
        let requests_max = self.requests_now();
        let ahead_max = if requests_max == 1 || !self.may_split {
            1
        } else {
            LIST_AHEAD_PAGES_MAX.min(requests_max * AHEAD_PER_REQUEST)
        };
        let has_room =
            may_go_ahead && self.in_flight() < requests_max && self.pages_ahead() < ahead_max;
        let front = self.ranges.front().map(|front| front.id);
        for range in &mut self.ranges {
            let is_awaited = Some(range.id) == front && range.parts.is_empty();
            if (is_awaited || has_room && !range.is_failed)
                && let Some(from) = range.ask()
            {
                return Some((range.id, from));
            }
        }
        // One range that is listed page by page needs no company until there is something to gain.
        if has_room && requests_max > 1 && self.may_split {
            let index = self.split()?;
            let range = &mut self.ranges[index];
            return range.ask().map(|from| (range.id, from));
        }
        None
    }

    /// The answer to what was asked for `from` in a range, at `asked`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(in crate::namespace) fn arrived(
        &mut self,
        id: RangeId,
        from: From,
        mut batch: Batch,
        asked: Duration,
    ) -> Result<(), &'static str> {
        let Some(index) = self.ranges.iter().position(|range| range.id == id) else {
            return Ok(());
        };
        let token = batch.token.take().map(Arc::from);
        if let (From::Token(before), Some(token)) = (&from, &token)
            && before == token
        {
            return Err("a page that continues with itself");
        }
        self.answers += 1;
        if self.answers > 2 * self.requests_max {
            self.requests_max = (self.requests_max + 1).min(LIST_REQUESTS_MAX);
            self.answers = 0;
        }
        if self.may_split && token.is_some() {
            self.learn(index, &batch);
        }
        self.check_order(index, &from, &batch);
        if token.is_some() && self.goes_round(index, &from, &batch) {
            return Err("a listing that repeats names");
        }
        let range = &mut self.ranges[index];
        if let Some((_, last)) = &batch.span {
            range.continued = Some(Arc::clone(last));
        }
        range.is_touched = true;
        range.is_failed = false;
        if !self.is_ordered {
            range.next = token.map_or(Next::Done, |token| Next::Ask(From::Token(token)));
            range.parts.push_back(Part {
                entries: batch.entries,
                extent: Extent::Answer(from),
                asked,
            });
            return Ok(());
        }
        let reach = match (&token, &batch.span) {
            (None, _) => Reach::End,
            (Some(_), Some((_, last))) => Reach::Key(Arc::clone(last)),
            (Some(_), None) => Reach::Nowhere,
        };
        self.absorb(index, &reach, token.as_ref());
        self.keep(index, batch, asked, &reach, token);
        Ok(())
    }

    /// What was asked for `from` in a range has failed.
    pub(in crate::namespace) fn failed(&mut self, id: RangeId, from: From) {
        if let Some(range) = self.ranges.iter_mut().find(|range| range.id == id) {
            range.next = Next::Ask(from);
            range.is_failed = true;
        }
    }

    /// The server says to slow down: half as many requests, and slowly more again.
    pub(in crate::namespace) fn slow_down(&mut self) {
        self.requests_max = (self.requests_max.min(self.requests_now().max(2)) / 2).max(1);
        self.answers = 0;
    }

    fn in_flight(&self) -> usize {
        let is_in_flight = |range: &&KeyRange| matches!(range.next, Next::InFlight);
        self.ranges.iter().filter(is_in_flight).count()
    }

    /// Requests that may be in flight: one for a few pages, then one more for each two that were
    /// taken, and fewer for what was wasted.
    fn requests_now(&self) -> usize {
        let earned = self.taken.saturating_sub(PAGES_IN_SERIES - 1).div_ceil(2);
        let lost = WASTE_COST * self.keys_wasted / usize::from(LIST_PAGE_KEYS);
        (1 + earned.saturating_sub(lost)).min(self.requests_max)
    }

    fn learn(&mut self, index: usize, batch: &Batch) {
        let names = batch.entries.iter().map(|entry| &*entry.name);
        if let Some(scale) = KeyScale::learn(names) {
            self.ranges[index].scale = Some(Arc::new(scale));
        }
    }

    /// Servers that do not sort, or do not begin where they are told to, are listed page by page.
    fn check_order(&mut self, index: usize, from: &From, batch: &Batch) {
        let bound = match from {
            From::Start => return,
            From::Behind(key) => Some(key),
            From::Token(_) => self.ranges[index].seen.as_ref(),
        };
        let Some((bound, (first, _))) = bound.zip(batch.span.as_ref()) else {
            return;
        };
        if first < bound && self.is_ordered {
            tracing::debug!("a listing out of order: {first:?} behind {bound:?}");
            self.may_split = false;
            // While nothing was split, nothing is lost by it.
            self.is_ordered = self.last_id != RangeId::default();
        }
    }

    /// Whether a listing that goes on will never end: its keys do not increase, or without an order
    /// a page comes again.
    fn goes_round(&mut self, index: usize, from: &From, batch: &Batch) -> bool {
        let Some((first, last)) = &batch.span else {
            return false;
        };
        // As long as there is one range, its pages are those of the listing.
        let page = (Arc::clone(first), Arc::clone(last), batch.keys);
        if self.last_id == RangeId::default() && self.cycle.repeats(&page) {
            return true;
        }
        let before = self.ranges[index].continued.as_ref();
        self.is_ordered
            && matches!(from, From::Token(_))
            && before.is_some_and(|before| last <= before)
    }

    /// Lets an answer that reaches further than its range count for the ranges behind it.
    fn absorb(&mut self, index: usize, reach: &Reach, token: Option<&Arc<str>>) {
        while let Some(behind) = self.ranges.get_mut(index + 1) {
            let starts_in_reach = match reach {
                Reach::End => true,
                Reach::Key(key) => behind.seen.as_ref().is_some_and(|low| low < key),
                Reach::Nowhere => false,
            };
            if behind.is_touched || !starts_in_reach {
                return;
            }
            match (reach, &behind.high) {
                (Reach::Key(key), high) if high.as_ref().is_none_or(|high| key < high) => {
                    behind.seen = Some(Arc::clone(key));
                    behind.continued = Some(Arc::clone(key));
                    if let (Next::Ask(from), Some(token)) = (&mut behind.next, token) {
                        *from = From::Token(Arc::clone(token));
                    }
                    self.ranges[index].high = Some(Arc::clone(key));
                    return;
                }
                _ => {
                    if matches!(behind.next, Next::InFlight) {
                        self.keys_wasted += usize::from(LIST_PAGE_KEYS);
                    }
                    let high = behind.high.take();
                    self.ranges.remove(index + 1);
                    self.ranges[index].high = high;
                }
            }
        }
    }

    /// Takes in what of an answer is in the range.
    fn keep(
        &mut self,
        index: usize,
        batch: Batch,
        asked: Duration,
        reach: &Reach,
        token: Option<Arc<str>>,
    ) {
        let range = &mut self.ranges[index];
        let mut entries = batch.entries;
        let listed = entries.len();
        let low = range.seen.clone();
        entries.retain(|entry| {
            low.as_ref().is_none_or(|low| entry.is_behind(low))
                && range
                    .high
                    .as_ref()
                    .is_none_or(|high| !entry.is_behind(high))
        });
        self.keys_wasted += listed - entries.len();
        if batch.keys == 0 && range.high.is_some() && index > 0 {
            self.keys_wasted += usize::from(LIST_PAGE_KEYS);
        }
        let is_done = match (reach, &range.high) {
            (Reach::End, _) => true,
            (Reach::Key(key), Some(high)) => key >= high,
            (Reach::Key(_), None) | (Reach::Nowhere, _) => false,
        };
        let high = match (is_done, reach) {
            (true, _) => range.high.clone(),
            (false, Reach::Key(key)) => low.clone().max(Some(Arc::clone(key))),
            (false, _) => low.clone(),
        };
        range.next = match token {
            Some(token) if !is_done => Next::Ask(From::Token(token)),
            _ => Next::Done,
        };
        let is_last = is_done && high.is_none();
        if !entries.is_empty() || is_last {
            let extent = Extent::Keys {
                low,
                high: high.clone(),
            };
            range.parts.push_back(Part {
                entries,
                extent,
                asked,
            });
        }
        range.seen = high;
    }

    /// Cuts the first range that is worth it in two and returns the second one's index.
    fn split(&mut self) -> Option<usize> {
        let mut nearest = None;
        for (index, range) in self.ranges.iter().enumerate() {
            nearest = range.scale.as_ref().or(nearest);
            let (Some(scale), Some(seen)) = (nearest, &range.seen) else {
                continue;
            };
            let is_long = range
                .high
                .as_ref()
                .is_none_or(|high| scale.pages_between(seen, high) >= SPLIT_PAGES_MIN);
            if matches!(range.next, Next::Done) || !is_long {
                continue;
            }
            let at = scale.behind(seen, RANGE_PAGES);
            let at = at.filter(|at| range.high.as_ref().is_none_or(|high| at < high));
            let Some(at) = at else { continue };
            let scale = Arc::clone(scale);
            self.last_id.0 += 1;
            let range = &mut self.ranges[index];
            let high = range.high.replace(Arc::clone(&at));
            let second = KeyRange {
                id: self.last_id,
                seen: Some(Arc::clone(&at)),
                continued: None,
                high,
                is_touched: false,
                next: Next::Ask(From::Behind(at)),
                is_failed: false,
                parts: VecDeque::new(),
                scale: Some(scale),
            };
            self.ranges.insert(index + 1, second);
            return Some(index + 1);
        }
        None
    }
}

/// How far an answer goes: all keys up to there are in it.
#[derive(Debug)]
enum Reach {
    Key(Arc<str>),
    End,
    /// An empty answer that is not the last.
    Nowhere,
}

impl KeyRange {
    fn ask(&mut self) -> Option<From> {
        if !matches!(self.next, Next::Ask(_)) {
            return None;
        }
        match std::mem::replace(&mut self.next, Next::InFlight) {
            Next::Ask(from) => Some(from),
            Next::InFlight | Next::Done => None,
        }
    }
}

/// Pages that are read before a directory counts as large: one of up to three pages costs no
/// request more.
const PAGES_IN_SERIES: usize = 3;
/// Pages of a range: few, since ranges are read one after the other and all are held in memory
/// until then; and not quite two, so that two requests mostly suffice.
const RANGE_PAGES: f64 = 1.9;
/// What is left of a range that is split: half of it should be worth a request.
const SPLIT_PAGES_MIN: f64 = 4.0;
/// Pages that one page of wasted keys costs: of four requests at most about one is for nothing.
const WASTE_COST: usize = 2;
/// Pages that may be held for each request that may be in flight: two are a range, the third one
/// waits for the reader.
const AHEAD_PER_REQUEST: usize = 3;

#[cfg(test)]
mod tests;
