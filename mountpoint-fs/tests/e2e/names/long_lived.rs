//! What programs hold on to for long: working directories, files that are mounted elsewhere, times
//! of directories.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mountpoint_client::testing::server::Operation;

use crate::harness::{BUCKET, Mounted, put, read, server, shell, wait_until};

/// Holds the name of `path`, as a working directory or `mount --bind` does, without opening it. Its
/// second part leads to it, and Linux looks the name up no more.
fn held(path: &Path) -> (File, PathBuf) {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_PATH).open(path);
    let file = file.unwrap();
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, link.into())
}

#[test]
fn what_is_held_and_not_open_follows_the_bucket() {
    let server = server();
    put(&server, "d/x", "x");
    put(&server, "f", "old");
    let mounted = Mounted::new(&server, &[]);
    let (_d, directory) = held(&mounted.join("d"));
    let (_f, file) = held(&mounted.join("f"));
    assert_eq!(read(&file), b"old");
    assert!(server.store().delete(BUCKET, "d/x"));
    put(&server, "f", "the newest");
    wait_until("the end of the directory", || {
        fs::metadata(&directory).is_err()
    });
    put(&server, "d/y", "y");
    wait_until("the directory", || fs::metadata(&directory).is_ok());
    assert!(directory.join("y").exists());
    wait_until("the new bytes", || {
        fs::read(&file).is_ok_and(|bytes| bytes == b"the newest")
    });
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&mounted.join("d")), inode(&directory));
}

#[test]
fn a_directory_tells_when_its_names_changed() {
    let server = server();
    put(&server, "d/x", "x");
    let mounted = Mounted::new(&server, &["--allow-delete", "--allow-rename"]);
    let mut before = SystemTime::UNIX_EPOCH;
    let mut moves = || {
        let directory = fs::metadata(mounted.join("d")).unwrap();
        assert_eq!(directory.nlink(), 1);
        let after = directory.modified().unwrap();
        std::mem::replace(&mut before, after) < after
    };
    assert!(moves());
    assert!(!moves());
    for change in [
        "echo > d/new",
        "mv d/new d/old",
        "mkdir d/sub",
        "rmdir d/sub",
        "rm d/old",
    ] {
        shell(mounted.path(), change);
        assert!(moves(), "{change}");
        assert!(!moves(), "{change}");
    }
    shell(mounted.path(), "ls d; cat d/x");
    put(&server, "d/other", "");
    wait_until("the change by another client", &mut moves);
}

#[test]
fn a_program_that_opens_what_its_call_looked_up_sends_no_head() {
    let server = server();
    put(&server, "large", vec![7; 1 << 20]);
    let mounted = Mounted::unhedged(&server, &[]);
    server.log().clear();
    shell(mounted.path(), "cat large > /dev/null");
    assert_eq!(server.log().count(Operation::HeadObject), 0);
}
