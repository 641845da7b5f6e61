//! The directory of unfinished uploads: inside the mount itself, and shared with other hosts.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use mountpoint_client::testing::server::Server;
use nix::sys::signal::Signal;

use crate::harness::{
    BUCKET, Mounted, PATIENCE, run, server, store_the_first, wait_for_exit, wait_until,
    write_and_close,
};
use crate::machine::{Somebody, fuse_device, in_private_namespace};

const MIB: usize = 1 << 20;

/// Parts so small that the files of these tests have two.
const PARTS: [&str; 2] = ["--write-part-size", "5242880"];

/// A user mounts over the home directory with no other flag. The state directory is below it.
#[test]
fn a_home_that_is_mounted_over_is_written_without_a_journal() {
    in_private_namespace(write_into_the_home);
}

fn write_into_the_home() {
    let server = server();
    let somebody = Somebody::new("nobody");
    fuse_device(somebody.root(), 0o666);
    let home = somebody.directory();
    let mut start = somebody.mount_s3();
    start.args([BUCKET, home.to_str().unwrap(), "--no-log"]);
    start.args(["--endpoint-url", &server.url(), "--force-path-style"]);
    start.args(PARTS).env("HOME", &home);
    let output = start.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("is inside the mount itself"), "{stderr}");
    let file = home.join("file");
    let mut writing = somebody
        .command("dd")
        .args(["if=/dev/zero", "bs=1M", "count=11"])
        .arg(format!("of={}", file.display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let written = wait_for_exit(&mut writing, PATIENCE);
    let ended = run("umount", &["-l", home.to_str().unwrap()]);
    assert!(written.success() && ended.status.success(), "{written}");
    let stored = server.store().object(BUCKET, "file").unwrap();
    assert_eq!(stored.bytes().len(), 11 * MIB);
    assert_eq!(server.store().keys(BUCKET), ["file"]);
}

/// A link that is made later: the mount checks it before it touches the directory.
#[test]
fn a_state_directory_that_comes_to_lie_in_the_mount_is_not_touched() {
    let server = server();
    let root = tempfile::tempdir().unwrap();
    let state_home = root.path().join("link");
    let mounted = Mounted::with(&server, &PARTS, |command| {
        command.env("XDG_STATE_HOME", &state_home);
    });
    // The socket for `mount-s3 stats` was in it.
    std::fs::remove_dir_all(&state_home).unwrap();
    symlink(mounted.path(), &state_home).unwrap();
    let file = File::options()
        .write(true)
        .create_new(true)
        .open(mounted.join("file"))
        .unwrap();
    write_and_close(file, &vec![1; 11 * MIB]).unwrap();
    assert_eq!(server.store().keys(BUCKET), ["file"]);
    let log = mounted.log();
    assert!(
        log.contains("directory is inside the mount itself"),
        "{log}"
    );
}

fn mount(server: &Server, state: &Path) -> Mounted {
    let state = state.to_str().unwrap();
    Mounted::new(
        server,
        &[&PARTS[..], &["--state-directory", state]].concat(),
    )
}

/// With local locks, the lock of another host's live mount is free here.
#[test]
fn the_uploads_of_another_host_are_left_alone_and_named() {
    let server = server();
    let state = tempfile::tempdir().unwrap();
    let mounted = mount(&server, state.path());
    store_the_first(&server, &mounted);
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .open(mounted.join("file"))
        .unwrap();
    file.write_all(&vec![1; 17 * MIB]).unwrap();
    wait_until("the upload", || server.store().uploads(BUCKET).len() == 1);
    let (_, upload) = server.store().uploads(BUCKET).remove(0);
    let journal = || {
        let files = state.path().read_dir().unwrap();
        files.map(|file| file.unwrap().path()).find(|path| {
            let text = std::fs::read_to_string(path);
            text.is_ok_and(|text| text.contains(&upload))
        })
    };
    wait_until("the journal", || journal().is_some());
    let journal = journal().unwrap();
    let directory = mounted.path().to_owned();
    mounted.signal(Signal::SIGKILL);
    run("umount", &["-l", directory.to_str().unwrap()]);
    let text = std::fs::read_to_string(&journal).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (boot, host) = (boot.trim(), host.trim());
    assert!(text.contains(boot) && text.contains(host), "{text}");
    let theirs = text.replace(boot, "another-boot").replace(host, "node-17");
    std::fs::write(&journal, theirs).unwrap();
    let next = mount(&server, state.path());
    wait_until("the warning", || {
        let log = next.log();
        log.contains("journals of other hosts are left alone: node-17")
    });
    drop(next);
    assert_eq!(server.store().uploads(BUCKET).len(), 1);
    // The other host is up again, in its old boot.
    std::fs::write(&journal, text).unwrap();
    let next = mount(&server, state.path());
    wait_until("the abort", || server.store().uploads(BUCKET).is_empty());
    wait_until("its end", || !journal.exists());
    drop(next);
}
