//! Mounting on an autofs, as systemd's automount units do. The mount itself must not trigger it.

use std::io::PipeReader;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::mount::{MntFlags, MsFlags, umount2};
use nix::unistd::getpgrp;

use crate::harness::{BUCKET, PATIENCE, mount_s3, put, server, unmount, wait_for_exit, wait_until};
use crate::machine::in_private_namespace;

/// Mounts an autofs whose daemon is the process group of this test. No process answers its
/// requests.
fn mount_autofs(directory: &Path) -> PipeReader {
    let (reader, writer) = std::io::pipe().unwrap();
    let options = format!(
        "fd={},pgrp={},minproto=5,maxproto=5,direct",
        writer.as_raw_fd(),
        getpgrp()
    );
    nix::mount::mount(
        Some("test"),
        directory,
        Some("autofs"),
        MsFlags::empty(),
        Some(options.as_str()),
    )
    .expect("the kernel has autofs");
    reader
}

fn mount_over(directory: &Path, url: &str) -> Command {
    let mut command = mount_s3();
    command
        .arg(BUCKET)
        // A slash at the end would trigger the autofs by itself.
        .arg(format!("{}/", directory.display()))
        .args(["--endpoint-url", url, "--force-path-style", "--no-log"])
        .stdout(Stdio::null());
    command
}

#[test]
fn a_mount_on_an_autofs_does_not_wait_for_it() {
    let server = server();
    put(&server, "file", "x");
    in_private_namespace(|| {
        let root = tempfile::tempdir().unwrap();
        let asked = mount_autofs(root.path());
        // In another process group: if the mount triggered the autofs, it would wait for itself.
        let mut mounting = mount_over(root.path(), &server.url());
        let mut mounting = mounting.process_group(0).spawn().unwrap();
        let status = wait_for_exit(&mut mounting, PATIENCE);
        assert_eq!(status.code(), Some(0));
        assert_eq!(std::fs::read(root.path().join("file")).unwrap(), b"x");
        unmount(root.path());
        drop(asked);
        umount2(root.path(), MntFlags::MNT_DETACH).unwrap();
    });
}

/// As systemd starts it: a program that looked into the directory waits.
///
/// The autofs's own process group makes the mount.
#[test]
fn a_mount_that_somebody_waits_for_is_made() {
    let server = server();
    put(&server, "file", "x");
    in_private_namespace(|| {
        let root = tempfile::tempdir().unwrap();
        let mut asked = mount_autofs(root.path());
        let mut waiting = Command::new("ls")
            .arg(root.path().join("file"))
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The kernel's request: a program waits now.
        std::io::Read::read_exact(&mut asked, &mut [0; 16]).unwrap();
        let mut mounting = mount_over(root.path(), &server.url()).spawn().unwrap();
        let status = wait_for_exit(&mut mounting, PATIENCE);
        let is_mounted = || {
            let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
            let at = format!("{BUCKET} {} fuse.mount-s3 ", root.path().display());
            mounts.lines().any(|line| line.starts_with(&at))
        };
        let was_mounted = is_mounted();
        waiting.kill().unwrap();
        waiting.wait().unwrap();
        drop(asked);
        umount2(root.path(), MntFlags::empty()).ok();
        wait_until("the end of the mount", || !is_mounted());
        umount2(root.path(), MntFlags::MNT_DETACH).unwrap();
        assert_eq!(status.code(), Some(0));
        assert!(was_mounted);
    });
}
