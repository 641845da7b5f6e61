//! Many new files in one directory: their requests, and the safety of other clients' objects.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};

use crate::harness::{BUCKET, Mounted, put, run, server, shell, write_and_close};

const CHANGES: &[&str] = &["--allow-overwrite", "--allow-delete"];

/// LISTs and PUTs since the last call.
fn requests(server: &Server) -> (u64, u64) {
    let log = server.log().take();
    let count = |of| log.iter().filter(|record| record.operation == of).count() as u64;
    (count(Operation::ListObjectsV2), count(Operation::PutObject))
}

/// Creates a file, and fails if it exists.
fn make(path: &Path, data: &[u8]) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    write_and_close(file, data)
}

/// Checks the LISTs for single names. One a second, and a few of a thread that was not seen to
/// sleep.
#[track_caller]
fn check_lists(lists: u64, files: usize, since: Instant) {
    let most = 10 + 2 * since.elapsed().as_secs() + files as u64 / 20;
    assert!(lists <= most, "{lists} LISTs for {files} files");
}

#[test]
fn a_thousand_files_are_a_thousand_puts() {
    const FILES: usize = 1_000;
    for workers in [1, 16] {
        let server = server();
        let mounted = Mounted::new(&server, &[]);
        fs::create_dir(mounted.join("d")).unwrap();
        let directory = mounted.join("d");
        requests(&server);
        let (next, start) = (AtomicUsize::new(0), Instant::now());
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= FILES {
                            return;
                        }
                        let name = format!("file{number:04}.bin");
                        make(&directory.join(name), &[7; 4 << 10]).unwrap();
                    }
                });
            }
        });
        let (lists, puts) = requests(&server);
        // One file is sent twice, to see whether the server refuses the second PUT.
        assert_eq!(puts, FILES as u64 + 1, "{workers} workers");
        check_lists(lists, FILES, start);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), FILES);
    }
}

/// Programs that unpack, copy and create trees. A LIST or two per directory, and a PUT per file.
#[test]
fn trees_cost_a_put_a_file_and_little_more() {
    const DIRECTORIES: u64 = 12;
    const FILES: u64 = 12 * 20;
    let source = tempfile::tempdir().unwrap();
    let tree = "for d in $(seq -w 11); do mkdir -p t/dir$d; for f in $(seq 20); do echo $d/$f > t/dir$d/f$f.c; done; done; \
                for f in $(seq 20); do echo $f > t/f$f.c; done; tar cf t.tar t";
    shell(source.path(), tree);
    let server = server();
    let mounted = Mounted::new(&server, CHANGES);
    let from = source.path().display();
    for (script, lists_a_directory) in [
        (format!("tar xf {from}/t.tar --no-same-permissions -m"), 3),
        (format!("mkdir c && cp -r {from}/t c/t"), 3),
        (
            format!("mkdir -p m/n/o && cd m/n/o && cp {from}/t/dir*/* . 2> /dev/null || true"),
            20,
        ),
    ] {
        requests(&server);
        let start = Instant::now();
        shell(mounted.path(), &script);
        let (lists, puts) = requests(&server);
        let most = DIRECTORIES * lists_a_directory + FILES / 20 + 2 * start.elapsed().as_secs();
        assert!(lists <= most, "{lists} LISTs: {script}");
        assert!(puts <= FILES + 1, "{puts} PUTs: {script}");
    }
    for copy in ["t", "c/t"] {
        shell(mounted.path(), &format!("diff -r {from}/t {copy}"));
    }
}

/// Every lookup sees another host's new object, and no creation replaces it.
#[test]
fn what_another_host_makes_is_seen_and_stays() {
    for ignores_conditions in [false, true] {
        let server = server();
        let rule = Rule::on(Operation::PutObject, Fault::IgnoreConditions);
        if ignores_conditions {
            server.faults().add(rule);
        }
        let mounted = Mounted::new(&server, CHANGES);
        for round in 0..20 {
            for number in 0..3 {
                make(&mounted.join(&format!("f{round}-{number}")), b"mine").unwrap();
            }
            let theirs = format!("f{round}-theirs");
            put(&server, &theirs, "theirs");
            let path = mounted.join(&theirs);
            if round % 2 == 0 {
                assert_eq!(fs::metadata(&path).unwrap().len(), 6, "{theirs}");
            }
            let made = make(&path, b"mine");
            assert_eq!(
                made.unwrap_err().kind(),
                ErrorKind::AlreadyExists,
                "{theirs}"
            );
            assert_eq!(fs::read(&path).unwrap(), b"theirs");
            // A directory in the path of a new file is only looked up.
            let other = format!("f{round}-directory");
            put(&server, &format!("{other}/theirs"), "theirs");
            make(&mounted.join(&format!("{other}/mine")), b"mine").unwrap();
            // A program that appends to a file of other writers sees the current object.
            let log = format!("f{round}-log");
            put(&server, &log, "theirs");
            let opened = OpenOptions::new()
                .append(true)
                .create(true)
                .open(mounted.join(&log));
            let written = opened.and_then(|mut file| file.write_all(b"mine"));
            assert!(written.is_err(), "appending needs a flag");
            let stored = server.store().object(BUCKET, &log).unwrap().bytes();
            assert_eq!(&stored[..], b"theirs");
        }
        let keys = server.store().keys(BUCKET);
        assert_eq!(keys.len(), 20 * 7);
    }
}

/// Two hosts make one file: the one that writes nothing to it has the other's.
#[test]
fn a_file_that_another_host_makes_meanwhile_is_there() {
    let server = server();
    let (theirs, mine) = (Mounted::new(&server, &[]), Mounted::new(&server, &[]));
    let open = |name, flags| {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_CREAT | flags);
        options.open(mine.join(name)).expect(name)
    };
    for (name, flags, content, expected) in [
        ("any", 0, "theirs", Ok(())),
        ("cut-empty", libc::O_TRUNC, "", Ok(())),
        ("cut", libc::O_TRUNC, "theirs", Err(libc::EEXIST)),
        ("own", libc::O_EXCL, "theirs", Err(libc::EEXIST)),
        ("own-empty", libc::O_EXCL, "", Err(libc::EEXIST)),
    ] {
        let file = open(name, flags);
        fs::write(theirs.join(name), content).expect(name);
        let closed = write_and_close(file, b"").map_err(|error| error.raw_os_error().unwrap());
        assert_eq!(closed, expected, "{name}");
        for mounted in [&theirs, &mine] {
            let read = fs::read(mounted.join(name)).expect(name);
            assert_eq!(read, content.as_bytes(), "{name}");
        }
    }
    // It goes no further: its next bytes would take the place of the other's.
    let mut file = open("synchronised", 0);
    fs::write(theirs.join("synchronised"), "").unwrap();
    file.sync_all().unwrap();
    let written = file.write(b"mine").unwrap_err();
    assert_eq!(written.raw_os_error(), Some(libc::ESTALE));
    assert_eq!(fs::read(mine.join("synchronised")).unwrap(), b"");
}

/// `touch` where the mount believes for a minute that nothing is there.
#[test]
fn touch_of_a_name_that_is_believed_absent_succeeds() {
    let server = server();
    let theirs = Mounted::new(&server, &[]);
    for flags in [&["--posix-metadata"][..], &[]] {
        let believes = [flags, &["--negative-metadata-ttl", "60"]].concat();
        let mine = Mounted::new(&server, &believes);
        let name = format!("stamp{}", flags.len());
        let path = mine.join(&name);
        assert!(fs::metadata(&path).is_err(), "it is not there");
        fs::write(theirs.join(&name), "theirs").unwrap();
        let touched = run("touch", &[path.to_str().unwrap()]);
        assert!(touched.status.success(), "{touched:?}");
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(fs::metadata(&path).unwrap().len(), 6);
    }
}
