//! How many parts of uploads are worth sending at the same time.
//!
//! Pure: knows neither parts nor clocks. A store that is near, or a network that is full, takes no
//! more bytes for more parts at once; they would only wait, in memory that is touched for the first
//! time. A store that is far takes as many times the bytes. So the limit begins with
//! [`PACE_START`], or [`PACE_START_FAR`] where the store is far, and is moved by trial: a larger
//! one is kept when it brings clearly more bytes a second, a smaller one when it brings as many.
//!
//! Invariant: `1 <= limit <= max`. Only stretches of time in which writers waited for room are
//! compared, and what time there was nothing to send is left out.

use std::time::Duration;

use crate::config::limits::{
    PACE_FAR, PACE_GAIN, PACE_LOSS, PACE_MIN, PACE_REST_MAX, PACE_REST_MIN, PACE_START,
    PACE_START_FAR, PACE_STRETCH_MIN, PACE_WAVES,
};

/// The limit, and what is known of it.
#[derive(Debug)]
pub(in crate::write) struct UploadConcurrency {
    max: usize,
    limit: usize,
    stretch: Stretch,
    /// Parts that were on their way when the limit was changed: they say nothing of the new one.
    settling: usize,
    /// When the last part ended, if none is on its way.
    idle_since: Option<Duration>,
    step: Step,
    /// Stretches between a trial that changed nothing and the next.
    rest: u32,
    /// Which way the next trial goes.
    is_next_up: bool,
    /// The least time in which an upload began until the first trial.
    begun_in: Option<Duration>,
    /// The limit is what trials made it.
    has_tried: bool,
}

/// Parts that ended under one limit.
#[derive(Debug, Default)]
struct Stretch {
    since: Option<Duration>,
    parts: usize,
    bytes: u64,
    waits: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many stretches until the next trial.
    Rest(u32),
    /// Another limit than `from`, which brought `rate` bytes a second, is tried.
    Trial { from: usize, rate: f64 },
}

impl UploadConcurrency {
    /// For a client that sends at most `max` at the same time.
    pub(in crate::write) fn new(max: usize) -> Self {
        let max = max.max(1);
        Self {
            max,
            limit: PACE_START.min(max),
            stretch: Stretch::default(),
            settling: 0,
            idle_since: None,
            // The first parts are slower: their memory is new. And a trial of more touches more.
            step: Step::Rest(PACE_REST_MIN),
            rest: PACE_REST_MIN,
            is_next_up: true,
            begun_in: None,
            has_tried: false,
        }
    }

    /// Parts that may be on their way.
    pub(in crate::write) fn limit(&self) -> usize {
        self.limit
    }

    /// The store took `time` to begin an upload. Matters until the first trial; the least of
    /// several says how far it is, the others how busy this machine was.
    pub(in crate::write) fn upload_begun(&mut self, time: Duration) {
        if self.has_tried {
            return;
        }
        let was_far = self.is_far();
        self.begun_in = Some(self.begun_in.map_or(time, |least| least.min(time)));
        if self.is_far() == was_far {
            return;
        }
        let (start, rest) = if self.is_far() {
            (PACE_START_FAR, 1)
        } else {
            (PACE_START, PACE_REST_MIN)
        };
        self.limit = start.min(self.max);
        self.step = Step::Rest(rest);
    }

    /// No upload began soon: larger steps, and sooner.
    fn is_far(&self) -> bool {
        self.begun_in.is_some_and(|least| least >= PACE_FAR)
    }

    /// A writer waits for room.
    pub(in crate::write) fn waited(&mut self) {
        self.stretch.waits += 1;
    }

    /// A part is on its way from `now` on.
    pub(in crate::write) fn entered(&mut self, now: Duration) {
        if let (Some(idle), Some(since)) = (self.idle_since.take(), &mut self.stretch.since) {
            *since += now.saturating_sub(idle);
        }
    }

    /// A part of `bytes` has ended at `now`; so many are on their way yet.
    pub(in crate::write) fn ended(&mut self, bytes: u64, in_flight: usize, now: Duration) {
        self.idle_since = (in_flight == 0).then_some(now);
        if self.settling > 0 {
            self.settling -= 1;
            self.stretch = Stretch {
                since: Some(now),
                ..Stretch::default()
            };
            return;
        }
        let Some(since) = self.stretch.since else {
            self.stretch.since = Some(now);
            return;
        };
        self.stretch.parts += 1;
        self.stretch.bytes += bytes;
        // Parts of a far store end in waves: whole ones are measured.
        let lasted = now.saturating_sub(since);
        let least = if self.is_far() {
            Duration::ZERO
        } else {
            PACE_STRETCH_MIN
        };
        if self.stretch.parts < PACE_WAVES * self.limit || lasted <= least {
            return;
        }
        let stretch = std::mem::take(&mut self.stretch);
        self.stretch.since = Some(now);
        // If nobody did, the application is what was slow.
        if stretch.waits > 0 {
            self.learn(stretch.bytes as f64 / lasted.as_secs_f64());
        }
    }

    fn learn(&mut self, rate: f64) {
        match self.step {
            Step::Rest(0) => self.try_another(rate),
            Step::Rest(left) => self.step = Step::Rest(left - 1),
            Step::Trial { from, rate: before } => {
                let is_up = self.limit > from;
                let share = if is_up { PACE_GAIN } else { PACE_LOSS };
                if rate >= before * share {
                    self.rest = PACE_REST_MIN;
                    self.is_next_up = is_up;
                    self.try_another(rate);
                } else {
                    self.settling = self.limit;
                    self.limit = from;
                    self.step = Step::Rest(self.rest);
                    self.rest = (self.rest * 2).min(PACE_REST_MAX);
                    self.is_next_up = !is_up;
                }
            }
        }
    }

    /// Tries another limit than the one that brought `rate`.
    fn try_another(&mut self, rate: f64) {
        let from = self.limit;
        let up = if self.is_far() {
            from * 2
        } else {
            from * 3 / 2
        };
        let up = up.min(self.max);
        let down = (from * 3 / 4).max(PACE_MIN.min(self.max));
        self.has_tried = true;
        self.limit = if self.is_next_up && up > from || down == from {
            up
        } else {
            down
        };
        self.step = if self.limit == from {
            Step::Rest(self.rest)
        } else {
            self.settling = from;
            Step::Trial { from, rate }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    /// Sends `parts` of 8 MiB as fast as `concurrency` allows to a store that takes `alone` seconds
    /// for one, and all of them together at most one in `apart` seconds. Returns how long that
    /// took, and the limits on the way.
    fn send(
        concurrency: &mut UploadConcurrency,
        parts: usize,
        alone: f64,
        apart: f64,
    ) -> (f64, Vec<usize>) {
        let (mut now, mut free_at, mut limits) = (0.0_f64, 0.0_f64, Vec::new());
        let mut in_flight = BinaryHeap::new();
        for _ in 0..parts {
            while in_flight.len() >= concurrency.limit() {
                concurrency.waited();
                let Reverse(end): Reverse<Duration> = in_flight.pop().unwrap();
                now = now.max(end.as_secs_f64());
                concurrency.ended(8 << 20, in_flight.len(), end);
                limits.push(concurrency.limit());
            }
            free_at = free_at.max(now) + apart;
            // Filling a part takes time as well.
            now += 0.001;
            concurrency.entered(Duration::from_secs_f64(now));
            in_flight.push(Reverse(Duration::from_secs_f64(free_at.max(now + alone))));
        }
        (now, limits)
    }

    #[test]
    fn a_far_store_gets_all_that_it_takes_soon() {
        // 0.1 s for a part, however many there are.
        let mut concurrency = UploadConcurrency::new(50);
        concurrency.upload_begun(Duration::from_millis(20));
        let (time, limits) = send(&mut concurrency, 2000, 0.1, 0.0);
        let full = limits.iter().position(|limit| *limit == 50).unwrap();
        assert!(full < 240, "{full}");
        // With 50 at once from the beginning it would be 4 s.
        assert!(time < 5.4, "{time}");
    }

    #[test]
    fn a_near_store_or_a_full_network_gets_what_it_takes() {
        // 10 ms for a part, and no more than one in that time.
        let mut concurrency = UploadConcurrency::new(200);
        let (time, limits) = send(&mut concurrency, 1000, 0.01, 0.01);
        assert!(time < 10.1, "{time}");
        let mean = limits.iter().sum::<usize>() / limits.len();
        assert!((PACE_MIN..=2 * PACE_START).contains(&mean), "{mean}");
        // One in 2.5 ms, of which each takes 0.1 s: 40 fill it.
        let mut concurrency = UploadConcurrency::new(200);
        concurrency.upload_begun(Duration::from_millis(20));
        let (time, limits) = send(&mut concurrency, 4000, 0.1, 0.0025);
        assert!(time < 10.9, "{time}");
        let later = &limits[2000..];
        let mean = later.iter().sum::<usize>() / later.len();
        assert!((36..=64).contains(&mean), "{mean}");
    }

    #[test]
    fn a_far_store_is_told_by_the_time_it_takes_to_begin_an_upload() {
        let mut concurrency = UploadConcurrency::new(50);
        concurrency.upload_begun(Duration::from_millis(20));
        assert_eq!(concurrency.limit(), PACE_START_FAR);
        concurrency.upload_begun(Duration::from_millis(1));
        assert_eq!(concurrency.limit(), PACE_START, "only the machine was busy");
        concurrency.upload_begun(Duration::from_millis(20));
        assert_eq!(concurrency.limit(), PACE_START);
        // One answer that took long says nothing against what was measured.
        send(&mut concurrency, 1000, 0.01, 0.01);
        let limit = concurrency.limit();
        concurrency.upload_begun(Duration::from_secs(1));
        assert_eq!(concurrency.limit(), limit);
        let mut concurrency = UploadConcurrency::new(2);
        concurrency.upload_begun(Duration::from_millis(20));
        assert_eq!(concurrency.limit(), 2);
    }

    #[test]
    fn a_store_that_moves_away_is_followed() {
        let mut concurrency = UploadConcurrency::new(50);
        send(&mut concurrency, 500, 0.01, 0.01);
        assert!(concurrency.limit() <= 2 * PACE_START);
        // Its time begins anew.
        concurrency.stretch = Stretch::default();
        concurrency.idle_since = None;
        let (_, limits) = send(&mut concurrency, 4000, 0.1, 0.0);
        assert!(limits.contains(&50));
    }

    #[test]
    fn a_writer_that_pauses_changes_nothing() {
        let mut concurrency = UploadConcurrency::new(50);
        for second in 0..1000 {
            concurrency.entered(Duration::from_secs(second));
            concurrency.ended(8 << 20, 0, Duration::from_secs(second));
        }
        assert_eq!(concurrency.limit(), PACE_START);
        // Nobody waited: there is no more to be sent.
        for second in 1000..2000 {
            concurrency.ended(8 << 20, PACE_START, Duration::from_secs(second));
        }
        assert_eq!(concurrency.limit(), PACE_START);
        assert_eq!(UploadConcurrency::new(0).limit(), 1);
    }
}
