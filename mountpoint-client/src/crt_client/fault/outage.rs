//! The log of requests that are sent again and again: one line when an outage has lasted for a
//! while, one when an answer comes.
//!
//! [`Outage`] is pure: values in, values out. [`Watch`] adds the lock. A request that fails holds a
//! [`Troubled`], so that one that is given up or dropped does not keep the outage open.
//!
//! Invariant: at most one line of either kind in [`LINE_GAP`], however many requests fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// The requests that get no good answer.
#[derive(Debug, Default)]
pub(in crate::crt_client) struct Outage {
    /// The time of the first failure, on the caller's clock.
    since: Option<Duration>,
    /// Requests that have failed for [`NOTICED_AFTER`] and are still sent.
    troubled: usize,
    told_at: Option<Duration>,
    /// Whether the log's last word is that there is an outage.
    is_told: bool,
}

/// The figures of a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::crt_client) struct News {
    /// The outage's length so far.
    pub(in crate::crt_client) lasts: Duration,
    /// Requests that wait for the end of the outage.
    pub(in crate::crt_client) requests: usize,
}

impl Outage {
    /// One more request has failed for [`NOTICED_AFTER`].
    fn entered(&mut self) {
        self.troubled += 1;
    }

    /// A request failed once more; its first failure was at `since`. The news, if a line is due.
    fn failed(&mut self, since: Duration, now: Duration) -> Option<News> {
        let since = *self.since.get_or_insert(since);
        let rests = self.told_at.is_some_and(|told| now < told + LINE_GAP);
        if rests {
            return None;
        }
        self.told_at = Some(now);
        self.is_told = true;
        Some(self.news(since, now))
    }

    /// A request has its answer, was given up or is no longer wanted.
    fn left(&mut self) {
        self.troubled -= 1;
        if self.troubled == 0 && !self.is_told {
            self.since = None;
        }
    }

    /// Notes an answer. Returns the news, if it ends a reported outage: while others fail still, a
    /// request that did not fail says nothing of them.
    fn answered(&mut self, was_troubled: bool, now: Duration) -> Option<News> {
        let is_end = self.is_told && (was_troubled || self.troubled == 0);
        if !is_end {
            return None;
        }
        self.is_told = false;
        let since = self.since.take()?;
        Some(self.news(since, now))
    }

    fn news(&self, since: Duration, now: Duration) -> News {
        News {
            lasts: now.saturating_sub(since),
            requests: self.troubled,
        }
    }
}

/// The outage of one client.
#[derive(Debug, Default)]
pub(in crate::crt_client) struct Watch {
    /// Copy of the outage's word, read with each answer without the lock.
    is_told: AtomicBool,
    /// Held for a few instructions; no other lock is taken under it.
    outage: Mutex<Outage>,
}

impl Watch {
    /// Passes an answer on to [`Outage::answered`], and gives back what the request held.
    pub(in crate::crt_client) fn answered(
        &self,
        troubled: Option<Troubled>,
        now: impl FnOnce() -> Duration,
    ) -> Option<News> {
        let was_troubled = troubled.is_some();
        drop(troubled);
        if !self.is_told.load(Ordering::Relaxed) {
            return None;
        }
        let mut outage = self.outage.lock();
        let news = outage.answered(was_troubled, now());
        self.is_told.store(outage.is_told, Ordering::Relaxed);
        news
    }
}

/// A request that has failed for [`NOTICED_AFTER`], as long as it is sent again.
#[derive(Debug)]
pub(in crate::crt_client) struct Troubled(Arc<Watch>);

impl Troubled {
    pub(in crate::crt_client) fn new(watch: &Arc<Watch>) -> Self {
        watch.outage.lock().entered();
        Self(Arc::clone(watch))
    }

    /// Passes a failure on to [`Outage::failed`].
    pub(in crate::crt_client) fn failed(&self, since: Duration, now: Duration) -> Option<News> {
        let mut outage = self.0.outage.lock();
        let news = outage.failed(since, now);
        self.0.is_told.store(outage.is_told, Ordering::Relaxed);
        news
    }
}

impl Drop for Troubled {
    fn drop(&mut self) {
        self.0.outage.lock().left();
    }
}

/// Failures for so long are more than a connection that broke or a server that was busy for a
/// moment: an application that waits for the file has noticed by now.
pub(in crate::crt_client) const NOTICED_AFTER: Duration = Duration::from_secs(2);
/// A request with little to do has its answer within a second or so; one that has none yet is as
/// good as failed.
pub(in crate::crt_client) const UNANSWERED_MAX: Duration = Duration::from_secs(10);
/// An outage of a night is some hundred lines.
pub(in crate::crt_client) const LINE_GAP: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The outage of requests that are sent at 0 s, told at 2 s.
    fn told(requests: usize) -> Outage {
        let mut outage = Outage::default();
        for _ in 0..requests {
            outage.entered();
        }
        let news = News {
            lasts: 2 * SECOND,
            requests,
        };
        assert_eq!(outage.failed(Duration::ZERO, 2 * SECOND), Some(news));
        outage
    }

    #[test]
    fn many_failures_are_one_line_in_each_gap() {
        let mut outage = told(100);
        let lines: Vec<_> = (2..=600)
            .flat_map(|second| {
                let fails = |_| outage.failed(SECOND, second * SECOND);
                (0..100).filter_map(fails).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(lines.len(), 9);
        assert_eq!(lines[8].lasts, 542 * SECOND, "since its beginning");
    }

    #[test]
    fn its_end_is_told_once() {
        let mut outage = told(2);
        outage.left();
        let news = News {
            lasts: 5 * SECOND,
            requests: 1,
        };
        assert_eq!(outage.answered(true, 5 * SECOND), Some(news));
        outage.left();
        assert_eq!(outage.answered(true, 6 * SECOND), None);
        assert_eq!(outage.answered(false, 6 * SECOND), None);
    }

    #[test]
    fn it_lasts_beyond_the_requests_that_were_given_up() {
        let mut outage = told(1);
        outage.left();
        let news = News {
            lasts: 3600 * SECOND,
            requests: 0,
        };
        assert_eq!(outage.answered(false, 3600 * SECOND), Some(news));
    }

    #[test]
    fn who_never_failed_does_not_end_it_for_those_who_fail_still() {
        let mut outage = told(1);
        assert_eq!(outage.answered(false, 3 * SECOND), None);
        outage.left();
        assert!(outage.answered(true, 4 * SECOND).is_some());
    }

    #[test]
    fn one_that_comes_and_goes_is_told_once_in_each_gap() {
        let mut outage = told(1);
        outage.left();
        assert!(outage.answered(true, 3 * SECOND).is_some());
        outage.entered();
        assert_eq!(outage.failed(4 * SECOND, 6 * SECOND), None);
        outage.left();
        assert_eq!(outage.answered(true, 7 * SECOND), None, "was not told");
        outage.entered();
        let news = News {
            lasts: 2 * SECOND,
            requests: 1,
        };
        assert_eq!(outage.failed(60 * SECOND, 62 * SECOND), Some(news));
    }

    #[test]
    fn requests_that_are_dropped_are_not_waited_for() {
        let watch = Arc::default();
        let (first, second) = (Troubled::new(&watch), Troubled::new(&watch));
        assert!(first.failed(Duration::ZERO, 2 * SECOND).is_some());
        assert_eq!(watch.answered(None, || 3 * SECOND), None);
        drop(first);
        drop(second);
        assert!(watch.answered(None, || 4 * SECOND).is_some());
        assert_eq!(watch.answered(None, || 5 * SECOND), None);
    }
}
