//! The doctor from its arguments to its exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use super::arguments::Arguments;
use super::finding::{Area, Check};
use super::machine::mount_point::State;
use super::machine::{
    facts, kernel, local_folders, memory, mount_point, mounting, network, process_limits,
};
use super::recommendation::{Change, MountPoint, Recommendation, directory_for};
use super::report::Report;
use super::server;
use crate::config::shutdown;
use crate::mount::{Environment, MountConfig, is_syslog_there};

/// Runs `mount-s3 doctor` with the arguments after that word.
///
/// The exit code is 0 if the bucket can be mounted, or if no bucket is named and the machine can
/// mount; 1 if not; 2 for a wrong command line.
#[must_use]
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    let arguments = match Arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // A failure to print cannot be reported.
            error.print().ok();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut report = Report::new(arguments.is_json);
    let config = Environment::read()
        .and_then(|environment| MountConfig::resolve(&arguments.mount, &environment));
    let config = match config {
        Ok(config) => config,
        Err(reason) => {
            let advice = "`mount-s3 man` explains the flags, /usr/share/doc/mountpoint-fs/CONFIGURATION.md the variables";
            report.add(Check(Area::Flags, "flags").error(reason, advice));
            return report.finish(None);
        }
    };
    report.given = arguments.flags.clone();
    look_at_log(&arguments, &mut report);
    let mut changes = look_at_machine(&config, &mut report);
    let Some(bucket) = &arguments.bucket else {
        return report.finish(None);
    };
    let directory = arguments.directory.as_ref().map_or_else(
        || directory_for(bucket, facts::home().as_deref()),
        |path| path.to_string_lossy().into_owned(),
    );
    let state = look_at_directory(&arguments, &directory, &mut report);
    look_at_folders(&config, &directory, &mut report);
    changes.extend(look_at_bucket(
        &config,
        arguments.checks_writes,
        &mut report,
    ));
    changes.extend(endpoint_from_elsewhere(&arguments, &config));
    let mount_point = MountPoint {
        directory: &directory,
        is_missing: state == Some(State::Missing),
    };
    let recommendation = Recommendation::new(bucket, &mount_point, &arguments.flags, &changes);
    report.finish(Some(&recommendation))
}

/// Examines the log destination of a mount with these flags.
fn look_at_log(arguments: &Arguments, report: &mut Report) {
    let mount = &arguments.mount;
    let is_elsewhere =
        mount.foreground || mount.logging.no_log || mount.logging.log_directory.is_some();
    if !is_elsewhere && !is_syslog_there() {
        report.add(Check(Area::Flags, "log").warning("there is no syslog here (/dev/log): the log of a mount in the background is lost",
            "keep it in files with --log-directory DIRECTORY, or stay in the foreground with --foreground",
        ));
    }
}

/// Examines the machine. Returns the flags that suit it better.
fn look_at_machine(config: &MountConfig, report: &mut Report) -> Vec<Change> {
    report.looking_at("kernel");
    for warning in &config.warnings {
        let advice = "`mount-s3 man` explains the flags";
        report.add(Check(Area::Flags, "flags").warning(warning, advice));
    }
    report.extend(kernel::judge(&facts::kernel(config)));
    report.extend(mounting::judge(&facts::mounting(config)));
    report.extend(process_limits::judge(&facts::process_limits(config)));
    let memory = memory::judge(&facts::memory(config));
    report.extend(memory.findings);
    report.looking_at("network");
    let network = network::judge(&facts::network(config));
    report.extend(network.findings);
    let target = memory.target_mib.map(|mib| {
        let reason = "the control group allows no more";
        Change::value("--memory-target", mib, reason)
    });
    let throughput = network.throughput_gbps.map(|gbps| {
        let reason = "the network interface carries as much";
        Change::value("--maximum-throughput-gbps", gbps, reason)
    });
    target.into_iter().chain(throughput).collect()
}

fn look_at_directory(arguments: &Arguments, directory: &str, report: &mut Report) -> Option<State> {
    report.looking_at("mount point");
    let path = std::path::PathBuf::from(directory);
    let looked_at = path.clone();
    let state = facts::bounded(facts::DOCTOR_LOCAL, move || mount_point::look(&looked_at));
    let is_given = arguments.directory.is_some();
    report.add(mount_point::judge(&path, state.as_ref(), is_given));
    state
}

/// Examines the folders on a local disk that a mount at `directory` uses.
fn look_at_folders(config: &MountConfig, directory: &str, report: &mut Report) {
    let cache = config.cache.as_ref().map(|cache| &cache.directory);
    let staging = config.staging.as_ref().map(|staging| &staging.directory);
    for (flag, folder) in [("--cache", cache), ("--staging", staging)] {
        let Some(folder) = folder.cloned() else {
            continue;
        };
        let (looked_at, mount_point) = (folder.clone(), std::path::PathBuf::from(directory));
        let place = facts::bounded(facts::DOCTOR_LOCAL, move || {
            local_folders::look(&looked_at, &mount_point)
        });
        report.add(local_folders::judge(flag, &folder, place));
    }
}

/// Examines the bucket. Returns the flags that it needs.
fn look_at_bucket(config: &MountConfig, checks_writes: bool, report: &mut Report) -> Vec<Change> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("doctor")
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let advice = "end other programs, or raise `ulimit -u`";
            let found = format!("cannot start a thread: {error}");
            report.add(Check(Area::Limits, "threads").error(found, advice));
            return Vec::new();
        }
    };
    let changes = runtime.block_on(server::check(config, checks_writes, report));
    runtime.shutdown_timeout(shutdown::SHUTDOWN_RUNTIME);
    changes
}

/// The endpoint, if only a variable or a file names it: the recommended command must work
/// everywhere.
fn endpoint_from_elsewhere(arguments: &Arguments, config: &MountConfig) -> Option<Change> {
    const FLAG: &str = "--endpoint-url";
    let url = config.client.endpoint_url.as_deref()?;
    let is_given = arguments.flags.iter().any(|flag| flag.name == FLAG);
    (!is_given).then(|| {
        let reason =
            "a variable or ~/.aws/config names it here, and may not where the command runs";
        Change::value(FLAG, url, reason)
    })
}
