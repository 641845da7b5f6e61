//! One measurement: one system carries out one workload on a fresh mount.
//!
//! Invariant: what is counted begins after the mount is there and ends with the last read, before anything
//! is checked or unmounted. A system that hangs is killed, so a run always ends.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::mount::{Mounted, kill_now};
use crate::process;
use crate::reader::{self, Outcome};
use crate::server::{Requests, ServerProcess};
use crate::system::System;
use crate::workload::{Action, Conditions, Unit, Workload};

/// How much longer than its limit a workload may take before the system under test is killed.
const GRACE: Duration = Duration::from_secs(180);
/// How long what comes before a workload may take, read to its end.
const PREPARE_TIME_MAX: Duration = Duration::from_secs(300);

/// What one run used and did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measurement {
    /// In the workload's unit.
    pub(crate) value: f64,
    pub(crate) elapsed_s: f64,
    pub(crate) operations: u64,
    /// Bytes that were read.
    pub(crate) bytes: u64,
    /// Of one read, file or open; not there for commands.
    pub(crate) latency_p50_us: Option<f64>,
    pub(crate) latency_p99_us: Option<f64>,
    /// CPU time of the system under test.
    pub(crate) mount_cpu_s: f64,
    /// The same and that of the server and of the reader.
    pub(crate) total_cpu_s: f64,
    /// Most memory the system had resident since it started.
    pub(crate) memory_peak_bytes: u64,
    pub(crate) requests: Requests,
}

/// What every measurement of a run needs.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) server: &'a mut ServerProcess,
    pub(crate) scratch: &'a Path,
    pub(crate) limit: Duration,
    /// How the server behaves where the workload does not say.
    pub(crate) conditions: Conditions,
    pub(crate) drop_caches: bool,
}

impl Bench<'_> {
    pub(crate) fn measure(&mut self, system: &System, workload: &Workload) -> Result<Measurement> {
        if self.drop_caches {
            fs::write("/proc/sys/vm/drop_caches", "3")
                .context("cannot drop caches (needs root; --keep-caches leaves it out)")?;
        }
        self.server
            .behave(workload.conditions.unwrap_or(self.conditions))?;
        let mounted = Mounted::start(system, self.server.url(), self.scratch)?;
        if let Some(before) = workload.before {
            self.watched(&mounted, before, PREPARE_TIME_MAX)?;
        }
        self.server.requests_when_idle()?;
        self.server.clear()?;
        let before = self.cpu_times(&mounted)?;
        let outcome = self.watched(&mounted, workload.action, self.limit)?;
        let after = self.cpu_times(&mounted)?;
        let requests = self.server.requests_when_idle()?;
        let memory_peak_bytes = process::memory_peak(mounted.pid())?;
        reader::verify(mounted.directory(), workload.action.files())?;
        let microseconds = |latency: Duration| latency.as_secs_f64() * 1e6;
        Ok(Measurement {
            value: value(workload.unit, &outcome),
            elapsed_s: outcome.elapsed.as_secs_f64(),
            operations: outcome.operations,
            bytes: outcome.bytes,
            latency_p50_us: outcome.latency_p50.map(microseconds),
            latency_p99_us: outcome.latency_p99.map(microseconds),
            mount_cpu_s: (after.mount - before.mount).as_secs_f64(),
            total_cpu_s: (after.total - before.total).as_secs_f64(),
            memory_peak_bytes,
            requests,
        })
    }

    /// Carries `action` out, and kills the system if that takes much longer than it should: reads that
    /// the system does not answer can end in no other way.
    fn watched(&self, mounted: &Mounted, action: Action, limit: Duration) -> Result<Outcome> {
        let pid = mounted.pid();
        let (ended, end) = mpsc::channel::<()>();
        let watch = thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || {
                let late = end.recv_timeout(limit + GRACE) == Err(RecvTimeoutError::Timeout);
                if late {
                    kill_now(pid);
                }
                late
            })?;
        let outcome = reader::run(action, mounted.directory(), limit);
        drop(ended);
        if watch.join().unwrap_or_default() {
            bail!(
                "it was killed because it took longer than {:?}",
                limit + GRACE
            );
        }
        outcome
    }

    fn cpu_times(&self, mounted: &Mounted) -> Result<CpuTimes> {
        let mount = process::cpu_time(mounted.pid())?;
        let server = process::cpu_time(self.server.pid())?;
        Ok(CpuTimes {
            mount,
            total: mount + server + process::own_cpu_time()?,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct CpuTimes {
    mount: Duration,
    total: Duration,
}

fn value(unit: Unit, outcome: &Outcome) -> f64 {
    let seconds = outcome.elapsed.as_secs_f64();
    match unit {
        Unit::GigabytesPerSecond => outcome.bytes as f64 / 1e9 / seconds,
        Unit::ReadsPerSecond | Unit::FilesPerSecond => outcome.operations as f64 / seconds,
        Unit::Milliseconds => outcome
            .latency_p50
            .map_or(f64::NAN, |median| median.as_secs_f64() * 1e3),
        Unit::MillisecondsInAll => seconds * 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_unit_of_the_workload() {
        let outcome = Outcome {
            elapsed: Duration::from_secs(2),
            operations: 100,
            bytes: 3_000_000_000,
            latency_p50: Some(Duration::from_nanos(1 << 21)),
            latency_p99: None,
        };
        let cases = [
            (Unit::GigabytesPerSecond, 1.5),
            (Unit::ReadsPerSecond, 50.0),
            (Unit::FilesPerSecond, 50.0),
            (Unit::Milliseconds, 2.097_152),
            (Unit::MillisecondsInAll, 2000.0),
        ];
        for (unit, expected) in cases {
            assert!((value(unit, &outcome) - expected).abs() < 1e-9, "{unit:?}");
        }
    }
}
