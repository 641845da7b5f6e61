//! `main` without the exit: parses, goes into the background, mounts, serves, ends.

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::logging::format::safe_line;
use super::metrics::{MetricsService, MountDescription, RunningMetrics};
use super::process::daemon::{Reporter, Side, daemonise};
use super::process::notify::Notifier;
use super::process::pid_file::PidFile;
use super::process::signals::outlive_signals;
use super::start_log::log_start;
use super::target::MountingFlags;
use super::{Environment, MountConfig, MountTarget, MountedBucket, StartError, logging};
use crate::cli::{
    CliArgs, HELPER_NAMES, Helper, Invocation, VERSION, completion_candidates, completions,
    fstab_entry, man_page, page_of,
};
use crate::journal;
use crate::metrics::panics;

/// Runs `mount-s3` with these arguments, and returns the exit code.
///
/// 0 when the directory was mounted (in the background) or was unmounted again (in the foreground),
/// 1 after a failure, 2 for a wrong command line. The `helpers` are above this layer.
#[must_use]
pub fn run(arguments: impl Iterator<Item = OsString>, helpers: &[Helper]) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let invocation = match Invocation::parse(arguments.iter().cloned(), helpers) {
        Ok(invocation) => invocation,
        Err(error) => {
            // `--help` and `--version` take this path as well, with code 0. A failure to print
            // cannot be reported.
            error.print().ok();
            if error.use_stderr() {
                page_of(&error.to_string()).iter().for_each(|it| tell(it));
                in_fstab(&arguments).iter().for_each(|it| tell(it));
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let result = match invocation {
        Invocation::Mount(args) => start(&args).map_err(|reason| with_helper(&args, reason)),
        Invocation::Helper(helper, arguments) => Ok((helper.run)(arguments)),
        Invocation::Completions(shell) => Ok(print(completions(shell).as_bytes())),
        Invocation::Candidates(words) => {
            Ok(print(completion_candidates(&words, helpers).as_bytes()))
        }
        Invocation::Man(helper) => Ok(print(&man_page(helper.as_ref(), helpers))),
    };
    match result {
        Ok(code) => code,
        Err(reason) => {
            let remarks = in_fstab(&arguments).into_iter().chain(page_of(&reason));
            match remarks.collect::<Vec<_>>().join("; ").as_str() {
                "" => tell(&reason),
                remarks => tell(&format!("{reason} ({remarks})")),
            }
            ExitCode::FAILURE
        }
    }
}

fn start(args: &CliArgs) -> Result<ExitCode, String> {
    let environment = Environment::read()?;
    let flags = MountingFlags {
        auto_unmount: args.mount.auto_unmount,
        allow_root: args.mount.allow_root,
        allow_other: args.mount.allow_other,
    };
    // This comes first, while every open descriptor must have been passed to this process.
    let target = MountTarget::resolve(&args.directory, flags).map_err(|error| error.to_string())?;
    let config = MountConfig::resolve(args, &environment)?;
    for warning in &config.warnings {
        tell(&format!("warning: {warning}"));
    }
    let time_max = environment.start_time_max();
    let start = Start {
        args,
        environment: &environment,
        config: &config,
        time_max,
    };
    if args.foreground {
        return start.serve(target, Reporter::foreground());
    }
    let started = daemonise(time_max, environment.relative_file.is_none()).map_err(|error| {
        // The program starts itself again, by its path in `/proc`.
        let hint = match error.kind() {
            ErrorKind::NotFound => " (is /proc mounted? --foreground does without)",
            _ => "",
        };
        format!("cannot go into the background: {error}{hint}")
    })?;
    match started {
        Side::Parent(Ok(remarks)) => {
            // The mount exists even if the line cannot be printed.
            writeln!(std::io::stdout(), "{}", start.headline()).ok();
            remarks.lines().for_each(tell);
            Ok(ExitCode::SUCCESS)
        }
        Side::Parent(Err(reason)) => Err(reason),
        Side::Child(reporter) => start.serve(target, reporter),
    }
}

/// The result of a successful start.
struct Started {
    mounted: MountedBucket,
    /// Ends after the mount, which it measures to its end.
    metrics: Option<RunningMetrics>,
    pid_file: Option<PidFile>,
    notifier: Notifier,
    /// Remarks for the terminal, a line each.
    remarks: String,
}

/// The inputs of a start.
struct Start<'a> {
    args: &'a CliArgs,
    environment: &'a Environment,
    config: &'a MountConfig,
    time_max: Duration,
}

impl Start<'_> {
    /// Mounts, reports, serves to the end.
    fn serve(&self, target: MountTarget, mut reporter: Reporter) -> Result<ExitCode, String> {
        let Started {
            mounted,
            metrics,
            pid_file,
            notifier,
            remarks,
        } = match self.mount(target, reporter.is_daemon()) {
            Ok(started) => started,
            Err(error) if reporter.is_daemon() => {
                tracing::error!("{error}");
                // The parent prints the reason.
                reporter.failed(&error.to_string());
                return Ok(ExitCode::FAILURE);
            }
            Err(error) => return Err(error.to_string()),
        };
        if !reporter.is_daemon() {
            let headline = self.headline();
            writeln!(std::io::stdout(), "{headline}; Ctrl-C unmounts it").ok();
            notifier.ready(&headline);
        }
        if let Err(error) = reporter.mounted(&remarks) {
            let why = match error.kind() {
                ErrorKind::BrokenPipe => "the process that started it has ended".to_owned(),
                _ => format!("cannot go into the background: {error}"),
            };
            tracing::error!("mounted, but {why}: unmounting");
            mounted.end();
            metrics.into_iter().for_each(RunningMetrics::end);
            reporter.failed(&why);
            return Ok(ExitCode::FAILURE);
        }
        let end = mounted.wait();
        notifier.stopping();
        mounted.finish(end);
        metrics.into_iter().for_each(RunningMetrics::end);
        drop(pid_file);
        Ok(ExitCode::SUCCESS)
    }

    /// Mounts the bucket, and creates the PID file and the notifier.
    fn mount(&self, target: MountTarget, is_daemon: bool) -> Result<Started, StartError> {
        outlive_signals()
            .map_err(|error| StartError::new(format!("cannot take signals: {error}")))?;
        let state_directory = self.config.fs.write.state_directory.as_deref();
        let mut remarks = logging::start(self.args, self.environment, is_daemon, state_directory)?;
        log_start(self.config);
        let notifier = Notifier::new(self.environment.notify_socket.as_deref())
            .map_err(|error| StartError::new(format!("NOTIFY_SOCKET names no socket: {error}")))?;
        // Before the client, whose handles are taken at its first request.
        let metrics = MetricsService::prepare(&self.config.metrics, describe(self.config))?;
        panics::observe();
        let time_max = self.time_max - self.time_max / START_RESERVE_SHARE;
        let mounted = MountedBucket::start(self.config, target, time_max)?;
        // A look at a directory in the mount would wait for the mount.
        let state_directory = state_directory.filter(|directory| !mounted.covers(directory));
        let start_metrics =
            |metrics: MetricsService| metrics.start(mounted.measured_parts(), state_directory);
        let metrics = match metrics.map(start_metrics).transpose() {
            Ok(metrics) => metrics,
            Err(error) => {
                mounted.end();
                return Err(error);
            }
        };
        if let Some(remark) = self.forgets(&mounted) {
            remarks.extend([safe_line(&remark).as_str(), "\n"]);
        }
        match self.pid_file() {
            Ok(pid_file) => Ok(Started {
                mounted,
                metrics,
                pid_file,
                notifier,
                remarks,
            }),
            Err(error) => {
                mounted.end();
                Err(error)
            }
        }
    }

    /// The reason why the journal cannot be written. The mount works without it.
    ///
    /// A directory that no flag names is tried with the first upload.
    fn forgets(&self, mounted: &MountedBucket) -> Option<String> {
        let write = &self.config.fs.write;
        let directory = write.state_directory.as_deref()?;
        if write.read_only {
            return None;
        }
        const FORGOTTEN: &str = "unfinished uploads are not remembered, and stay in the bucket if this process is killed";
        let shown = directory.display();
        if mounted.covers(directory) {
            // The journal logs this reason itself.
            return Some(format!(
                "{FORGOTTEN}: the state directory {shown} is inside the mount itself; name another one with \
                 --state-directory"
            ));
        }
        let is_named = self.args.write.state_directory.is_some();
        let error = is_named.then(|| journal::is_usable(directory).err())??;
        let remark = format!("{FORGOTTEN}: cannot write in --state-directory {shown}: {error}");
        tracing::warn!("{remark}");
        Some(remark)
    }

    fn pid_file(&self) -> Result<Option<PidFile>, StartError> {
        let Some(path) = self.environment.pid_file.as_deref() else {
            return Ok(None);
        };
        let created = PidFile::create(Path::new(path)).map_err(|error| {
            StartError::new(format!(
                "cannot write the PID file {path}: {error}; its directory must exist and be writable"
            ))
        });
        created.map(Some)
    }

    fn headline(&self) -> String {
        let (bucket, directory) = (&self.args.bucket.name, self.args.directory.display());
        safe_line(&format!("bucket {bucket} is mounted at {directory}"))
    }
}

/// The mount's description in its metrics.
fn describe(config: &MountConfig) -> MountDescription {
    MountDescription {
        bucket: config.client.bucket.clone(),
        prefix: config.fs.prefix.clone(),
        directory: std::path::absolute(&config.directory)
            .unwrap_or_else(|_| config.directory.clone())
            .display()
            .to_string(),
        pid: std::process::id(),
        uid: nix::unistd::geteuid().as_raw(),
        version: VERSION.to_owned(),
        device: None,
    }
}

/// The mount's line in `/etc/fstab`, if mount(8) made this command line.
fn in_fstab(arguments: &[OsString]) -> Option<String> {
    fstab_entry(arguments, "")?;
    let fstab = std::fs::read("/etc/fstab").unwrap_or_default();
    fstab_entry(arguments, &String::from_utf8_lossy(&fstab))
}

/// The reason for a failure; with the helper command that has the bucket's name, if that was typed.
fn with_helper(args: &CliArgs, reason: String) -> String {
    let name = &args.bucket.text;
    match HELPER_NAMES.contains(&name.as_str()) && !args.is_fstab {
        true => format!(
            "{reason}. This was taken for a mount; `mount-s3 {name} --help` tells of the helper command {name}"
        ),
        false => reason,
    }
}

/// Prints a generated text. A reader that closes the pipe early (`| head`) has had enough.
fn print(text: &[u8]) -> ExitCode {
    std::io::stdout().write_all(text).ok();
    ExitCode::SUCCESS
}

/// One line on the terminal.
fn tell(text: &str) {
    writeln!(std::io::stderr(), "mount-s3: {}", safe_line(text)).ok();
}

/// How much before its bound a start gives up its requests, as a divisor.
///
/// The process that sent the requests can name them; the terminal that waits for the process
/// cannot.
const START_RESERVE_SHARE: u32 = 10;
