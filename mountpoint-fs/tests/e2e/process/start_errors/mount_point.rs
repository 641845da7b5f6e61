//! Directories that cannot be mounted on.

use nix::sys::signal::{Signal, kill};

use super::{Row, Target, check, check_all};
use crate::harness::{BUCKET, Mounted, mount_s3, run, server};

#[test]
fn directories() {
    let (server, root) = (server(), Target::new());
    let path = |name: &str| root.path().join(name);
    std::fs::write(path("file"), "x").unwrap();
    std::os::unix::fs::symlink("loop", path("loop")).unwrap();
    let row = |what: &str, directory: &str, texts: &[&'static str]| {
        Row::new(what, texts)
            .args([BUCKET.as_ref(), path(directory).as_os_str()])
            .args(["--endpoint-url", &server.url(), "--force-path-style"])
    };
    check_all(&[
        row(
            "missing",
            "missing",
            &["does not exist", "make it with `mkdir -p"],
        ),
        row("a file", "file", &["is not a directory"]),
        row(
            "below a file",
            "file/below",
            &["cannot be used", "check the path"],
        ),
        row(
            "a loop of links",
            "loop",
            &["cannot be used", "check the path"],
        ),
        row(
            "mounted by somebody else",
            "/proc",
            &["is already mounted (proc, type proc); choose another directory"],
        ),
        row(
            "a descriptor that is not open",
            "/dev/fd/999999",
            &["descriptor 999999 is not open", "/dev/fuse"],
        ),
        row(
            "a descriptor to unmount",
            "/dev/fd/7",
            &["--auto-unmount cannot be used with /dev/fd/7"],
        )
        .args(["--auto-unmount"]),
    ]);
}

/// A mount that serves, a stopped one, and a dead one. The start touches none, so none can hang it.
#[test]
fn our_own_mounts() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let directory = mounted.path().to_str().unwrap().to_owned();
    let row = |what: &str| {
        let texts = [
            "is already mounted (test-bucket, type fuse.mount-s3)",
            "umount -l",
            "if its process is gone",
        ];
        Row::new(what, &texts).args([BUCKET, &directory]).args([
            "--endpoint-url",
            &server.url(),
            "--force-path-style",
        ])
    };
    check(&row("mounted"), &mount_s3);
    kill(mounted.pid(), Signal::SIGSTOP).unwrap();
    check(&row("stuck"), &mount_s3);
    kill(mounted.pid(), Signal::SIGCONT).unwrap();
    let (status, _) = mounted.signal(Signal::SIGKILL);
    assert!(!status.success());
    assert!(run("umount", &["-l", &directory]).status.success());
    std::fs::remove_dir(&directory).unwrap();
}
