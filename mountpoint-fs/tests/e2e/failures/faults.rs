//! Servers that are slow, cut off, throttle, lie or change their objects.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, synthetic_bytes};

use crate::harness::{BUCKET, HANG, Mounted, PATIENCE, create_to_write, put, read, server};

const MIB: u64 = 1 << 20;

fn file_of(server: &Server, size: u64) {
    server.store().put_synthetic(BUCKET, "file", size, 5);
}

#[track_caller]
fn reads_right(mounted: &Mounted, size: u64) {
    assert!(
        read(&mounted.join("file")) == synthetic_bytes(5, 0..size),
        "wrong bytes"
    );
}

/// Over HTTP no other layer notices. The server keeps a checksum of the stored bytes.
#[test]
fn flipped_bytes_of_a_small_file_are_never_read() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let flip = |times| {
        let flipped = Rule::on(Operation::GetObject, Fault::CorruptByte(70)).times(times);
        server.faults().add(flipped)
    };
    for (name, size) in [("tiny", 100), ("small", 200_000)] {
        let bytes = synthetic_bytes(5, 0..size);
        let path = mounted.join(name);
        std::fs::write(&path, &bytes).unwrap();
        flip(1);
        assert!(read(&path) == bytes, "{name}: wrong bytes");
        server.faults().clear();
    }
    let fresh = Mounted::new(&server, &[]);
    for name in ["tiny", "small"] {
        let rule = flip(u64::MAX);
        let outcome = std::fs::read(fresh.join(name)).map(|bytes| bytes.len());
        assert_eq!(
            outcome.unwrap_err().raw_os_error(),
            Some(libc::EIO),
            "{name}"
        );
        assert!(server.faults().fired(rule) > Some(1), "{name}: once more");
        server.faults().clear();
        let size = read(&mounted.join(name)).len();
        assert!(
            read(&fresh.join(name)) == synthetic_bytes(5, 0..size as u64),
            "{name}"
        );
    }
    assert!(fresh.log().contains("are not those that S3 stored"));
}

#[test]
fn a_cut_body_is_resumed() {
    let server = server();
    file_of(&server, 20 * MIB);
    let mounted = Mounted::new(&server, &[]);
    server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::CutBody(100_000)).times(5));
    reads_right(&mounted, 20 * MIB);
}

#[test]
fn errors_and_throttling_are_retried() {
    let server = server();
    file_of(&server, 20 * MIB);
    let mounted = Mounted::new(&server, &[]);
    let internal = Fault::Error {
        status: 500,
        code: "InternalError",
    };
    server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::SlowDown).times(3));
    server
        .faults()
        .add(Rule::on(Operation::GetObject, internal).times(2));
    reads_right(&mounted, 20 * MIB);
}

#[test]
fn a_lasting_error_reaches_the_application() {
    let server = server();
    file_of(&server, MIB);
    let mounted = Mounted::new(&server, &[]);
    let denied = Fault::Error {
        status: 403,
        code: "AccessDenied",
    };
    let denied = server.faults().add(Rule::on(Operation::GetObject, denied));
    let error = File::open(mounted.join("file"))
        .unwrap()
        .read_at(&mut [0; 10], 0)
        .unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EACCES));
    server.faults().remove(denied);
    reads_right(&mounted, MIB);
}

#[test]
fn an_early_byte_needs_no_whole_part() {
    let server = server();
    file_of(&server, 100 * MIB);
    let mounted = Mounted::new(&server, &[]);
    // 128 KiB take 1.3 s and a whole part of 8 MiB 84 s.
    server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::Bandwidth(100_000)));
    let start = Instant::now();
    let mut buffer = [0; 4096];
    File::open(mounted.join("file"))
        .unwrap()
        .read_exact_at(&mut buffer, 0)
        .unwrap();
    assert!(
        start.elapsed() < HANG,
        "the first 4 KiB took {:?}",
        start.elapsed()
    );
    assert_eq!(buffer.as_slice(), synthetic_bytes(5, 0..4096));
}

#[test]
fn lies_become_errors() {
    let lies = [
        ("another ETag", Fault::WrongETag),
        ("the range is ignored", Fault::IgnoreRange),
        ("no Content-Range", Fault::NoContentRange),
        ("no ETag", Fault::NoETag),
    ];
    for (lie, fault) in lies {
        let server = server();
        file_of(&server, 20 * MIB);
        let mounted = Mounted::new(&server, &[]);
        server.faults().add(Rule::on(Operation::GetObject, fault));
        let result = File::open(mounted.join("file"))
            .unwrap()
            .read_at(&mut [0; 4096], 5 * MIB);
        assert!(result.is_err(), "{lie}: {result:?}");
        let still_there = std::fs::metadata(mounted.path());
        assert!(
            still_there.is_ok(),
            "{lie}: the mount survives, {still_there:?}"
        );
    }
}

#[test]
fn a_replaced_object_is_never_mixed() {
    let server = server();
    file_of(&server, 32 * MIB);
    let mounted = Mounted::new(&server, &[]);
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(mounted.join("file"))
        .unwrap();
    let mut buffer = vec![0; 1 << 20];
    file.read_exact_at(&mut buffer, 0).unwrap();
    server.store().put_synthetic(BUCKET, "file", 32 * MIB, 6);
    let mut stale = false;
    for part in 1..32 {
        let range = part * MIB..(part + 1) * MIB;
        match file.read_exact_at(&mut buffer, range.start) {
            Ok(()) => assert!(
                buffer == synthetic_bytes(5, range),
                "old bytes only, at {part} MiB"
            ),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ESTALE));
                stale = true;
            }
        }
    }
    assert!(stale, "what was not prefetched is gone");
    assert!(
        read(&mounted.join("file")) == synthetic_bytes(6, 0..32 * MIB),
        "a new open sees the new version"
    );
}

#[test]
fn new_objects_are_seen_at_once_and_deleted_ones_vanish() {
    let server = server();
    put(&server, "d/old", "x");
    let mounted = Mounted::new(&server, &[]);
    assert!(std::fs::metadata(mounted.join("d/new")).is_err());
    put(&server, "d/new", "y");
    assert_eq!(read(&mounted.join("d/new")), b"y");
    assert_eq!(read(&mounted.join("d/old")), b"x");
    server.store().delete(BUCKET, "d/old");
    let start = Instant::now();
    while std::fs::metadata(mounted.join("d/old")).is_ok() {
        assert!(start.elapsed() < HANG, "a deleted object is seen for ever");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_blocked_read_can_be_killed() {
    let server = server();
    file_of(&server, MIB);
    let mounted = Mounted::new(&server, &[]);
    server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::BlackHole));
    let mut reader = std::process::Command::new("cat")
        .arg(mounted.join("file"))
        .spawn()
        .unwrap();
    let asked = server
        .log()
        .wait_until(Operation::GetObject, PATIENCE, |gets| gets.requests > 0);
    assert!(asked, "cat sends no GET");
    let start = Instant::now();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(reader.id()).unwrap()),
        // SIGTERM, because a shell's background jobs ignore SIGINT.
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    reader.wait().unwrap();
    assert!(
        start.elapsed() < HANG,
        "an interrupted read ends at once, not after {:?}",
        start.elapsed()
    );
}

/// No operation begins below a directory during its rename: its object would stay under the old
/// name, or come back. It waits, and is done under the new name.
#[test]
fn nothing_begins_below_a_directory_while_it_is_renamed() {
    let server = server();
    for number in 0..100 {
        put(&server, &format!("d/s/file-{number}"), "file");
    }
    let flags = ["--allow-rename", "--allow-overwrite", "--allow-delete"];
    let mounted = Mounted::new(&server, &flags);
    let mut log = create_to_write(mounted.join("d/s/log")).unwrap();
    log.write_all(b"one").unwrap();
    log.sync_all().unwrap();
    // A file that is written in place moves with its directory, and goes on.
    let mut both = File::create_new(mounted.join("d/s/both")).unwrap();
    both.write_all(b"one").unwrap();
    both.sync_all().unwrap();
    let held = Rule::on(Operation::CopyObject, Fault::Hold);
    let held = server.faults().add(held);
    server.log().clear();
    std::thread::scope(|scope| {
        let (old, new) = (mounted.join("d"), mounted.join("e"));
        let renaming = scope.spawn(move || std::fs::rename(old, new));
        let copies = server.log();
        let has_begun = copies.wait_until(Operation::CopyObject, PATIENCE, |it| it.requests > 0);
        let at = |name: &str| mounted.join(name);
        let logged = log.write_all(b"two");
        let written = both.write_all(b"two");
        let content = std::fs::read(at("d/s/file-3"));
        // The kernel lets nobody look up names in a directory while one of these waits in it.
        let (new_file, replaced, removed) = (at("d/s/new"), at("d/s/file-1"), at("d/s/file-2"));
        let directory = at("d/s/dir");
        let waiting = [
            scope.spawn(|| File::create(new_file).map(drop)),
            scope.spawn(|| File::create(replaced).map(drop)),
            scope.spawn(|| std::fs::remove_file(removed)),
            scope.spawn(|| std::fs::create_dir(directory)),
        ];
        let has_ended = renaming.is_finished() || waiting.iter().any(ScopedJoinHandle::is_finished);
        // Before any assertion: a failure would wait for the rename for ever.
        server.faults().remove(held);
        renaming.join().unwrap().unwrap();
        assert!(has_begun, "nothing is copied");
        assert!(!has_ended, "nothing is copied yet");
        for outcome in waiting {
            outcome.join().unwrap().unwrap();
        }
        logged.unwrap();
        written.unwrap();
        assert_eq!(content.unwrap(), b"file");
    });
    for mut file in [log, both] {
        file.write_all(b"three").unwrap();
        nix::unistd::close(file).unwrap();
    }
    let keys = server.store().keys(BUCKET);
    assert_eq!(keys.len(), 102);
    assert!(keys.iter().all(|key| key.starts_with("e/s/")), "{keys:?}");
    assert_eq!(read(&mounted.join("e/s/log")), b"onetwothree");
    assert_eq!(read(&mounted.join("e/s/both")), b"onetwothree");
    assert!(read(&mounted.join("e/s/file-1")).is_empty());
    assert!(read(&mounted.join("e/s/new")).is_empty());
    assert!(!mounted.join("e/s/file-2").exists() && mounted.join("e/s/dir").exists());
}
