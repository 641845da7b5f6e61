//! The process beside the mount: logs and their level, PID file, service manager, terminal.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    BUCKET, Mounted, PATIENCE, is_mounted, mount_s3, put, run, server, unmount, wait_for_exit,
    wait_until,
};
use crate::machine::{bare_devices, bind, fuse_device, in_private_namespace};

/// `mount-s3` of the server's bucket, to go into the background.
fn command(server: &Server, directory: &Path, args: &[&str]) -> Command {
    let mut command = mount_s3();
    command
        .arg(BUCKET)
        .arg(directory)
        .args(["--endpoint-url", &server.url(), "--force-path-style"])
        .args(args);
    command
}

fn pid_in(file: &Path) -> Pid {
    let text = std::fs::read_to_string(file).unwrap();
    Pid::from_raw(text.trim().parse().unwrap())
}

fn only_file(directory: &Path) -> PathBuf {
    let files: Vec<_> = directory.read_dir().unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].as_ref().unwrap().path()
}

#[test]
fn log_files_are_private_and_the_pid_file_lives_with_the_mount() {
    let server = server();
    let (directory, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (logs, pid_file) = (root.path().join("a/logs"), root.path().join("pid"));
    // The PID file of a killed process.
    std::fs::write(&pid_file, "1\n").unwrap();
    let output = command(
        &server,
        directory.path(),
        &["-l", logs.to_str().unwrap(), "-d"],
    )
    .env("UNSTABLE_MOUNTPOINT_PID_FILE", &pid_file)
    .output()
    .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    // The file is written before the terminal is told, so it exists.
    let process = PathBuf::from(format!("/proc/{}", pid_in(&pid_file)));
    let program = process.join("exe").read_link().unwrap();
    assert_eq!(program.file_name().unwrap(), "mount-s3");
    let log = only_file(&logs);
    for (path, mode) in [(&logs, 0o700), (&log, 0o600)] {
        let found = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{}", path.display());
    }
    unmount(directory.path());
    wait_until("the end of the PID file", || !pid_file.exists());
    wait_until("the end of the process", || !process.exists());
    let log = std::fs::read_to_string(log).unwrap();
    assert!(
        log.contains("FUSE negotiated") && log.contains("unmounted"),
        "{log}"
    );
    for secret in [crate::harness::SECRET_KEY, crate::harness::ACCESS_KEY] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn sigusr2_changes_the_log_level_round_and_round() {
    let server = server();
    let (directory, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (logs, pid_file) = (root.path().join("logs"), root.path().join("pid"));
    let output = command(&server, directory.path(), &["-l", logs.to_str().unwrap()])
        .env("UNSTABLE_MOUNTPOINT_PID_FILE", &pid_file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = only_file(&logs);
    let read = || std::fs::read_to_string(&log).unwrap();
    let mut lines = 0;
    for level in ["info", "debug", "trace", "error", "warn", "info"] {
        kill(pid_in(&pid_file), Signal::SIGUSR2).unwrap();
        let text = format!("log level is now {level} (SIGUSR2)");
        wait_until(&text, || {
            let (found, at) = (read(), text.as_str());
            found.lines().skip(lines).any(|line| line.contains(at))
        });
        // The lines of the current level: each lookup of a name is a line of level trace.
        let before = read().lines().count();
        std::fs::metadata(directory.path().join(format!("no-{level}"))).unwrap_err();
        let traced = read()
            .lines()
            .skip(before)
            .any(|line| line.contains("TRACE"));
        assert_eq!(traced, level == "trace", "{level}");
        lines = read().lines().count();
    }
    unmount(directory.path());
    wait_until("the end", || !pid_file.exists());
}

#[test]
fn sigusr2_is_harmless_without_a_log() {
    let server = server();
    put(&server, "file", "x");
    let mounted = Mounted::new(&server, &["--no-log"]);
    for _ in 0..3 {
        kill(mounted.pid(), Signal::SIGUSR2).unwrap();
    }
    assert_eq!(std::fs::read(mounted.join("file")).unwrap(), b"x");
    assert_eq!(mounted.unmount().code(), Some(0));
}

#[test]
fn a_filter_from_the_environment_wins_over_debug() {
    let server = server();
    for (filter, expected) in [("info", false), ("mountpoint_fs=trace", true)] {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join("logs");
        let mounted = Mounted::with(&server, &["-l", logs.to_str().unwrap(), "-d"], |command| {
            command.env("MOUNTPOINT_LOG", filter);
        });
        std::fs::metadata(mounted.join("absent")).unwrap_err();
        let log = std::fs::read_to_string(only_file(&logs)).unwrap();
        assert_eq!(log.contains("TRACE"), expected, "{filter}: {log}");
        assert_eq!(log.contains("FUSE negotiated"), expected, "{filter}: {log}");
    }
}

#[test]
fn the_background_logs_to_syslog() {
    let server = server();
    in_private_namespace(|| {
        let (directory, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let socket = root.path().join("log");
        let syslog = UnixDatagram::bind(&socket).unwrap();
        bare_devices();
        fuse_device(root.path(), 0o600);
        std::fs::write("/dev/log", "").unwrap();
        bind(&socket, "/dev/log");
        let output = command(&server, directory.path(), &["--debug"])
            .output()
            .unwrap();
        unmount(directory.path());
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        syslog.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 8192];
        loop {
            let len = syslog.recv(&mut buffer).expect("a line about FUSE comes");
            let line = String::from_utf8_lossy(&buffer[..len]);
            assert!(line.contains("mount-s3["), "{line}");
            if line.contains("FUSE negotiated") {
                // Facility daemon (3), severity info (6).
                assert!(line.starts_with("<30>"), "{line}");
                break;
            }
        }
    });
}

/// A mounted process that cannot go into the background reports that and unmounts.
#[test]
fn a_terminal_that_cannot_be_left_is_a_failure() {
    let server = server();
    in_private_namespace(|| {
        let (directory, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        bare_devices();
        fuse_device(root.path(), 0o600);
        let mut command = command(&server, directory.path(), &["--no-log"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(Stdio::piped());
        std::fs::remove_file("/dev/null").ok();
        let child = command.spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("cannot go into the background"), "{stderr}");
        assert!(!is_mounted(directory.path()), "{stderr}");
    });
}

#[test]
fn what_is_lost_is_said_on_the_terminal() {
    let server = server();
    in_private_namespace(|| {
        let (directory, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        bare_devices();
        fuse_device(root.path(), 0o600);
        // Once a boot, as far as that can be remembered.
        let state = root.path().join("state");
        let state = ["--state-directory", state.to_str().unwrap()];
        for is_first in [true, false] {
            let output = command(&server, directory.path(), &state).output().unwrap();
            unmount(directory.path());
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{stderr}");
            assert_eq!(stderr.contains("there is no syslog"), is_first, "{stderr}");
        }
        let state = ["--state-directory", "/proc/no-such-directory"];
        let output = command(&server, directory.path(), &state).output().unwrap();
        unmount(directory.path());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let [log, uploads] = stderr.lines().collect::<Vec<_>>()[..] else {
            panic!("{stderr}");
        };
        assert!(
            log.starts_with("mount-s3: there is no syslog here"),
            "{log}"
        );
        assert!(log.contains("--log-directory"), "{log}");
        assert!(
            uploads.starts_with("mount-s3: unfinished uploads"),
            "{uploads}"
        );
        assert!(uploads.contains(state[1]), "{uploads}");
    });
}

#[test]
fn a_service_manager_is_told() {
    let server = server();
    let root = tempfile::tempdir().unwrap();
    let socket = root.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let receive = || {
        let mut buffer = [0; 1024];
        let len = manager.recv(&mut buffer).expect("the manager is told");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    let mounted = Mounted::with(&server, &[], |command| {
        command.env("NOTIFY_SOCKET", &socket);
    });
    let directory = mounted.path().to_owned();
    let ready = receive();
    assert!(
        ready.starts_with("READY=1\nSTATUS=bucket test-bucket is mounted at"),
        "{ready}"
    );
    assert!(is_mounted(&directory));
    let (status, _) = mounted.signal(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0));
    assert_eq!(receive(), "STOPPING=1");
}

/// Ctrl-C ends both processes of a start, which are in the terminal's group.
#[test]
fn ctrl_c_ends_a_start_that_waits() {
    let server = server();
    let rule = server
        .faults()
        .add(Rule::on(Operation::ListObjectsV2, Fault::BlackHole));
    let directory = tempfile::tempdir().unwrap();
    let mut starting = command(&server, directory.path(), &["--no-log"]);
    let mut starting = starting
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the first request", || {
        server.faults().fired(rule).is_some_and(|fired| fired > 0)
    });
    let group = Pid::from_raw(i32::try_from(starting.id()).unwrap());
    nix::sys::signal::killpg(group, Signal::SIGINT).unwrap();
    wait_for_exit(&mut starting, PATIENCE);
    // The pipe ends when the last process that has it ends.
    let mut rest = String::new();
    let mut stdout = starting.stdout.take().unwrap();
    std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
    assert_eq!(rest, "");
    assert!(!is_mounted(directory.path()));
}

/// A background process that neither mounts nor fails is ended.
#[test]
fn a_start_that_is_stuck_is_ended() {
    let server = server();
    let rule = server
        .faults()
        .add(Rule::on(Operation::ListObjectsV2, Fault::BlackHole));
    let directory = tempfile::tempdir().unwrap();
    let mut told = String::new();
    // A slow machine needs longer to reach the first request, and to stop its sender.
    for timeout in ["3", "12", "48"] {
        let before = server.faults().fired(rule);
        let mut starting = command(&server, directory.path(), &["--no-log"])
            .env("MOUNTPOINT_START_TIMEOUT", timeout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the first request", || {
            server.faults().fired(rule) > before || starting.try_wait().unwrap().is_some()
        });
        let child = run("pgrep", &["-P", &starting.id().to_string()]).stdout;
        let child: Option<i32> = String::from_utf8(child).unwrap().trim().parse().ok();
        // A stopped process cannot do anything, not even end at a signal.
        let stopped = child.filter(|child| kill(Pid::from_raw(*child), Signal::SIGSTOP).is_ok());
        let output = starting.wait_with_output().unwrap();
        told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        if let Some(child) = stopped
            && told.contains(&format!("not mounted after {timeout} s"))
        {
            assert!(told.contains("--foreground --debug"), "{told}");
            return wait_until("the end of the process", || {
                let status = std::fs::read_to_string(format!("/proc/{child}/status"));
                status.is_ok_and(|status| status.contains("State:\tZ"))
                    || !Path::new(&format!("/proc/{child}")).exists()
            });
        }
    }
    panic!("{told}");
}

/// A start whose terminal has gone away leaves no mount behind.
#[test]
fn a_start_that_nobody_waits_for_mounts_nothing() {
    let server = server();
    let rule = server
        .faults()
        .add(Rule::on(Operation::ListObjectsV2, Fault::Hold));
    let (directory, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let args = ["-l", logs.path().to_str().unwrap()];
    let mut starting = command(&server, directory.path(), &args).spawn().unwrap();
    wait_until("the first request", || {
        server.faults().fired(rule).is_some_and(|fired| fired > 0)
    });
    starting.kill().unwrap();
    starting.wait().unwrap();
    server.faults().remove(rule);
    wait_until("the end of the start", || {
        std::fs::read_to_string(only_file(logs.path()))
            .unwrap()
            .contains("the process that started it has ended")
    });
    wait_until("the end of the mount", || !is_mounted(directory.path()));
}

#[test]
fn a_mount_point_that_is_not_empty_is_remarked_on() {
    let server = server();
    put(&server, "file", "x");
    let (directory, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(directory.path().join("hidden"), "y").unwrap();
    let args = ["-l", logs.path().to_str().unwrap()];
    let output = command(&server, directory.path(), &args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let names: Vec<_> = directory
        .path()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["file"]);
    unmount(directory.path());
    assert!(directory.path().join("hidden").exists());
    let log = std::fs::read_to_string(only_file(logs.path())).unwrap();
    assert!(log.contains("the mount point is not empty"), "{log}");
}
