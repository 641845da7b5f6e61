//! An embedded server, a mounted `mount-s3` process, and the helpers of the tests.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use mountpoint_client::credentials::{CredentialsMode, StaticKeys};
use mountpoint_client::testing::server::{Operation, RuleId, Server, ServerOptions};
use mountpoint_client::{CrtClient, CrtClientOptions};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::servers::{self, Program};

pub(crate) const BUCKET: &str = "test-bucket";
pub(crate) const ACCESS_KEY: &str = "test-access-key";
pub(crate) const SECRET_KEY: &str = "test-secret-key";

/// Room of a cache in tests: with a limit, little of the machine's disk has to be free.
pub(crate) const CACHE_ROOM: [&str; 2] = ["--max-cache-size", "2000"];

/// Longer than any step of a healthy test on a loaded machine. The wait is full only after a
/// failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A step that takes so long has waited for a forbidden event.
///
/// This is no measure of speed: a starved machine needs a tenth of it.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// A server with an empty bucket that wants signed requests.
pub(crate) fn server() -> Server {
    let credentials = Some((ACCESS_KEY.to_owned(), SECRET_KEY.to_owned()));
    let server = Server::start(ServerOptions {
        credentials,
        ..ServerOptions::default()
    })
    .unwrap();
    server.store().create_bucket(BUCKET);
    server
}

/// Variable that selects the transport of mounts: by default `/dev/fuse`.
pub(crate) const TRANSPORT: &str = "MOUNTPOINT_FUSE_TRANSPORT";

/// Variable that has every mount stage the files that it writes, with more flags in it: for tests
/// of programs, which are run with it once more.
pub(crate) const STAGED: &str = "MOUNTPOINT_TEST_STAGED";

/// Whether every mount stages the files that it writes.
pub(crate) fn is_staged() -> bool {
    std::env::var_os(STAGED).is_some()
}

/// A client of a server in another process, and the runtime that it needs.
pub(crate) fn client_of(server: &Program) -> (Runtime, CrtClient) {
    let runtime = Runtime::new().unwrap();
    let keys = StaticKeys {
        access_key_id: servers::ACCESS_KEY.to_owned(),
        secret_access_key: servers::SECRET_KEY.to_owned(),
        session_token: None,
    };
    let options = CrtClientOptions {
        endpoint_url: Some(server.endpoint().to_owned()),
        force_path_style: true,
        credentials: CredentialsMode::Static(keys),
        ..CrtClientOptions::new(servers::BUCKET)
    };
    let client = runtime.block_on(CrtClient::connect(options, runtime.handle().clone()));
    let client = client.unwrap();
    (runtime, client)
}

/// `mount-s3` with credentials and without this machine's other AWS settings.
pub(crate) fn mount_s3() -> Command {
    with_keys(env!("CARGO_BIN_EXE_mount-s3"))
}

/// A shell script in a mount namespace of its own, with the server's keys.
///
/// The script ends with the first command that fails. The namespace lacks the mounts of other
/// tests: there they would outlive the unmount by their test.
pub(crate) fn script_in_namespace(script: &str) -> Command {
    let script = format!(
        "awk '/ - fuse.mount-s3 / {{ print $5 }}' /proc/self/mountinfo | xargs -r umount -l 2> /dev/null || true\n{script}"
    );
    let mut command = with_keys("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command.args(["bash", "-euo", "pipefail", "-c", &script]);
    command
}

/// A program whose environment holds the server's keys and little else.
pub(crate) fn with_keys(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env(TRANSPORT, "dev-fuse")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .stdin(Stdio::null());
    command
}

/// A mounted bucket; dropping it unmounts and checks that the process ends.
///
/// After a failed test the drop shows the command and the last lines of the log.
#[derive(Debug)]
pub(crate) struct Mounted {
    process: Child,
    directory: TempDir,
    ended: bool,
    command: String,
    log: File,
    #[expect(dead_code, reason = "dropped")]
    staging: Option<TempDir>,
}

impl Mounted {
    /// Mounts the server's bucket with more arguments.
    pub(crate) fn new(server: &Server, args: &[&str]) -> Self {
        Self::with(server, args, |_| ())
    }

    /// Mounts without hedged GETs. On a busy machine any GET may be late, and these tests count
    /// them all.
    pub(crate) fn unhedged(server: &Server, args: &[&str]) -> Self {
        Self::with(server, args, |command| {
            command.env("MOUNTPOINT_HEDGING", "false");
        })
    }

    /// Mounts with a changed command: more variables, another user.
    pub(crate) fn with(server: &Server, args: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        Self::of(mount_s3(), server, args, change)
    }

    /// Mounts with a program and its arguments before the command.
    pub(crate) fn behind(
        server: &Server,
        before: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = with_keys(before[0]);
        command.args(&before[1..]).arg(mount_s3().get_program());
        Self::of(command, server, &[], change)
    }

    fn of(
        mut command: Command,
        server: &Server,
        args: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Self {
        command.args([
            BUCKET,
            "--endpoint-url",
            &server.url(),
            "--force-path-style",
        ]);
        command.args(args);
        change(&mut command);
        let staging = std::env::var(STAGED).ok().map(|flags| {
            let staging = tempfile::tempdir().unwrap();
            command.args(["--allow-changes", "--staging"]);
            command.arg(staging.path()).args(flags.split_whitespace());
            staging
        });
        Self::start_with(command, staging)
    }

    /// Mounts the bucket of a server in another process.
    pub(crate) fn on(server: &Program, args: &[&str]) -> Self {
        let mut command = mount_s3();
        command
            .args([servers::BUCKET, "--endpoint-url", server.endpoint()])
            .arg("--force-path-style")
            .args(args)
            .env("AWS_ACCESS_KEY_ID", servers::ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", servers::SECRET_KEY);
        Self::start(command)
    }

    /// Runs a whole command; the directory and `--foreground` are added.
    pub(crate) fn start(command: Command) -> Self {
        Self::start_with(command, None)
    }

    /// As [`Self::start`]; the directory of staged files lives as long as the mount.
    fn start_with(mut command: Command, staging: Option<TempDir>) -> Self {
        let log = tempfile::tempfile().unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(directory.path(), None, None).unwrap();
        command
            .arg(directory.path())
            .arg("--foreground")
            .stdout(log.try_clone().unwrap())
            .stderr(log.try_clone().unwrap());
        let process = command.spawn().unwrap();
        let words = command.get_args().map(OsStr::to_string_lossy);
        let mut mounted = Self {
            process,
            directory,
            ended: false,
            command: words.collect::<Vec<_>>().join(" "),
            log,
            staging,
        };
        let mut ended = None;
        while !mounted.log().contains("is mounted at") {
            assert!(ended.is_none(), "not mounted: {ended:?}");
            // The last output is read once more.
            ended = mounted.process.try_wait().unwrap();
            mounted.ended = ended.is_some();
            std::thread::sleep(Duration::from_millis(1));
        }
        mounted
    }

    /// The log of the process.
    pub(crate) fn log(&self) -> String {
        text_of(&self.log)
    }

    /// The file of the log, which outlives the process.
    pub(crate) fn log_file(&self) -> File {
        self.log.try_clone().unwrap()
    }

    /// Shows the log of a failed test; libtest prints it behind the assertion.
    #[expect(clippy::print_stderr, reason = "shown with the test's own output")]
    fn show(&self) {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let from = lines.len().saturating_sub(LINES_SHOWN);
        eprintln!("\nmount-s3 {}: {} lines of log", self.command, lines.len());
        for line in &lines[from..] {
            eprintln!("{}", line.chars().take(LINE_SHOWN).collect::<String>());
        }
    }

    /// The mount point.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A path in the mount.
    pub(crate) fn join(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).unwrap())
    }

    /// Sends a signal and waits for the end of the process.
    pub(crate) fn signal(mut self, signal: Signal) -> (ExitStatus, Duration) {
        let start = Instant::now();
        kill(self.pid(), signal).unwrap();
        let status = self.wait();
        (status, start.elapsed())
    }

    /// Kills the process, and takes the dead mount away.
    pub(crate) fn kill(self) {
        let directory = self.path().to_owned();
        self.signal(Signal::SIGKILL);
        umount2(&directory, MntFlags::MNT_DETACH).unwrap();
    }

    /// Unmounts and waits for the end of the process.
    pub(crate) fn unmount(mut self) -> ExitStatus {
        unmount(self.path());
        self.wait()
    }

    /// Waits for the end of the process of a mount that was detached.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.wait()
    }

    fn wait(&mut self) -> ExitStatus {
        self.ended = true;
        wait_for_exit(&mut self.process, PATIENCE)
    }
}

/// The text of a log.
pub(crate) fn text_of(log: &File) -> String {
    let mut bytes = vec![0; usize::try_from(log.metadata().unwrap().len()).unwrap()];
    log.read_exact_at(&mut bytes, 0).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Lines of the log that a failed test shows.
const LINES_SHOWN: usize = 20;
const LINE_SHOWN: usize = 400;
impl Drop for Mounted {
    fn drop(&mut self) {
        let is_failure = std::thread::panicking();
        if is_failure {
            self.show();
        }
        if self.ended {
            return;
        }
        kill(self.pid(), Signal::SIGTERM).ok();
        let status = wait_for_exit(&mut self.process, PATIENCE);
        if !is_failure {
            assert!(status.success(), "mount-s3 ended with {status:?}");
            assert!(
                !is_mounted(self.path()),
                "{} is still mounted",
                self.path().display()
            );
        }
    }
}

/// Waits for a child with a bound. A child that outlives it is killed and fails the test.
pub(crate) fn wait_for_exit(child: &mut Child, patience: Duration) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > patience {
            child.kill().ok();
            child.wait().ok();
            return ExitStatus::from_raw(Signal::SIGKILL as i32);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a rule ([`Fault::Hold`]) holds so many requests, and releases them.
///
/// [`Fault::Hold`]: mountpoint_client::testing::server::Fault::Hold
#[track_caller]
pub(crate) fn release_when_in_flight(server: &Server, of: Operation, rule: RuleId, least: u64) {
    let log = server.log();
    let came = log.wait_until(of, PATIENCE, |counters| counters.in_flight >= least);
    let counters = log.counters(of);
    server.faults().remove(rule);
    assert!(came, "not {least} at once: {counters:?}");
}

/// Waits until a condition holds, and fails the test after a bound.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Unmounts, repeatedly while the mount is busy.
///
/// A child process that another test is starting inherits this test's open files until it runs its
/// program.
#[track_caller]
pub(crate) fn unmount(directory: &Path) {
    wait_until("the end of its use", || {
        match umount2(directory, MntFlags::empty()) {
            Ok(()) => true,
            Err(Errno::EBUSY) => false,
            Err(error) => panic!("cannot unmount {}: {error}", directory.display()),
        }
    });
}

/// Whether a file system is mounted at this directory.
pub(crate) fn is_mounted(directory: &Path) -> bool {
    // This thread may have a mount namespace of its own.
    let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let directory = directory.to_str().unwrap();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(4) == Some(directory))
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output();
    output.unwrap_or_else(|error| {
        panic!("{program}: {error}; `make test` installs what the tests need")
    })
}

/// Runs a shell script and returns what it printed. A failure of the script fails the test.
#[track_caller]
pub(crate) fn shell(directory: &Path, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{script}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// Reads a whole file.
#[track_caller]
pub(crate) fn read(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let result = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    result.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes
}

/// Makes a new file that is only written: its bytes are sent in their order.
pub(crate) fn create_to_write(path: impl AsRef<Path>) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

/// Writes `data` in pieces of 1 MiB and closes the file. Returns the first error.
pub(crate) fn write_and_close(mut file: File, data: &[u8]) -> io::Result<()> {
    let mut pieces = data.chunks(1 << 20);
    let written = pieces.try_for_each(|piece| file.write_all(piece));
    let closed = nix::unistd::close(file).map_err(io::Error::from);
    written.and(closed)
}

/// Stores a file and clears the log, for tests that count requests.
///
/// The first file of a mount begins an upload that proves the permission to write.
pub(crate) fn store_the_first(server: &Server, mounted: &Mounted) {
    let aborts = || server.log().count(Operation::AbortMultipartUpload);
    let before = aborts();
    std::fs::write(mounted.join("the-first"), "x").unwrap();
    assert!(server.store().delete(BUCKET, "the-first"));
    wait_until("the abort of its upload", || aborts() > before);
    server.log().clear();
}

/// Puts a small object.
pub(crate) fn put(server: &Server, key: &str, body: impl Into<Vec<u8>>) {
    server.store().put(BUCKET, key, body.into());
}

/// The objects below `prefix` in the store: contents, by the rest of their keys.
pub(crate) fn below(server: &Server, bucket: &str, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let keys = server.store().keys(bucket);
    let names = keys.iter().filter_map(|key| key.strip_prefix(prefix));
    let content = |name: &str| {
        let object = server.store().object(bucket, &format!("{prefix}{name}"));
        object.unwrap().bytes().to_vec()
    };
    names.map(|name| (name.to_owned(), content(name))).collect()
}
