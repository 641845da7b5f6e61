//! What the load did: operations, bytes, failures, and what each thread is doing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Counts of a run. Every thread of the load adds to it.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) rounds: AtomicU64,
    pub(super) operations: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// How often each expected failure came, by its name.
    failures: Mutex<BTreeMap<String, u64>>,
    /// The call that each thread is in, and since when.
    running: Mutex<BTreeMap<u64, (Instant, String)>>,
    calls: AtomicU64,
}

/// A call in progress; dropping it tells that it has returned.
pub(super) struct Call<'a>(&'a Tally, u64);

impl Tally {
    /// Notes that a call begins.
    pub(super) fn begin(&self, what: &str) -> Call<'_> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let call = (Instant::now(), what.to_owned());
        self.running.lock().insert(number, call);
        Call(self, number)
    }

    pub(super) fn done(&self, bytes: usize) {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, name: &str) {
        *self.failures.lock().entry(name.to_owned()).or_default() += 1;
    }

    /// The failures, as `ESTALE 3, killed 2`.
    pub(super) fn failures(&self) -> String {
        let failures = self.failures.lock();
        let texts = failures
            .iter()
            .map(|(name, count)| format!("{name} {count}"));
        texts.collect::<Vec<_>>().join(", ")
    }

    /// The calls that take longer than `limit`.
    pub(super) fn hanging(&self, limit: Duration) -> Vec<String> {
        let running = self.running.lock();
        let late = running
            .values()
            .filter(|(since, _)| since.elapsed() > limit);
        late.map(|(since, what)| format!("{what} for {} s", since.elapsed().as_secs()))
            .collect()
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.running.lock().remove(&self.1);
    }
}
