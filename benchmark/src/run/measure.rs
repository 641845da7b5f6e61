//! One measurement: one system carries out one workload on a fresh mount.
//!
//! Invariant: counting begins when the mount is there and ends with the last read, before files are
//! checked and the mount is removed. A system that hangs is killed, so a run always ends.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use tempfile::TempDir;

use super::disk_folder::disk_folder;
use crate::engine::{self, Outcome, until_ok};
use crate::limit::Found;
use crate::process;
use crate::profile::Profile;
use crate::reader_memory::ReaderMemory;
use crate::results::measurement::Measurement;
use crate::server::{Requests, Servers};
use crate::system::address::{Address, LocalFolder};
use crate::system::catalog::{Role, System};
use crate::system::mount::{Mounted, kill_now};
use crate::workload::{Action, Conditions, Unit, Workload};

/// How much longer than its limit a workload may take before the system under test is killed.
const GRACE: Duration = Duration::from_secs(180);
/// Time limit of the preparation before a workload.
pub(super) const PREPARE_TIME_MAX: Duration = Duration::from_secs(300);
/// Time limit after the last close for written files to reach the bucket.
const UPLOAD_TIME_MAX: Duration = Duration::from_secs(60);

/// The means of every measurement of a run.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) servers: Servers,
    pub(crate) scratch: &'a Path,
    /// Certificate of the authority that the embedded server's TLS is to be trusted for.
    pub(crate) authority: PathBuf,
    pub(crate) limit: Duration,
    /// How the server behaves where the workload does not say.
    pub(crate) conditions: Conditions,
    pub(crate) drop_caches: bool,
    /// `None` where none can be made.
    pub(crate) reader_memory: Option<ReaderMemory>,
    /// Whether CPU profiles are wanted.
    pub(crate) profile: bool,
}

impl Bench<'_> {
    pub(crate) fn measure(&mut self, system: &System, workload: &Workload) -> Result<Measurement> {
        self.drop_page_cache()?;
        let conditions = workload.conditions.unwrap_or(self.conditions);
        self.servers.behind(workload.link)?.behave(conditions)?;
        let measured = match system.role {
            Role::Native => self.measure_native(workload),
            Role::ClientLimit => self.measure_client(system, workload),
            Role::Product | Role::Peer | Role::FuseLimit => self.measure_mount(system, workload),
        };
        let action = workload.action;
        if action.writes() || action.reads_made_file() || workload.is_cache_shared {
            self.servers.behind(workload.link)?.remove_written()?;
        }
        measured
    }

    fn measure_mount(&mut self, system: &System, workload: &Workload) -> Result<Measurement> {
        let server = self.servers.behind(workload.link)?;
        let address = Address::of(
            server,
            workload.is_over_tls.then_some(self.authority.as_path()),
        );
        if let Some(file) = engine::make(workload.action, self.scratch)? {
            let key = workload.action.files().key(0);
            let status = System::put_command(&address, &key, &file)?.status()?;
            ensure!(status.success(), "{key} could not be put: {status}");
        }
        let system = &system.prepared_for(workload);
        // Dropped behind the mount that uses it.
        let is_cached_on_disk = workload.cache.is_some() && !workload.is_cache_shared;
        let has_folder = is_cached_on_disk || workload.is_staged;
        let folder = has_folder.then(|| disk_folder(self.scratch)).transpose()?;
        let path = folder.as_ref().map(TempDir::path);
        let folder = path.map(|path| match workload.is_staged {
            true => LocalFolder::Staging(path),
            false => LocalFolder::Cache(path),
        });
        let mounted = self.mount_for(system, workload, folder)?;
        engine::prepare(workload.action, self.scratch)?;
        let server = self.servers.behind(workload.link)?;
        server.requests_when_idle()?;
        server.clear()?;
        let server_pid = server.pid();
        let profile = self.start_profile(mounted.pid())?;
        let before = CpuTimes::now(&mounted, server_pid)?;
        let limit = self.limit.max(workload.action.time_max());
        let mut outcome = self.watched(&mounted, workload.action, limit)?;
        let files = workload.action.files();
        let server = self.servers.behind(workload.link)?;
        if workload.action.writes() {
            let waited = until_ok(UPLOAD_TIME_MAX, || server.check(files))?;
            // A file that is not in the bucket after the last close is not written yet, unless the
            // local disk may keep it meanwhile.
            if !workload.is_staged {
                outcome.elapsed += waited;
            }
        }
        let after = CpuTimes::now(&mounted, server_pid)?;
        let requests = server.requests_when_idle()?;
        let profile = profile.map(Profile::finish).transpose()?;
        let memory_peak_bytes = process::memory_peak(mounted.pid())?;
        let is_synthetic = !workload.action.writes() && !workload.action.reads_made_file();
        if is_synthetic && system.role != Role::FuseLimit {
            engine::verify(mounted.directory(), workload.action)?;
        }
        let used = Used {
            mount_cpu: after.mount - before.mount,
            total_cpu: after.total - before.total,
            memory_peak_bytes,
        };
        let measured = measurement(workload.unit, &outcome, used, requests);
        Ok(Measurement {
            profile,
            ..measured
        })
    }

    /// A fresh mount, with `folder` of the local disk if the workload is about one.
    pub(super) fn mount(
        &mut self,
        system: &System,
        workload: &Workload,
        folder: Option<LocalFolder<'_>>,
    ) -> Result<Mounted> {
        let server = self.servers.behind(workload.link)?;
        let address = Address::of(
            server,
            workload.is_over_tls.then_some(self.authority.as_path()),
        );
        Mounted::start(system, &address, self.scratch, folder)
    }

    fn measure_client(&mut self, system: &System, workload: &Workload) -> Result<Measurement> {
        let server = self.servers.behind(workload.link)?;
        server.clear()?;
        let before = cpu_time_of(server.pid())?;
        let address = Address::of(
            server,
            workload.is_over_tls.then_some(self.authority.as_path()),
        );
        let output = system
            .client_command(&address, &workload.name, self.limit)
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "it ended with {}", output.status);
        let found: Found = serde_json::from_slice(&output.stdout)?;
        let server_cpu = cpu_time_of(server.pid())? - before;
        let requests = server.requests_when_idle()?;
        let cpu = Duration::from_secs_f64(found.cpu_s);
        let used = Used {
            mount_cpu: cpu,
            total_cpu: cpu + server_cpu,
            memory_peak_bytes: found.memory_peak_bytes,
        };
        Ok(measurement(workload.unit, &found.outcome, used, requests))
    }

    fn start_profile(&self, pid: u32) -> Result<Option<Profile>> {
        self.profile
            .then(|| Profile::start(self.scratch, pid))
            .transpose()
    }

    /// Carries `action` out, and kills the system if that takes much longer than it should: reads
    /// that the system does not answer can end in no other way.
    pub(super) fn watched(
        &self,
        mounted: &Mounted,
        action: Action,
        limit: Duration,
    ) -> Result<Outcome> {
        let reader_memory = self.reader_memory.as_ref().filter(|_| !action.writes());
        let _inside = reader_memory.map(ReaderMemory::enter).transpose()?;
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
        let outcome = engine::run(action, mounted.directory(), self.scratch, limit);
        drop(ended);
        if watch.join().unwrap_or_default() {
            bail!(
                "it was killed because it took longer than {:?}",
                limit + GRACE
            );
        }
        outcome
    }
}

#[derive(Clone, Copy, Debug)]
struct CpuTimes {
    mount: Duration,
    /// CPU time of the mount, the server, and this process with the children that it waited for.
    total: Duration,
}

impl CpuTimes {
    fn now(mounted: &Mounted, server_pid: Option<u32>) -> Result<Self> {
        let mount = process::cpu_time(mounted.pid())?;
        let server = cpu_time_of(server_pid)?;
        Ok(Self {
            mount,
            total: mount + server + process::own_cpu_time()?,
        })
    }
}

/// Nothing for a server that does not run here.
fn cpu_time_of(server_pid: Option<u32>) -> Result<Duration> {
    server_pid.map_or(Ok(Duration::ZERO), process::cpu_time)
}

/// The resources that a run used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) mount_cpu: Duration,
    pub(super) total_cpu: Duration,
    pub(super) memory_peak_bytes: u64,
}

pub(super) fn measurement(
    unit: Unit,
    outcome: &Outcome,
    used: Used,
    requests: Option<Requests>,
) -> Measurement {
    let microseconds = |latency: Duration| latency.as_secs_f64() * 1e6;
    Measurement {
        value: value(unit, outcome),
        elapsed_s: outcome.elapsed.as_secs_f64(),
        operations: outcome.operations,
        bytes: outcome.bytes,
        latency_p50_us: outcome.latency_p50.map(microseconds),
        latency_p99_us: outcome.latency_p99.map(microseconds),
        latency_p999_us: outcome.latency_p999.map(microseconds),
        mount_cpu_s: used.mount_cpu.as_secs_f64(),
        total_cpu_s: used.total_cpu.as_secs_f64(),
        memory_peak_bytes: used.memory_peak_bytes,
        requests,
        profile: None,
    }
}

fn value(unit: Unit, outcome: &Outcome) -> f64 {
    let seconds = outcome.elapsed.as_secs_f64();
    match unit {
        Unit::GigabytesPerSecond => outcome.bytes as f64 / 1e9 / seconds,
        Unit::ReadsPerSecond | Unit::FilesPerSecond => outcome.operations as f64 / seconds,
        Unit::Milliseconds => milliseconds(outcome.latency_p50),
        Unit::MillisecondsP999 => milliseconds(outcome.latency_p999),
        Unit::MillisecondsInAll => seconds * 1e3,
    }
}

fn milliseconds(latency: Option<Duration>) -> f64 {
    latency.map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
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
            latency_p999: Some(Duration::from_nanos(1 << 22)),
        };
        let cases = [
            (Unit::GigabytesPerSecond, 1.5),
            (Unit::ReadsPerSecond, 50.0),
            (Unit::FilesPerSecond, 50.0),
            (Unit::Milliseconds, 2.097_152),
            (Unit::MillisecondsP999, 4.194_304),
            (Unit::MillisecondsInAll, 2000.0),
        ];
        for (unit, expected) in cases {
            assert!((value(unit, &outcome) - expected).abs() < 1e-9, "{unit:?}");
        }
    }
}
