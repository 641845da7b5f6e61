//! Division of a directory's listing into key ranges that are requested at once.
//!
//! Pure: answers go in; requests to send and pages to read come out. S3 can begin a listing behind
//! any key, so a large directory is divided into several *ranges* of its keys. Each range is listed
//! page by page, and the reader gets all pages in order. Ranges are short, because pages wait in
//! memory for the reader. [`KeyScale`] estimates where new ranges begin; keys listed in vain lower
//! the number of requests. A directory of a few pages is listed page by page. S3 cannot end a
//! listing at a key, so an answer may exceed its range: the excess serves the ranges behind that
//! have no answer yet, or is cut.
//!
//! Invariant: ranges have no gap and no overlap, so each key is in one of them.

mod key_range;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::PageCycle;

pub(crate) use self::key_range::{Extent, From, RangeId, ReadyPage};
use self::key_range::{KeyRange, Next, Reach};
use crate::config::limits::LIST_PAGE_KEYS;
use crate::namespace::listing::interpolation::KeyScale;
use crate::namespace::listing::page::{Batch, Listed};

/// The ranges of one listing that the reader has not finished, in order.
#[derive(Debug)]
pub(crate) struct Ranges {
    ranges: VecDeque<KeyRange>,
    last_id: RangeId,
    /// Whether keys arrive in order. A listing without order is one range.
    is_ordered: bool,
    may_split: bool,
    /// Pages that the reader has taken.
    taken: usize,
    /// Keys that were listed and could not be used. An empty answer counts as a full page.
    keys_wasted: usize,
    /// Upper bound of requests in flight; lowered when the server asks to slow down.
    requests_max: usize,
    /// Answers since `requests_max` changed.
    answers: usize,
    /// Detects a repeated page while there is one range. Compares first key, last key and number of
    /// keys.
    cycle: PageCycle<(Arc<str>, Arc<str>, usize)>,
}

impl Ranges {
    /// A single range that covers the whole directory.
    pub(crate) fn new(is_ordered: bool) -> Self {
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

    /// A directory that is known already: one page, and no request.
    pub(crate) fn whole(entries: Vec<Listed>, asked: Duration) -> Self {
        let mut ranges = Self::new(true);
        let extent = Extent::Keys {
            low: None,
            high: None,
        };
        for range in &mut ranges.ranges {
            range.next = Next::Done;
            range.parts.push_back(ReadyPage {
                entries: entries.clone(),
                extent: extent.clone(),
                asked,
            });
        }
        ranges
    }

    /// The next page in order, if it has arrived.
    pub(crate) fn take(&mut self) -> Option<ReadyPage> {
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

    /// Whether the reader has taken all pages.
    pub(crate) fn is_finished(&self) -> bool {
        let is_done = |range: &KeyRange| range.parts.is_empty() && matches!(range.next, Next::Done);
        self.ranges.iter().all(is_done)
    }

    /// Whether the range `id` still exists.
    pub(crate) fn has(&self, id: RangeId) -> bool {
        self.ranges.iter().any(|range| range.id == id)
    }

    /// Whether the reader waits for the next page of the range `id`.
    pub(crate) fn is_awaited(&self, id: RangeId) -> bool {
        self.ranges
            .front()
            .is_some_and(|front| front.id == id && front.parts.is_empty())
    }

    /// Number of pages that have arrived or are in flight.
    pub(super) fn pages_ahead(&self) -> usize {
        let parts: usize = self.ranges.iter().map(|range| range.parts.len()).sum();
        parts + self.in_flight()
    }

    /// Number of keys that were listed in vain.
    pub(super) fn keys_wasted(&self) -> usize {
        self.keys_wasted
    }

    /// The next request, which counts as in flight from now on. Without `may_go_ahead` only a
    /// request that the reader waits for.
    pub(super) fn next_request(&mut self, may_go_ahead: bool) -> Option<(RangeId, From)> {
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
        // A single range is not split until that saves round trips.
        if has_room && requests_max > 1 && self.may_split {
            let index = self.split()?;
            let range = &mut self.ranges[index];
            return range.ask().map(|from| (range.id, from));
        }
        None
    }

    /// Takes the answer to a request in the range `id`.
    ///
    /// The request began at `from` and was sent at `asked`.
    ///
    /// # Errors
    /// The reason why the answer is invalid.
    pub(crate) fn arrived(
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
            range.parts.push_back(ReadyPage {
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

    /// Returns the failed request of the range `id`, which began at `from`, to the range.
    pub(crate) fn failed(&mut self, id: RangeId, from: From) {
        if let Some(range) = self.ranges.iter_mut().find(|range| range.id == id) {
            range.next = Next::Ask(from);
            range.is_failed = true;
        }
    }

    /// Halves the number of requests, because the server asked to slow down. It grows again by
    /// answers.
    pub(super) fn slow_down(&mut self) {
        self.requests_max = (self.requests_max.min(self.requests_now().max(2)) / 2).max(1);
        self.answers = 0;
    }

    fn in_flight(&self) -> usize {
        let is_in_flight = |range: &&KeyRange| matches!(range.next, Next::InFlight);
        self.ranges.iter().filter(is_in_flight).count()
    }

    /// Number of requests that may be in flight: one for the first few pages, one more for each two
    /// pages taken, fewer for wasted keys.
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

    /// Stops splitting if the server returns keys out of order or in front of the requested start.
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
            // As long as there is one range, the listing can continue without order.
            self.is_ordered = self.last_id != RangeId::default();
        }
    }

    /// Whether the listing would never end: its keys do not increase, or without order a page
    /// repeats.
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

    /// Lets an answer that exceeds its range serve the ranges behind that have no answer yet.
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

    /// Keeps those entries of an answer that are in its range.
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
            range.parts.push_back(ReadyPage {
                entries,
                extent,
                asked,
            });
        }
        range.seen = high;
    }

    /// Splits the first range that is long enough and returns the index of the new range.
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

/// Pages that are listed one by one: a directory of up to three pages costs no additional request.
const PAGES_IN_SERIES: usize = 3;
/// Length of a new range. Short, since all ranges wait in memory until the reader reaches them; a
/// little below two pages, so that mostly two requests suffice.
const RANGE_PAGES: f64 = 1.9;
/// Minimum rest of a range that may be split: half of it should be worth a request.
const SPLIT_PAGES_MIN: f64 = 4.0;
/// Pages taken for each page of wasted keys: of four requests at most about one is wasted.
const WASTE_COST: usize = 2;
/// Pages held for each request in flight: two make a range, the third waits for the reader.
const AHEAD_PER_REQUEST: usize = 3;

/// LISTs in flight for one listing of a large directory.
///
/// At 50 ms a request, 16 bring 320,000 names a second, about the limit of readdirplus; S3 does not
/// throttle them.
pub(crate) const LIST_REQUESTS_MAX: usize = 16;

/// Pages of one listing ahead of its reader, or in flight: three for each request.
///
/// A page of short names takes about 0.2 MB.
pub(crate) const LIST_AHEAD_PAGES_MAX: usize = 3 * LIST_REQUESTS_MAX;

#[cfg(test)]
mod tests;
