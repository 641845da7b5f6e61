//! The end of a mount, full disks, and directories that cannot be used.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::harness::{BUCKET, PATIENCE, mount_s3, put, read, server, shell, wait_for_exit};

use super::{Staged, mount, staged, stored};

#[test]
fn open_files_are_stored_when_the_mount_is_told_to_end() {
    let (server, staged) = staged();
    put(&server, "f", "content");
    let open = OpenOptions::new()
        .write(true)
        .open(staged.mounted.join("f"));
    let file = open.unwrap();
    file.write_all_at(b"CON", 0).unwrap();
    let Staged {
        mounted, staging, ..
    } = staged;
    let (status, _) = mounted.signal(Signal::SIGTERM);
    assert!(status.success());
    assert_eq!(stored(&server, "f"), b"CONtent");
    drop((file, staging));
}

#[test]
fn a_killed_mount_leaves_the_object_whole_and_the_directory_usable() {
    let (server, staged) = staged();
    put(&server, "f", "content");
    let open = OpenOptions::new()
        .write(true)
        .open(staged.mounted.join("f"));
    let file = open.unwrap();
    file.write_all_at(b"CON", 0).unwrap();
    let Staged {
        mounted,
        staging,
        local,
    } = staged;
    mounted.kill();
    drop(file);
    assert_eq!(stored(&server, "f"), b"content");
    let again = Staged {
        mounted: mount(&server, staging.path(), &[]),
        staging,
        local,
    };
    again.run("printf X | dd of=f bs=1 seek=7 conv=notrunc status=none");
    assert_eq!(stored(&server, "f"), b"contentX");
}

#[test]
fn a_second_mount_is_refused_the_directory() {
    let (server, staged) = staged();
    let refused = |extra: &[&str], directory: &str| {
        let target = tempfile::tempdir().unwrap();
        let mut command = mount_s3();
        command
            .args([
                BUCKET,
                "--endpoint-url",
                &server.url(),
                "--force-path-style",
                "--foreground",
            ])
            .args(["--staging", directory])
            .args(extra)
            .arg(target.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let status = wait_for_exit(&mut child, PATIENCE);
        assert!(!status.success());
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let directory = staged.staging.path().to_str().unwrap();
    let said = refused(&[], directory);
    let pid = staged.mounted.pid().to_string();
    assert!(said.contains("--staging") && said.contains(&pid), "{said}");
    for (flag, reason) in [
        ("--read-only", "--read-only"),
        ("--incremental-upload", "--incremental-upload"),
    ] {
        let said = refused(&[flag], directory);
        assert!(
            said.contains("--staging cannot be used with") && said.contains(reason),
            "{said}"
        );
    }
}

#[test]
fn a_full_disk_refuses_writes_and_keeps_what_was_stored() {
    let server = server();
    put(&server, "f", vec![1; 100_000]);
    let disk = tempfile::tempdir().unwrap();
    let path = disk.path().display().to_string();
    shell(
        disk.path(),
        &format!("mount -t tmpfs -o size=3m tmpfs {path}"),
    );
    let mounted = mount(&server, disk.path(), &[]);
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .open(mounted.join("f"));
    let mut file = open.unwrap();
    let piece = vec![2; 256 << 10];
    let error = (0..100).find_map(|_| file.write_all(&piece).err()).unwrap();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    // Stored bytes need not stay on the disk.
    file.sync_all().unwrap();
    let len = file.metadata().unwrap().len();
    file.write_all_at(&piece, 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(stored(&server, "f").len() as u64, len);
    assert_eq!(read(&mounted.join("f")).len() as u64, len);
    drop(mounted);
    shell(std::path::Path::new("/"), &format!("umount {path}"));
}
