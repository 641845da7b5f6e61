//! Failed starts: one clear message with its remedy, and the right exit code. No start hangs,
//! panics or prints a secret.
//!
//! Each table is a file, each row is run in the foreground and in the background, a few rows at a
//! time.

#![expect(clippy::too_many_lines, reason = "tables are long")]

mod bucket;
mod command_line;
mod credentials;
mod environment;
mod fuse;
mod mount_point;
mod network;

use std::ffi::OsString;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;

use crate::harness::{PATIENCE, SECRET_KEY, mount_s3, run, wait_for_exit};

/// A secret that must never be printed.
pub(super) const TOKEN: &str = "test-session-token";
pub(super) const PROXY_PASSWORD: &str = "test-proxy-password";
pub(super) const ENDPOINT_PASSWORD: &str = "test-endpoint-password";
const SECRETS: [&str; 4] = [SECRET_KEY, TOKEN, PROXY_PASSWORD, ENDPOINT_PASSWORD];

/// A start that must fail.
pub(super) struct Row {
    what: String,
    args: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    code: i32,
    /// The message and the hint.
    texts: Vec<&'static str>,
}

impl Row {
    /// A start that ends with 1 and prints these texts.
    pub(super) fn new(what: &str, texts: &[&'static str]) -> Self {
        Self {
            what: what.to_owned(),
            args: Vec::new(),
            variables: Vec::new(),
            code: 1,
            texts: texts.to_vec(),
        }
    }

    /// An invalid command line.
    pub(super) fn usage(what: &str, texts: &[&'static str]) -> Self {
        Self {
            code: 2,
            ..Self::new(what, texts)
        }
    }

    /// More arguments.
    pub(super) fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// One more variable; an empty one counts as none.
    pub(super) fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }
}

/// Runs rows with a plain `mount-s3`.
pub(super) fn check_all(rows: &[Row]) {
    check_all_as(rows, mount_s3);
}

/// Runs all rows, some at the same time, with commands that `program` makes.
///
/// A failed row is run again alone: a start has timeouts of its own, down to a second for a
/// connection, and on a starved machine several starts at once are too slow for them.
pub(super) fn check_all_as(rows: &[Row], program: impl Fn() -> Command + Sync) {
    let is_right = |row: &Row| catch_unwind(AssertUnwindSafe(|| check(row, &program))).is_ok();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !is_right(row) {
                        failed.lock().push(row);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner();
    failed.retain(|row| !is_right(row));
    let failed: Vec<_> = failed.iter().map(|row| &row.what).collect();
    assert!(failed.is_empty(), "wrong, see above: {failed:?}");
}

/// Runs one row.
#[expect(
    clippy::print_stdout,
    reason = "with --nocapture, every message can be read"
)]
pub(super) fn check(row: &Row, program: &impl Fn() -> Command) {
    for foreground in [true, false] {
        let mut command = program();
        command
            .args(&row.args)
            .envs(row.variables.iter().map(|(name, value)| (name, value)));
        if foreground {
            command.arg("--foreground");
        }
        let shown = format!("{} (foreground {foreground})", row.what);
        let start = Instant::now();
        let (code, stdout, stderr) = end_of(command, &shown);
        let took = start.elapsed();
        println!("{took:?} {shown}: {stderr}");
        assert_eq!(code, Some(row.code), "{shown}: {stderr}");
        for text in &row.texts {
            assert!(
                stderr.contains(text),
                "{shown}: {text:?} is not in: {stderr}"
            );
        }
        // In the foreground the log goes to standard output, and the reason to standard error.
        assert!(foreground || stdout.is_empty(), "{shown}: {stdout}");
        for unwanted in ["panicked", "stack backtrace", "RUST_BACKTRACE"] {
            assert!(!stderr.contains(unwanted), "{shown}: {stderr}");
        }
        for secret in SECRETS {
            assert!(!stderr.contains(secret), "{shown}: {stderr}");
        }
        if row.code == 1 {
            let is_one_line = stderr.lines().any(|line| {
                line.starts_with("mount-s3: ") && row.texts.iter().all(|text| line.contains(text))
            });
            assert!(is_one_line, "{shown}: the reason is one line: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{shown}: {stderr}");
        }
        // Far more than the slowest row takes on an idle machine.
        assert!(took < PATIENCE * 2, "{shown} took {took:?}");
    }
}

/// Exit code, output and messages of a start that must end.
///
/// A start that does not end is killed.
fn end_of(mut command: Command, shown: &str) -> (Option<i32>, String, String) {
    let root = tempfile::tempdir().unwrap();
    let (out, err) = (root.path().join("out"), root.path().join("err"));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            // A process that did mount unmounts at SIGTERM.
            kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).ok();
            wait_for_exit(&mut child, PATIENCE);
            panic!(
                "{shown} did not end: {}",
                std::fs::read_to_string(&err).unwrap()
            );
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    (child.wait().unwrap().code(), text(&out), text(&err))
}

/// A directory to mount at; its drop unmounts a start that unexpectedly succeeded.
pub(super) struct Target(tempfile::TempDir);

impl Target {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if crate::harness::is_mounted(self.path()) {
            run("umount", &["-l", self.path().to_str().unwrap()]);
        }
    }
}

/// Rows that run at the same time. Most of them wait, for a timeout or for each other.
const AT_ONCE: usize = 6;
