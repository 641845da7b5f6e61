//! The process: its start, its appearance to the kernel, and its end.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use mountpoint_fs::config::scale::max_background;
use nix::sys::signal::{Signal, kill};

use crate::harness::{
    BUCKET, HANG, Mounted, is_mounted, mount_s3, put, read, run, server, unmount, wait_until,
};
use crate::machine::Somebody;

#[test]
fn umount_ends_the_process_with_0() {
    let server = server();
    put(&server, "file", "x");
    let mounted = Mounted::new(&server, &[]);
    read(&mounted.join("file"));
    assert_eq!(mounted.unmount().code(), Some(0));
}

#[test]
fn signals_unmount_and_end() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGXCPU,
    ] {
        let server = server();
        let mounted = Mounted::new(&server, &[]);
        let directory = mounted.path().to_owned();
        let (status, took) = mounted.signal(signal);
        assert_eq!(status.code(), Some(0), "{signal}");
        assert!(took < HANG, "{signal}: {took:?}");
        assert!(!is_mounted(&directory), "{signal}");
    }
}

#[test]
fn other_signals_leave_the_mount_as_it_is() {
    let server = server();
    put(&server, "file", "x");
    for flags in [&[][..], &["--no-log"]] {
        let mounted = Mounted::new(&server, flags);
        for signal in [
            Signal::SIGUSR1,
            Signal::SIGUSR2,
            Signal::SIGALRM,
            Signal::SIGVTALRM,
            Signal::SIGPROF,
            Signal::SIGIO,
            Signal::SIGPWR,
            Signal::SIGSTKFLT,
            Signal::SIGXFSZ,
            Signal::SIGPIPE,
        ] {
            kill(mounted.pid(), signal).unwrap();
        }
        let pid = mounted.pid().to_string();
        for number in ["34", "64"] {
            assert!(run("kill", &["-s", number, &pid]).status.success());
        }
        assert_eq!(read(&mounted.join("file")), b"x");
        assert_eq!(mounted.unmount().code(), Some(0));
    }
}

#[test]
fn signals_end_it_even_with_open_files() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 1 << 30, 1);
    let mounted = Mounted::new(&server, &[]);
    let directory = mounted.path().to_owned();
    let mut file = File::open(mounted.join("file")).unwrap();
    file.read_exact(&mut [0; 4096]).unwrap();
    let (status, took) = mounted.signal(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0));
    assert!(took < HANG, "{took:?}");
    assert!(!is_mounted(&directory));
}

#[test]
fn it_goes_into_the_background() {
    let server = server();
    put(&server, "file", "x");
    let directory = tempfile::tempdir().unwrap();
    let logs = tempfile::tempdir().unwrap();
    let pid_file = logs.path().join("pid");
    let output = mount_s3()
        .args([
            BUCKET,
            directory.path().to_str().unwrap(),
            "--endpoint-url",
            &server.url(),
            "--force-path-style",
        ])
        .args([
            "--log-directory",
            logs.path().join("logs").to_str().unwrap(),
            "--debug",
        ])
        .env("UNSTABLE_MOUNTPOINT_PID_FILE", &pid_file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("is mounted at"),
        "{output:?}"
    );
    assert_eq!(read(&directory.path().join("file")), b"x");
    let pid: i32 = std::fs::read_to_string(&pid_file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // The process keeps no reference to its working directory.
    let current = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert_eq!(current, Path::new("/"));
    unmount(directory.path());
    wait_until("the end of the background process", || !pid_file.exists());
    assert_eq!(
        std::fs::read_dir(logs.path().join("logs")).unwrap().count(),
        1
    );
}

#[test]
fn the_kernel_sees_max_background() {
    let server = server();
    let cores = std::thread::available_parallelism().unwrap().get();
    let usual = max_background(cores);
    for (variables, expected) in [
        (vec![], (usual, usual / 4 * 3)),
        (
            vec![("UNSTABLE_MOUNTPOINT_MAX_BACKGROUND", "100")],
            (100, 75),
        ),
        (
            vec![
                ("UNSTABLE_MOUNTPOINT_MAX_BACKGROUND", "200"),
                ("UNSTABLE_MOUNTPOINT_CONGESTION_THRESHOLD", "20"),
            ],
            (200, 20),
        ),
    ] {
        let mounted = Mounted::with(&server, &[], |command| {
            command.envs(variables.clone());
        });
        let device = std::fs::metadata(mounted.path()).unwrap().dev();
        if !Path::new("/sys/fs/fuse/connections")
            .read_dir()
            .is_ok_and(|mut d| d.next().is_some())
        {
            assert!(
                run(
                    "mount",
                    &["-t", "fusectl", "fusectl", "/sys/fs/fuse/connections"]
                )
                .status
                .success()
            );
        }
        let value = |name: &str| -> u16 {
            let path = format!(
                "/sys/fs/fuse/connections/{}/{name}",
                nix::sys::stat::minor(device)
            );
            let text =
                std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            text.trim().parse().unwrap()
        };
        let found = (value("max_background"), value("congestion_threshold"));
        assert_eq!(found, expected);
    }
}

/// A node repeats the command after the process was killed.
///
/// Directory and files work, also by a link.
#[test]
fn what_a_killed_process_left_is_mounted_anew() {
    let server = server();
    put(&server, "file", "x");
    let mounted = Mounted::new(&server, &[]);
    let directory = mounted.path().to_owned();
    let link = directory.with_extension("link");
    symlink(&directory, &link).unwrap();
    let open = File::open(mounted.join("file")).unwrap();
    let (status, _) = mounted.signal(Signal::SIGKILL);
    assert!(!status.success());
    std::fs::create_dir_all(&directory).ok();
    let start = |at: &Path| {
        let mut command = mount_s3();
        command.arg(BUCKET).arg(at);
        command.args(["--endpoint-url", &server.url(), "--force-path-style"]);
        command.output().unwrap()
    };
    let again = start(&link);
    let content = read(&directory.join("file"));
    // A live mount blocks another one.
    let refused = start(&directory);
    let is_still_read = read(&directory.join("file"));
    run("umount", &["-l", directory.to_str().unwrap()]);
    let is_gone = !is_mounted(&directory);
    drop(open);
    std::fs::remove_file(&link).unwrap();
    std::fs::remove_dir(&directory).unwrap();
    assert!(again.status.success(), "{again:?}");
    assert_eq!((content, is_still_read), (b"x".to_vec(), b"x".to_vec()));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("is already mounted"), "{stderr}");
    assert!(is_gone, "two mounts lie there");
}

#[test]
fn an_ordinary_user_can_mount() {
    let server = server();
    put(&server, "file", "x");
    let owner = Somebody::new("nobody");
    let (directory, binary) = (owner.directory(), owner.root().join("mount-s3"));
    let script = format!(
        "cd /; AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={} AWS_EC2_METADATA_DISABLED=true \
         {} {BUCKET} {dir} --endpoint-url {} --force-path-style && cat {dir}/file && fusermount3 -u {dir}",
        crate::harness::ACCESS_KEY,
        crate::harness::SECRET_KEY,
        binary.display(),
        server.url(),
        dir = directory.display()
    );
    let output = run(
        "setpriv",
        &[
            "--reuid=nobody",
            "--regid=nogroup",
            "--clear-groups",
            "bash",
            "-euc",
            &script,
        ],
    );
    assert!(output.status.success(), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).ends_with('x'),
        "{output:?}"
    );
}
