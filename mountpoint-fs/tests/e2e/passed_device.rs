//! `mount-s3 BUCKET /dev/fd/N`: a launcher with privileges opens and mounts, the program runs without any.

use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use mountpoint_client::server::{Fault, Operation, Rule, Server};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{BUCKET, HANG, PATIENCE, put, server, unmount, wait_for_exit, wait_until};
use crate::machine::Somebody;

/// A mount that a launcher made, and the program that serves it as another user.
struct Launched {
    somebody: Somebody,
    process: Child,
    stderr: std::path::PathBuf,
}

/// What the launcher does: opens `/dev/fuse`, mounts with it.
fn open_and_mount(directory: &Path, somebody: &Somebody) -> OwnedFd {
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .unwrap();
    let options = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions,allow_other",
        device.as_raw_fd(),
        uid = somebody.user.uid,
        gid = somebody.user.gid,
    );
    let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOATIME;
    mount(
        Some("mountpoint-s3"),
        directory,
        Some("fuse"),
        flags,
        Some(options.as_str()),
    )
    .unwrap();
    device.into()
}

/// The program with `device` as descriptor 7. It comes as standard input, so that no other test's child inherits it.
fn with_device(program: &Command, device: OwnedFd, somebody: &Somebody) -> Command {
    let mut command = somebody.command("bash");
    command
        .args(["-c", "exec 7<&0 </dev/null; exec \"$@\"", "bash"])
        .arg(program.get_program())
        .args(program.get_args())
        .env_clear()
        .envs(
            program
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(device);
    command
}

impl Launched {
    fn new(server: &Server, args: &[&str]) -> Self {
        let somebody = Somebody::new("nobody");
        let device = open_and_mount(&somebody.directory(), &somebody);
        let stderr = somebody.root().join("stderr");
        let mut program = somebody.mount_s3();
        program.args([
            BUCKET,
            "/dev/fd/7",
            "--foreground",
            "--endpoint-url",
            &server.url(),
            "--force-path-style",
        ]);
        program.args(args);
        let mut process = with_device(&program, device, &somebody)
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let log = std::fs::read_to_string(&stderr).unwrap();
        assert!(line.contains("is mounted at /dev/fd/7"), "{line:?} {log}");
        Self {
            somebody,
            process,
            stderr,
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().unwrap())
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        // What the launcher does at the end, and after a failed test.
        umount2(&self.somebody.directory(), MntFlags::MNT_DETACH).ok();
        wait_for_exit(&mut self.process, PATIENCE);
    }
}

#[test]
fn files_are_read_and_an_unmount_ends_it_with_0() {
    let server = server();
    put(&server, "dir/file", "hello");
    // As the driver starts it.
    let args = ["--allow-other", "--user-agent-prefix", "s3-csi-driver/2.0"];
    let mut launched = Launched::new(&server, &args);
    let directory = launched.somebody.directory();
    let status = std::fs::read_to_string(format!("/proc/{}/status", launched.pid())).unwrap();
    let uid = format!("Uid:\t{}", launched.somebody.user.uid);
    assert!(status.contains(&uid), "{status}");
    assert_eq!(std::fs::read(directory.join("dir/file")).unwrap(), b"hello");
    assert!(Somebody::new("daemon").can_read(&directory.join("dir/file")));
    unmount(&directory);
    assert_eq!(
        wait_for_exit(&mut launched.process, PATIENCE).code(),
        Some(0)
    );
}

/// The launcher mounted for writing: new files are written, and the file system itself refuses what needs a flag.
#[test]
fn new_files_are_written_and_what_needs_a_flag_is_refused() {
    let server = server();
    put(&server, "file", "hello");
    let launched = Launched::new(&server, &[]);
    let directory = launched.somebody.directory();
    let (file, new) = (directory.join("file"), directory.join("new"));
    std::fs::write(&new, "x").unwrap();
    assert_eq!(std::fs::read(&new).unwrap(), b"x");
    let error = std::fs::write(&file, "x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    assert_eq!(std::fs::read(&file).unwrap(), b"hello");
    let log = std::fs::read_to_string(&launched.stderr).unwrap();
    assert!(log.contains("--allow-overwrite"), "{log}");
}

/// It cannot unmount: it ends all the same, within bounds, with requests in progress and without.
#[test]
fn sigterm_ends_it_although_it_cannot_unmount() {
    let server = server();
    put(&server, "file", "hello");
    for busy in [false, true] {
        let mut launched = Launched::new(&server, &[]);
        let file = launched.somebody.directory().join("file");
        // Whichever of them it takes to open and to read.
        let rules = [
            Operation::HeadObject,
            Operation::ListObjectsV2,
            Operation::GetObject,
        ]
        .map(|operation| server.faults().add(Rule::on(operation, Fault::BlackHole)));
        let hangs = |rule| server.faults().fired(rule).is_some_and(|fired| fired > 0);
        let reader = busy.then(|| {
            let reader = Command::new("cat").arg(&file).stderr(Stdio::null()).spawn();
            wait_until("a request that hangs", || rules.into_iter().any(hangs));
            reader.unwrap()
        });
        let start = Instant::now();
        kill(launched.pid(), Signal::SIGTERM).unwrap();
        let status = wait_for_exit(&mut launched.process, PATIENCE);
        let took = start.elapsed();
        assert_eq!(status.code(), Some(0), "busy {busy}");
        assert!(took < HANG, "busy {busy}: {took:?}");
        if let Some(mut reader) = reader {
            assert!(!wait_for_exit(&mut reader, PATIENCE).success());
        }
        // The name is still there, and says so: whoever mounted unmounts. Over io_uring the kernel notices the end of
        // the process a moment after it, and ends what it was asked in between with another error.
        wait_until("the end of the connection", || {
            let error = std::fs::metadata(&file).unwrap_err();
            error.kind() == std::io::ErrorKind::NotConnected
        });
        server.faults().clear();
    }
}

/// Who writes a file may close it first.
#[test]
fn sigterm_lets_a_file_be_closed_that_is_being_written() {
    let server = server();
    let mut launched = Launched::new(&server, &[]);
    let mut file = File::create(launched.somebody.directory().join("new")).unwrap();
    file.write_all(b"hello").unwrap();
    kill(launched.pid(), Signal::SIGTERM).unwrap();
    wait_until("the signal", || {
        let log = std::fs::read_to_string(&launched.stderr).unwrap();
        log.contains("cannot unmount it")
    });
    file.write_all(b" world").unwrap();
    nix::unistd::close(file).unwrap();
    let status = wait_for_exit(&mut launched.process, PATIENCE);
    assert_eq!(status.code(), Some(0));
    // Not at the end of the time that it would have had.
    let log = std::fs::read_to_string(&launched.stderr).unwrap();
    assert!(!log.contains("open to the end"), "{log}");
    let stored = server.store().object(BUCKET, "new").unwrap();
    assert_eq!(stored.bytes(), "hello world");
}

/// In the background as well: the descriptor survives the fork, and the launcher's copy may be closed.
#[test]
fn it_goes_into_the_background() {
    let server = server();
    put(&server, "file", "hello");
    let somebody = Somebody::new("nobody");
    let directory = somebody.directory();
    let device = open_and_mount(&directory, &somebody);
    let mut program = somebody.mount_s3();
    program.args([
        BUCKET,
        "/dev/fd/7",
        "--endpoint-url",
        &server.url(),
        "--force-path-style",
        "--no-log",
    ]);
    let output = with_device(&program, device, &somebody).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let content = std::fs::read(directory.join("file"));
    umount2(&directory, MntFlags::MNT_DETACH).unwrap();
    assert_eq!(content.unwrap(), b"hello");
}

/// Wrong ways to pass a descriptor, or to pass none.
#[test]
fn what_is_not_a_mounted_device_is_refused() {
    let somebody = Somebody::new("nobody");
    let open = |path| File::options().read(true).write(true).open(path).unwrap();
    for (what, path, args, message) in [
        (
            "not passed",
            "/dev/null",
            vec!["/dev/fd/9"],
            "descriptor 9 is not open",
        ),
        (
            "another file",
            "/dev/null",
            vec!["/dev/fd/7"],
            "not an open /dev/fuse",
        ),
        (
            "a standard stream",
            "/dev/null",
            vec!["/dev/fd/0"],
            "not an open /dev/fuse",
        ),
        (
            "not mounted",
            "/dev/fuse",
            vec!["/dev/fd/7"],
            "must have mounted with it",
        ),
        (
            "--read-only",
            "/dev/fuse",
            vec!["/dev/fd/7", "--read-only"],
            "--read-only cannot be used with /dev/fd/7",
        ),
        (
            "--auto-unmount",
            "/dev/fuse",
            vec!["/dev/fd/7", "--auto-unmount"],
            "--auto-unmount cannot be used with /dev/fd/7",
        ),
    ] {
        let server = server();
        let mut program = somebody.mount_s3();
        program.args([
            BUCKET,
            "--foreground",
            "--endpoint-url",
            &server.url(),
            "--force-path-style",
        ]);
        program.args(args);
        let output = with_device(&program, open(path).into(), &somebody)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {stderr}");
        assert!(stderr.contains(message), "{what}: {stderr}");
    }
}
