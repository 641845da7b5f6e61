//! The other transport: reads over the library `fuser`, and its fall-back.

use std::fs;

use crate::harness::{BUCKET, Mounted, TRANSPORT, put, read, server};

/// The number of threads of a mount whose names begin so.
fn threads(mounted: &Mounted, names: &str) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", mounted.pid())).unwrap();
    let name = |task: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    tasks
        .map(name)
        .filter(|name| name.starts_with(names))
        .count()
}

/// The mount with entries of unknown kind is served by our own session.
#[test]
fn the_library_serves_what_it_can() {
    let server = server();
    put(&server, "directory/file", "hello");
    for (args, is_served) in [(&["--debug"][..], true), (&["--posix-metadata"], false)] {
        let mounted = Mounted::with(&server, args, |command| {
            command.env(TRANSPORT, "fuser");
        });
        let file = mounted.join("directory/file");
        assert_eq!(read(&file), b"hello");
        assert_eq!(fs::metadata(&file).unwrap().len(), 5);
        let names = fs::read_dir(mounted.join("directory")).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["file"]);
        assert!(!mounted.join("missing").exists());
        assert_eq!(threads(&mounted, "fuser-") > 0, is_served, "{args:?}");
        assert_eq!(mounted.log().contains(FALL_BACK), !is_served, "{args:?}");
        assert_eq!(mounted.unmount().code(), Some(0));
    }
}

#[test]
fn nothing_is_changed_over_the_library() {
    let server = server();
    put(&server, "file", "hello");
    let args = ["--allow-overwrite", "--allow-delete", "--allow-rename"];
    let mounted = Mounted::with(&server, &args, |command| {
        command.env(TRANSPORT, "fuser");
    });
    let (file, new) = (mounted.join("file"), mounted.join("new"));
    let refused = [
        fs::write(&file, "other"),
        fs::OpenOptions::new().append(true).open(&file).map(drop),
        fs::write(&new, "new"),
        fs::create_dir(&new),
        fs::remove_file(&file),
        fs::rename(&file, &new),
    ];
    for outcome in refused {
        let errno = outcome.unwrap_err().raw_os_error();
        assert!(
            matches!(errno, Some(libc::EROFS | libc::ENOSYS)),
            "{errno:?}"
        );
    }
    assert_eq!(read(&file), b"hello");
    assert!(mounted.log().contains("the mount can only be read"));
    assert_eq!(mounted.unmount().code(), Some(0));
    assert_eq!(server.store().keys(BUCKET), ["file"]);
}

/// The log line of a mount that should use another transport and does not.
const FALL_BACK: &str = "requests go through /dev/fuse";
