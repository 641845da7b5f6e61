//! Lines that the C library logged, for tests.

use std::fmt;

use parking_lot::{Condvar, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::probe::SOON;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static MORE: Condvar = Condvar::new();

/// Collects the warnings of the C library from here on.
pub(crate) fn collect() {
    // Another test may have been first.
    tracing::subscriber::set_global_default(OnWarning(collected)).ok();
}

/// Waits for a warning with `text` in it.
pub(crate) fn wait_for(text: &str) {
    let mut lines = LINES.lock();
    let is_missing = |lines: &mut Vec<String>| !lines.iter().any(|line| line.contains(text));
    let wait = MORE.wait_while_for(&mut lines, is_missing, SOON);
    assert!(!wait.timed_out(), "{text}: {lines:?}");
}

fn collected(event: &Event<'_>) {
    let target = event.metadata().target();
    if target.starts_with("crt::") {
        let mut line = Line(target.to_owned());
        event.record(&mut line);
        LINES.lock().push(line.0);
        MORE.notify_all();
    }
}

/// A subscriber that is called with each warning and each error.
pub(crate) struct OnWarning<F>(pub(crate) F);

impl<F: Fn(&Event<'_>) + 'static> Subscriber for OnWarning<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        (self.0)(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}
