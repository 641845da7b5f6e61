//! `mount-s3 BUCKET /dev/fd/N`: a privileged launcher opens and mounts, the program needs no
//! privileges.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, synthetic_bytes};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    BUCKET, HANG, PATIENCE, put, run, server, unmount, wait_for_exit, wait_until,
};
use crate::machine::Somebody;
use crate::metrics::stats;

/// A mount that a launcher made, and the program that serves it as another user.
struct Launched {
    somebody: Somebody,
    process: Child,
    log: std::path::PathBuf,
    stderr: std::path::PathBuf,
}

/// The launcher's part: opens `/dev/fuse` and mounts with it.
pub(super) fn open_and_mount(directory: &Path, somebody: &Somebody) -> OwnedFd {
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

/// The program with `device` as descriptor `number`.
///
/// The device is passed as standard input, so that no other test's child inherits it.
pub(super) fn with_device(
    program: &Command,
    number: u8,
    device: OwnedFd,
    somebody: &Somebody,
) -> Command {
    let mut command = somebody.command("bash");
    command
        .arg("-c")
        .arg(format!("exec {number}<&0 </dev/null; exec \"$@\""))
        .arg("bash")
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
        let [log, stderr] = ["log", "stderr"].map(|name| somebody.root().join(name));
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
        let mut process = with_device(&program, 7, device, &somebody)
            .stdout(File::create(&log).unwrap())
            .stderr(File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let read = |path| std::fs::read_to_string(path).unwrap();
        wait_until("the start", || {
            let has_ended = process.try_wait().unwrap().is_some();
            assert!(!has_ended, "{} {}", read(&log), read(&stderr));
            read(&log).contains("is mounted at /dev/fd/7")
        });
        Self {
            somebody,
            process,
            log,
            stderr,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().unwrap())
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        // The launcher's part at the end, and after a failed test.
        umount2(&self.somebody.directory(), MntFlags::MNT_DETACH).ok();
        wait_for_exit(&mut self.process, PATIENCE);
    }
}

#[test]
fn files_are_read_and_an_unmount_ends_it_with_0() {
    let server = server();
    put(&server, "dir/file", "hello");
    // The arguments of the CSI driver.
    let args = ["--allow-other", "--user-agent-prefix", "s3-csi-driver/2.0"];
    let mut launched = Launched::new(&server, &args);
    let directory = launched.somebody.directory();
    let status = std::fs::read_to_string(format!("/proc/{}/status", launched.pid())).unwrap();
    let uid = format!("Uid:\t{}", launched.somebody.user.uid);
    assert!(status.contains(&uid), "{status}");
    assert_eq!(std::fs::read(directory.join("dir/file")).unwrap(), b"hello");
    assert!(Somebody::new("daemon").can_read(&directory.join("dir/file")));
    // Root sees the mount of another user, at the launcher's directory.
    let document = stats::document(&directory);
    assert_eq!(document["mount"]["directory"], directory.to_str().unwrap());
    assert_eq!(
        document["mount"]["uid"],
        launched.somebody.user.uid.as_raw()
    );
    // The second read may be answered by the page cache.
    assert!(stats::number(&document, "fuse.total_bytes", "read") >= 5.0);
    unmount(&directory);
    assert_eq!(
        wait_for_exit(&mut launched.process, PATIENCE).code(),
        Some(0)
    );
}

/// As the CSI driver passes it. Such a process may not have the kernel read files of the cache.
#[test]
fn a_cache_serves_the_next_mount() {
    let server = server();
    let content = synthetic_bytes(1, 0..9_000_000);
    put(&server, "file", content.clone());
    let cache = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(cache.path(), Some(65534), Some(65534)).unwrap();
    let flag = format!("--cache={}", cache.path().display());
    for expected in [true, false] {
        let mut launched =
            Launched::new(&server, &["--allow-other", &flag, "--max-cache-size=1000"]);
        server.log().clear();
        let directory = launched.somebody.directory();
        for _ in 0..2 {
            let read = std::fs::read(directory.join("file")).unwrap();
            assert!(read == content, "another content");
        }
        let gets = server.log().counters(Operation::GetObject).requests;
        assert_eq!(gets > 0, expected, "{gets} GETs");
        unmount(&directory);
        let status = wait_for_exit(&mut launched.process, PATIENCE);
        assert!(status.success(), "{status} {}", launched.log());
    }
}

/// The launcher mounted for writing. New files are written, and the file system refuses changes
/// without a flag.
#[test]
fn new_files_are_written_and_what_needs_a_flag_is_refused() {
    let server = server();
    put(&server, "file", "hello");
    let launched = Launched::new(&server, &["--allow-other"]);
    let directory = launched.somebody.directory();
    let (file, new) = (directory.join("file"), directory.join("new"));
    std::fs::write(&new, "x").unwrap();
    assert_eq!(std::fs::read(&new).unwrap(), b"x");
    let error = std::fs::write(&file, "x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    assert_eq!(std::fs::read(&file).unwrap(), b"hello");
    let log = launched.log();
    assert!(log.contains("--allow-overwrite"), "{log}");
    // Standard error is for the reason of a failed start.
    assert_eq!(std::fs::read_to_string(&launched.stderr).unwrap(), "");
}

/// The launcher mounted for writing. The process itself refuses every change, as the kernel does
/// with `ro`.
#[test]
fn nothing_is_changed_with_read_only() {
    let server = server();
    put(&server, "dir/file", "hello");
    let everything = ["--allow-overwrite", "--allow-delete", "--allow-rename"];
    let more = ["--allow-append", "--posix-metadata", "--allow-other"];
    let args = [&everything[..], &more, &["--read-only"]].concat();
    let launched = Launched::new(&server, &args);
    let directory = launched.somebody.directory();
    let file = directory.join("dir/file");
    for change in [
        "> new",
        "> dir/file",
        ">> dir/file",
        "true <> dir/file",
        "mknod node p",
        "mkdir new",
        "rm dir/file",
        "rmdir dir",
        "mv dir/file new",
        "mv dir new",
        "ln -s x new",
        "ln dir/file new",
        "chmod 600 dir/file",
        "touch dir/file",
        "truncate -s 1 dir/file",
        "setfattr -n user.x -v 1 dir/file",
    ] {
        let script = format!("cd {}; {change}", directory.display());
        let output = run("bash", &["-c", &script]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains("Read-only file system"),
            "{change}: {stderr}"
        );
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"hello");
    assert_eq!(server.store().keys(BUCKET), ["dir/file"]);
}

/// The launcher mounted for all users. The flags decide the access, by default the process's user
/// alone.
#[test]
fn only_those_are_let_in_that_the_flags_name() {
    let server = server();
    put(&server, "file", "hello");
    for (args, root, other) in [
        (&[][..], false, false),
        (&["--allow-root"], true, false),
        (&["--allow-other"], true, true),
    ] {
        let launched = Launched::new(&server, args);
        let file = launched.somebody.directory().join("file");
        assert_eq!(std::fs::read(&file).is_ok(), root, "{args:?}");
        assert_eq!(Somebody::new("daemon").can_read(&file), other, "{args:?}");
        assert!(launched.somebody.can_read(&file), "{args:?}");
        // Content that the owner has brought into the kernel's cache is refused, too.
        assert_eq!(std::fs::read(&file).is_ok(), root, "{args:?}");
    }
}

/// The process cannot unmount: it ends nevertheless, within bounds, with requests in progress and
/// without.
#[test]
fn sigterm_ends_it_although_it_cannot_unmount() {
    let server = server();
    put(&server, "file", "hello");
    for busy in [false, true] {
        let mut launched = Launched::new(&server, &["--allow-other"]);
        let file = launched.somebody.directory().join("file");
        // Whichever request the open and the read take.
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
        // The name still exists and shows the dead mount: the mounting process unmounts.
        wait_until("the end of the connection", || {
            let error = std::fs::metadata(&file).unwrap_err();
            error.kind() == std::io::ErrorKind::NotConnected
        });
        server.faults().clear();
    }
}

/// A program that writes a file may close it first.
#[test]
fn sigterm_lets_a_file_be_closed_that_is_being_written() {
    let server = server();
    let mut launched = Launched::new(&server, &["--allow-root"]);
    let mut file = File::create(launched.somebody.directory().join("new")).unwrap();
    file.write_all(b"hello").unwrap();
    kill(launched.pid(), Signal::SIGTERM).unwrap();
    wait_until("the signal", || {
        launched.log().contains("cannot unmount it")
    });
    file.write_all(b" world").unwrap();
    nix::unistd::close(file).unwrap();
    let status = wait_for_exit(&mut launched.process, PATIENCE);
    assert_eq!(status.code(), Some(0));
    // Not at the end of the drain time.
    let log = launched.log();
    assert!(!log.contains("open to the end"), "{log}");
    let stored = server.store().object(BUCKET, "new").unwrap();
    assert_eq!(stored.bytes(), "hello world");
}

/// In the background: the descriptor survives the fork, and the launcher may close its copy.
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
        "--allow-root",
    ]);
    let output = with_device(&program, 7, device, &somebody)
        .output()
        .unwrap();
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
        let output = with_device(&program, 7, open(path).into(), &somebody)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {stderr}");
        assert!(stderr.contains(message), "{what}: {stderr}");
    }
}
