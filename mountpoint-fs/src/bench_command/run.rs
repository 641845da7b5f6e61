//! The run of the command, from its arguments to its exit code.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use mountpoint_client::types::ObjectInfo;
use tokio::runtime::Runtime;

use super::arguments::BenchArguments;
use super::client::{ClientBench, GET_BYTES};
use super::figures::{Figures, Measured, Step, Unit, Way};
use super::mount::MountBench;
use super::objects::{Targets, list};
use super::report::Report;
use super::temporary::{PUTS_AT_ONCE, TemporaryObjects};
use super::verdict::{Conditions, READ, judge};
use crate::clock::Clock;
use crate::config::{limits, shutdown};
use crate::mount::{
    Environment, MountConfig, connect_helper, open_index, print, progress_bar, run_helper,
    stop_on_signals,
};

/// Runs `mount-s3 bench` with the arguments behind that word.
///
/// The exit code is 0 if everything was measured, 1 if not, 2 for a wrong command line.
#[must_use]
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    run_helper("bench", BenchArguments::of(arguments), |arguments| {
        let report = bench(arguments)?;
        let text = report.text();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        // A failure to print cannot be reported.
        print(&report.json(), &lines, arguments.is_json).ok();
        Ok(report.is_complete())
    })
}

/// Measures.
///
/// # Errors
/// A text for the user, if nothing could be measured.
fn bench(arguments: &BenchArguments) -> Result<Report, String> {
    // A signal ends the run between two steps, so that nothing temporary stays.
    let stop = stop_on_signals(true)?;
    let environment = Environment::read()?;
    let mut config = MountConfig::resolve(&arguments.mount, &environment)?;
    let index = match &config.index {
        Some(path) => {
            let opened = open_index(path, &config.fs.prefix, &mut config.client);
            Some(opened.map_err(|error| error.to_string())?)
        }
        None => None,
    };
    let (prefix, index) = (config.fs.prefix.as_str(), index.as_ref());
    let (runtime, connected) = connect_helper(&environment, &config.client, prefix, index)?;
    let clock = Clock::monotonic();
    let mut bench = Bench {
        arguments,
        config: &config,
        client: ClientBench::new(connected.client, clock.clone(), arguments.step),
        runtime,
        clock,
        stop,
        bar: progress_bar(STEPS, "{bar:24} {msg}"),
        report: Report::default(),
    };
    bench.report.place = place(arguments, &config);
    let outcome = bench.run();
    bench.bar.finish_and_clear();
    let Bench {
        runtime, report, ..
    } = bench;
    runtime.shutdown_timeout(shutdown::SHUTDOWN_RUNTIME);
    outcome.map(|()| report)
}

/// One run.
struct Bench<'a> {
    arguments: &'a BenchArguments,
    config: &'a MountConfig,
    client: ClientBench,
    runtime: Runtime,
    clock: Clock,
    stop: Arc<AtomicBool>,
    bar: ProgressBar,
    report: Report,
}

impl Bench<'_> {
    fn run(&mut self) -> Result<(), String> {
        let prefix = self.config.fs.prefix.clone();
        if !self.arguments.writes {
            let listed = self.list(&prefix)?;
            self.measure(&Targets::choose(&listed));
            return Ok(());
        }
        let client = self.client.client();
        let mut temporary = TemporaryObjects::new(client, &self.clock, &prefix)?;
        self.bar.set_message("writing temporary objects");
        let (large, small, targets) = self.runtime.block_on(temporary.make());
        self.add(Way::Client, "write 8 MiB", PUTS_AT_ONCE, Unit::Bytes, large);
        let files = Unit::Count("files");
        self.add(Way::Client, "write 16 KiB", PUTS_AT_ONCE, files, small);
        let folder = temporary.folder().to_owned();
        let listed = self.list(&folder);
        if listed.is_ok() {
            self.measure(&targets);
        }
        self.bar.set_message("removing temporary objects");
        if let Err(reason) = self.runtime.block_on(temporary.remove()) {
            self.report.remarks.push(reason);
        }
        listed.map(drop)
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<ObjectInfo>, String> {
        self.bar.set_message("listing");
        let client = Arc::clone(self.client.client());
        let bounds = (&self.clock, self.arguments.step);
        let listed = self.runtime.block_on(list(&*client, prefix, bounds));
        let (figures, listed) = listed.map_err(|error| format!("cannot list: {error}"))?;
        self.add(Way::Client, "list", 1, Unit::Count("keys"), figures);
        Ok(listed)
    }

    /// All steps that read.
    fn measure(&mut self, targets: &Targets) {
        self.through_client(targets);
        self.through_mount(targets);
        let given = |name: &str| self.arguments.flags.iter().any(|flag| flag.name == name);
        let conditions = Conditions {
            target_gbps: self
                .config
                .client
                .throughput_target_gbps
                .unwrap_or(limits::THROUGHPUT_DEFAULT_GBPS),
            is_target_given: given("--maximum-throughput-gbps"),
            is_throttled: self.client.client().is_throttled(),
            keeps_names: given("--metadata-ttl") || given("--cache") || given("--index"),
        };
        self.report.verdict = judge(&self.report.measured, &conditions);
        if self.is_stopped() {
            self.report.remarks.push("interrupted".to_owned());
        }
    }

    fn through_client(&mut self, targets: &Targets) {
        let any = if targets.small.is_empty() {
            &targets.large
        } else {
            &targets.small
        };
        if any.is_empty() {
            let remark = "there is nothing to read: name another prefix, or let --write make temporary objects";
            self.report.remarks.push(remark.to_owned());
            return;
        }
        self.get("first byte", (any, 1), 1, Unit::Latency);
        if targets.large.is_empty() {
            let remark = "no object has 8 MiB, so no throughput was measured: --write makes some";
            self.report.remarks.push(remark.to_owned());
        } else {
            for at_once in AT_ONCE {
                self.get(READ, (&targets.large, GET_BYTES), at_once, Unit::Bytes);
            }
        }
        if !targets.small.is_empty() {
            let files = Unit::Count("files");
            self.get(
                "small files",
                (&targets.small, u64::MAX),
                SMALL_AT_ONCE,
                files,
            );
        }
    }

    fn get(
        &mut self,
        name: &'static str,
        (targets, len): (&[super::objects::Target], u64),
        at_once: usize,
        unit: Unit,
    ) {
        if self.is_stopped() {
            return;
        }
        self.bar
            .set_message(format!("client: {name}, {at_once} at once"));
        let got = self.client.get(targets, len, at_once);
        let figures = self.runtime.block_on(got);
        self.add(Way::Client, name, at_once, unit, figures);
    }

    fn through_mount(&mut self, targets: &Targets) {
        let Some(directory) = &self.arguments.directory else {
            let remark = "no mount was measured: name an empty directory behind the bucket";
            self.report.remarks.push(remark.to_owned());
            return;
        };
        if self.is_stopped() {
            return;
        }
        self.bar.set_message("mounting");
        let prefix = &self.config.fs.prefix;
        let mounted = match MountBench::begin(self.arguments, directory, prefix, &self.clock) {
            Ok(mounted) => mounted,
            Err(reason) => {
                let remark = format!("no mount was measured: {reason}");
                self.report.remarks.push(remark);
                return;
            }
        };
        self.bar.set_message("mount: names");
        self.add(
            Way::Mount,
            "names",
            1,
            Unit::Count("names"),
            mounted.names(),
        );
        for readers in READERS {
            if targets.large.is_empty() || self.is_stopped() {
                break;
            }
            self.bar.set_message(format!("mount: {readers} readers"));
            let figures = mounted.sequential(&targets.large, readers);
            self.add(Way::Mount, READ, readers, Unit::Bytes, figures);
        }
        if !targets.small.is_empty() && !self.is_stopped() {
            self.bar.set_message("mount: small files");
            let figures = mounted.small(&targets.small, SMALL_AT_ONCE);
            let files = Unit::Count("files");
            self.add(Way::Mount, "small files", SMALL_AT_ONCE, files, figures);
        }
        self.bar.set_message("unmounting");
    }

    fn add(&mut self, way: Way, name: &'static str, at_once: usize, unit: Unit, figures: Figures) {
        let step = Step {
            way,
            name,
            at_once,
            unit,
        };
        self.report.measured.push(Measured { step, figures });
        self.bar.inc(1);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn place(arguments: &BenchArguments, config: &MountConfig) -> String {
    let endpoint = config.client.endpoint_url.as_deref().unwrap_or("Amazon S3");
    format!("{} at {endpoint}", arguments.bucket)
}

/// Requests in flight.
const AT_ONCE: [usize; 4] = [1, 4, 16, 64];
/// Readers of a mount.
const READERS: [usize; 2] = [1, 4];
/// Small files in flight.
const SMALL_AT_ONCE: usize = 16;
/// Steps of a whole run, for the bar.
const STEPS: u64 = 13;
