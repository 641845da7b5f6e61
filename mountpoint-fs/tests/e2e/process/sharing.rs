//! Permitted users of a mount, owners of its files, and a killed process.

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use mountpoint_client::testing::server::Server;
use nix::sys::signal::Signal;

use crate::harness::{BUCKET, Mounted, is_mounted, put, run, server, unmount, wait_until};
use crate::machine::{Somebody, fuse_conf, fuse_device, in_private_namespace};

/// Arguments that mount the server's bucket.
fn bucket_of<'a>(server_url: &'a str, command: &mut Command) {
    let args = [BUCKET, "--endpoint-url", server_url, "--force-path-style"];
    command.args::<[&'a str; 4], _>(args);
}

/// Mounts as root, in the background, at a directory that every user can reach.
fn mount_as_root(server: &Server, at: &Somebody, args: &[&str]) {
    let mut command = crate::harness::mount_s3();
    bucket_of(&server.url(), &mut command);
    let output = command.arg(at.directory()).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn who_may_read_a_mount_of_root() {
    let server = server();
    put(&server, "file", "x");
    let (at, other) = (Somebody::new("daemon"), Somebody::new("nobody"));
    let file = at.directory().join("file");
    for (args, others_may) in [
        (vec![], false),
        (vec!["--allow-root"], false),
        (vec!["--allow-other"], true),
    ] {
        mount_as_root(&server, &at, &[&["--no-log"], &*args].concat());
        let (root, others) = (std::fs::read(&file).is_ok(), other.can_read(&file));
        unmount(&at.directory());
        assert!(root, "{args:?}");
        assert_eq!(others, others_may, "{args:?}");
    }
}

/// Neither the kernel's cache nor a link opens the mount to other users.
///
/// Other users may use a file that was passed to them open.
#[test]
fn nobody_walks_into_a_mount_that_is_not_theirs() {
    let server = server();
    put(&server, "d/file", "content");
    let (at, other) = (Somebody::new("daemon"), Somebody::new("nobody"));
    let flags = [
        "--no-log",
        "--allow-root",
        "--allow-changes",
        "--metadata-ttl",
        "60",
    ];
    mount_as_root(&server, &at, &flags);
    let file = at.directory().join("d/file");
    let link = at.directory().join("link");
    std::os::unix::fs::symlink("d/file", &link).unwrap();
    let mut seen = Vec::new();
    // The kernel's cache holds all of it now.
    assert_eq!(std::fs::read(&link).unwrap(), b"content");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 7);
    for (program, args) in [
        ("stat", vec![&file]),
        ("readlink", vec![&link]),
        ("ls", vec![&file]),
        ("cat", vec![&file]),
        ("test", vec![]),
    ] {
        let mut command = other.command(program);
        command.args(args);
        if program == "test" {
            command.arg("-e").arg(&file);
        }
        seen.push((program, command.output().unwrap().status.success()));
    }
    // `cat` asks for the attributes of both its descriptors, neither of which it has opened.
    let written = at.directory().join("written");
    let given = std::fs::File::open(&file).unwrap();
    let taken = std::fs::File::create(&written).unwrap();
    let output = other.command("cat").stdin(given).stdout(taken).output();
    let handed = output.unwrap();
    let is_there = std::fs::read(&written).ok();
    unmount(&at.directory());
    let expected = ["stat", "readlink", "ls", "cat", "test"].map(|program| (program, false));
    assert_eq!(seen, expected);
    assert!(handed.status.success(), "{handed:?}");
    assert_eq!(is_there.as_deref(), Some(&b"content"[..]));
}

#[test]
fn who_may_read_a_mount_of_an_ordinary_user() {
    let server = server();
    put(&server, "file", "x");
    in_private_namespace(|| {
        let (owner, other) = (Somebody::new("nobody"), Somebody::new("daemon"));
        fuse_device(owner.root(), 0o666);
        fuse_conf(owner.root(), "user_allow_other\n");
        let file = owner.directory().join("file");
        for (args, root_may, others_may) in [
            (vec![], false, false),
            (vec!["--allow-root"], true, false),
            (vec!["--allow-other"], true, true),
        ] {
            let mut command = owner.mount_s3();
            bucket_of(&server.url(), &mut command);
            command.arg(owner.directory()).arg("--no-log").args(&args);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{args:?} {output:?}");
            let seen = (
                owner.can_read(&file),
                std::fs::read(&file).is_ok(),
                other.can_read(&file),
            );
            // A child that another test is starting has the file open, until it runs its program.
            wait_until("the end of its use", || {
                let mut unmount = owner.command("fusermount3");
                let unmounted = unmount.arg("-u").arg(owner.directory()).output().unwrap();
                let said = String::from_utf8_lossy(&unmounted.stderr);
                assert!(
                    unmounted.status.success() || said.contains("busy"),
                    "{said}"
                );
                unmounted.status.success()
            });
            assert_eq!(seen, (true, root_may, others_may), "{args:?}");
        }
    });
}

#[test]
fn a_killed_process_unmounts_with_auto_unmount() {
    let server = server();
    put(&server, "file", "x");
    let mounted = Mounted::new(&server, &["--auto-unmount"]);
    let directory = mounted.path().to_owned();
    assert_eq!(std::fs::read(mounted.join("file")).unwrap(), b"x");
    let (status, _) = mounted.signal(Signal::SIGKILL);
    assert!(!status.success());
    wait_until("the end of the mount", || !is_mounted(&directory));
    // The directory stays if it was still mounted when the test's handle was dropped.
    std::fs::remove_dir(&directory).ok();
}

/// In the background, as an ordinary user.
#[test]
fn a_killed_process_of_an_ordinary_user_unmounts_with_auto_unmount() {
    let server = server();
    put(&server, "file", "x");
    in_private_namespace(|| {
        let owner = Somebody::new("nobody");
        fuse_device(owner.root(), 0o666);
        let pid_file = owner.root().join("mnt.pid");
        std::fs::set_permissions(
            owner.root(),
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .unwrap();
        let mut command = owner.mount_s3();
        bucket_of(&server.url(), &mut command);
        command
            .arg(owner.directory())
            .args(["--auto-unmount", "--no-log"])
            .env("UNSTABLE_MOUNTPOINT_PID_FILE", &pid_file);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(owner.can_read(&owner.directory().join("file")));
        let pid = std::fs::read_to_string(&pid_file).unwrap();
        assert!(run("kill", &["-KILL", pid.trim()]).status.success());
        wait_until("the end of the mount", || !is_mounted(&owner.directory()));
    });
}

#[test]
fn owner_group_and_modes_are_what_the_flags_say() {
    let server = server();
    put(&server, "dir/file", "x");
    let check = |args: &[&str], uid, gid, dir_mode, file_mode| {
        let mounted = Mounted::new(&server, args);
        for (path, mode) in [("", dir_mode), ("dir", dir_mode), ("dir/file", file_mode)] {
            let found = std::fs::metadata(mounted.join(path)).unwrap();
            assert_eq!(
                (found.uid(), found.gid(), found.mode() & 0o7777),
                (uid, gid, mode),
                "{args:?} {path}"
            );
        }
    };
    check(&[], 0, 0, 0o755, 0o644);
    check(
        &["--uid", "1234", "--gid", "4321"],
        1234,
        4321,
        0o755,
        0o644,
    );
    check(
        &["--dir-mode", "0500", "--file-mode", "0440"],
        0,
        0,
        0o500,
        0o440,
    );
}

/// The kernel checks the modes: `--allow-other` alone does not open a file to everybody.
#[test]
fn modes_are_enforced() {
    let server = server();
    put(&server, "file", "x");
    let (at, other) = (Somebody::new("daemon"), Somebody::new("nobody"));
    let file = at.directory().join("file");
    let uid = other.user.uid.to_string();
    for (args, may) in [
        (vec!["--file-mode", "0600"], false),
        (vec!["--file-mode", "0600", "--uid", &uid], true),
    ] {
        mount_as_root(
            &server,
            &at,
            &[&["--no-log", "--allow-other"], &*args].concat(),
        );
        let found = other.can_read(&file);
        unmount(&at.directory());
        assert_eq!(found, may, "{args:?}");
    }
}

#[test]
fn the_mount_table_shows_what_it_is() {
    let server = server();
    let mounted = Mounted::new(&server, &["--read-only", "--allow-other"]);
    let table = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
    let directory = mounted.path().to_str().unwrap();
    let line = table
        .lines()
        .find(|line| line.split(' ').nth(1) == Some(directory))
        .unwrap();
    let options: Vec<&str> = line.split(' ').nth(3).unwrap().split(',').collect();
    for option in [
        "ro",
        "nosuid",
        "nodev",
        "noatime",
        "default_permissions",
        "allow_other",
    ] {
        assert!(options.contains(&option), "{option}: {line}");
    }
    let start = format!("{BUCKET} {directory} fuse.mount-s3 ");
    assert!(line.starts_with(&start), "{line}");
}
