//! What happened lately, and which errors it explains.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A disturbance, with the errors that calls may return for it.
struct Event {
    name: String,
    explains: &'static [i32],
    began: Instant,
    ended: Option<Instant>,
    number: u64,
}

/// The newest disturbances.
#[derive(Default)]
pub(in crate::soak) struct History(Mutex<VecDeque<Event>>);

const EVENTS_MAX: usize = 40;

/// How long a disturbance that is over may make calls fail: waits between attempts, and requests
/// that fail at once until S3 has answered something.
const AFTERMATH: Duration = Duration::from_secs(90);

impl History {
    /// Disturbances so far.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().back().map_or(0, |last| last.number + 1)
    }

    /// Notes the beginning; for [`History::end`].
    pub(super) fn begin(&self, name: &str, explains: &'static [i32]) -> u64 {
        let mut events = self.0.lock();
        let number = events.back().map_or(0, |last| last.number + 1);
        events.push_back(Event {
            name: name.to_owned(),
            explains,
            began: Instant::now(),
            ended: None,
            number,
        });
        if events.len() > EVENTS_MAX {
            events.pop_front();
        }
        number
    }

    pub(super) fn end(&self, number: u64) {
        let mut events = self.0.lock();
        let event = events.iter_mut().find(|event| event.number == number);
        event.expect("a new event").ended = Some(Instant::now());
    }

    /// Whether a call that began at `began` and ends now may have failed so.
    pub(in crate::soak) fn explains(&self, errno: i32, began: Instant) -> bool {
        let events = self.0.lock();
        events.iter().any(|event| {
            event.explains.contains(&errno)
                && event.ended.is_none_or(|ended| ended + AFTERMATH > began)
        })
    }

    /// The last events, for a failure.
    pub(in crate::soak) fn text(&self) -> String {
        let events = self.0.lock();
        let line = |event: &Event| {
            let began = event.began.elapsed().as_secs_f32();
            let ended = event.ended.map(|ended| ended.elapsed().as_secs_f32());
            let ended = ended.map_or_else(|| "now".to_owned(), |ended| format!("{ended:.1} s ago"));
            format!("{began:.1} s ago to {ended}: {}", event.name)
        };
        events
            .iter()
            .rev()
            .take(12)
            .map(line)
            .collect::<Vec<_>>()
            .join("\n")
    }
}
