//! Bytes and names: an application sees the content of the bucket.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::sync::Arc;

use mountpoint_client::testing::server::{Fault, Operation, Rule, synthetic_bytes};
use rand::{Rng as _, SeedableRng as _};

use crate::harness::{BUCKET, Mounted, put, read, server, shell};

const MIB: u64 = 1 << 20;

#[test]
fn lists_and_reads_a_tree() {
    let server = server();
    put(&server, "hello.txt", "hello");
    put(&server, "a/b/c.txt", "deep");
    put(&server, "empty", "");
    let mounted = Mounted::new(&server, &[]);
    assert_eq!(
        shell(mounted.path(), "find . | LC_ALL=C sort"),
        ".\n./a\n./a/b\n./a/b/c.txt\n./empty\n./hello.txt\n"
    );
    assert_eq!(read(&mounted.join("hello.txt")), b"hello");
    assert_eq!(read(&mounted.join("a/b/c.txt")), b"deep");
    assert_eq!(read(&mounted.join("empty")), b"");
    assert!(
        std::fs::metadata(mounted.join("absent"))
            .is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
    );
    assert!(
        std::fs::read(mounted.join("a")).is_err(),
        "a directory cannot be read"
    );
}

/// Some servers refuse every request with a header that they do not know.
#[test]
fn files_of_a_server_that_knows_no_request_for_checksums_are_read() {
    let server = server();
    let unknown = Fault::UnknownHeader("x-amz-checksum-mode");
    let contents = ["one", "two", "three"];
    for name in contents {
        put(&server, name, name);
    }
    server.faults().add(Rule::always(unknown));
    let mounted = Mounted::unhedged(&server, &["--debug"]);
    for name in contents {
        assert_eq!(read(&mounted.join(name)), name.as_bytes());
    }
    let log = mounted.log();
    let told = log.matches("the server refuses requests for checksums");
    assert_eq!(told.count(), 1, "{log}");
    let records = server.log().snapshot().into_iter();
    let refused = records.filter(|it| it.operation == Operation::GetObject && it.status == 501);
    assert_eq!(refused.count(), 1);
}

#[test]
fn attributes_follow_flags_and_objects() {
    let server = server();
    put(&server, "d/file", "12345");
    let mounted = Mounted::new(
        &server,
        &[
            "--uid",
            "1234",
            "--gid",
            "4321",
            "--dir-mode",
            "0750",
            "--file-mode",
            "0640",
        ],
    );
    let (file, directory) = (
        mounted.join("d/file").metadata().unwrap(),
        mounted.join("d").metadata().unwrap(),
    );
    assert_eq!(
        (file.len(), file.mode() & 0o7777, file.uid(), file.gid()),
        (5, 0o640, 1234, 4321)
    );
    assert_eq!(
        (directory.mode() & 0o7777, directory.uid(), directory.gid()),
        (0o750, 1234, 4321)
    );
    let age = file.modified().unwrap().elapsed().unwrap();
    assert!(
        age.as_secs() < 3600,
        "modified when it was put, not {age:?} ago"
    );
    shell(
        mounted.path(),
        "df . > /dev/null; test -z \"$(find . -newermt '+1 hour')\"",
    );
}

#[test]
fn a_prefix_is_the_root() {
    let server = server();
    put(&server, "a/b/inside", "x");
    put(&server, "a/outside", "x");
    for args in [["--prefix", "a/b/"], ["--prefix", "a/b/"]] {
        let mounted = Mounted::new(&server, &args);
        assert_eq!(shell(mounted.path(), "ls"), "inside\n");
    }
}

#[test]
fn odd_names() {
    let server = server();
    let long = format!("{}/{}", "d".repeat(255), "f".repeat(255));
    let longest = format!("{}{}", "k/".repeat(400), "n".repeat(224));
    assert_eq!(longest.len(), 1024);
    let visible = [
        "with space",
        "ünïcödé/日本語",
        "plus+percent%25",
        "quote'\"&<>",
        "tab\there",
        "nl\nname",
        &long,
        &longest,
    ];
    for key in visible {
        put(&server, key, key);
    }
    for key in [
        "x//empty-component",
        "x/./dot",
        "x/../dotdot",
        "marker/",
        "x/",
    ] {
        put(&server, key, "hidden");
    }
    put(&server, "shadow", "hidden by the directory");
    put(&server, "shadow/child", "seen");
    put(&server, "x/seen", "seen");
    let mounted = Mounted::new(&server, &[]);
    for key in visible {
        assert_eq!(read(&mounted.join(key)), key.as_bytes(), "{key:?}");
    }
    assert_eq!(shell(mounted.path(), "ls -A marker"), "");
    assert_eq!(shell(mounted.path(), "ls -A x"), "seen\n");
    assert_eq!(
        shell(
            mounted.path(),
            "ls -A shadow; find . -maxdepth 1 -name shadow | wc -l"
        ),
        "child\n1\n"
    );
    let too_long = std::fs::metadata(mounted.join(&"n".repeat(256))).unwrap_err();
    assert_eq!(too_long.raw_os_error(), Some(libc::ENAMETOOLONG));
}

#[test]
fn every_way_of_reading_gives_the_same_bytes() {
    let server = server();
    let size = 20 * MIB + 12_345;
    server.store().put_synthetic(BUCKET, "big", size, 7);
    let expected = synthetic_bytes(7, 0..size);
    let mounted = Mounted::new(&server, &[]);
    assert!(read(&mounted.join("big")) == expected, "read to the end");

    let direct = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(mounted.join("big"))
        .unwrap();
    let buffered = File::open(mounted.join("big")).unwrap();
    let mut random = rand::rngs::StdRng::seed_from_u64(1);
    for _ in 0..200 {
        let offset = random.random_range(0..size + 100);
        let len = random.random_range(1..300_000_usize);
        let end = (offset + len as u64).min(size);
        let expected = &expected[usize::try_from(offset.min(size)).unwrap()
            ..usize::try_from(end.max(offset.min(size))).unwrap()];
        for file in [&direct, &buffered] {
            let mut buffer = vec![0; len];
            let mut got = 0;
            while got < len {
                match file
                    .read_at(&mut buffer[got..], offset + got as u64)
                    .unwrap()
                {
                    0 => break,
                    more => got += more,
                }
            }
            assert!(
                buffer[..got] == *expected,
                "offset {offset} len {len}: got {got}"
            );
        }
    }
    let script =
        "tail -c 1000 big | cksum; dd if=big bs=100001 skip=7 count=11 2>/dev/null | cksum";
    let on_mount = shell(mounted.path(), script);
    let local = tempfile::tempdir().unwrap();
    std::fs::write(local.path().join("big"), &expected).unwrap();
    assert_eq!(on_mount, shell(local.path(), script));
}

#[test]
fn mapped_files() {
    let server = server();
    server.store().put_synthetic(BUCKET, "big", 8 * MIB + 5, 3);
    let mounted = Mounted::new(&server, &[]);
    let script = "python3 -c '
import mmap, zlib
f = open(\"big\", \"rb\")
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
print(zlib.crc32(m[4000000:4100000]), zlib.crc32(m[:]), len(m))'";
    let local = tempfile::tempdir().unwrap();
    std::fs::write(local.path().join("big"), synthetic_bytes(3, 0..8 * MIB + 5)).unwrap();
    assert_eq!(shell(mounted.path(), script), shell(local.path(), script));
}

/// A file opened for reading and writing can be mapped for writing.
///
/// A write to the mapping is stored. Without the flag it is refused, and no reader sees it.
#[test]
fn what_is_written_to_a_mapping_is_stored_or_refused_and_not_seen() {
    let server = server();
    put(&server, "file", "hello");
    let script = "python3 -c '
import mmap
file = open(\"file\", \"r+b\")
m = mmap.mmap(file.fileno(), 0)
m[0:1] = b\"j\"
for end in m.flush, m.close, file.close:
    try: end()
    except OSError as error: print(error.errno)
print(open(\"file\").read())'";
    for (flags, seen, stored) in [
        (&[][..], "9\nhello\n", "hello"),
        (&["--allow-overwrite"], "jello\n", "jello"),
    ] {
        let mounted = Mounted::new(&server, flags);
        assert_eq!(shell(mounted.path(), script), seen, "{flags:?}");
        let object = server.store().object(BUCKET, "file").unwrap();
        assert_eq!(object.bytes(), stored, "{flags:?}");
    }
}

#[test]
fn many_threads_at_random_offsets() {
    let server = server();
    let size = 64 * MIB;
    server.store().put_synthetic(BUCKET, "big", size, 9);
    let mounted = Mounted::new(&server, &[]);
    let file = Arc::new(File::open(mounted.join("big")).unwrap());
    let threads: Vec<_> = (0..64_u64)
        .map(|thread| {
            let file = Arc::clone(&file);
            std::thread::spawn(move || {
                let mut random = rand::rngs::StdRng::seed_from_u64(thread);
                let mut buffer = vec![0; 65536];
                for _ in 0..20 {
                    let offset = random.random_range(0..size - 65536);
                    file.read_exact_at(&mut buffer, offset).unwrap();
                    assert!(
                        buffer == synthetic_bytes(9, offset..offset + 65536),
                        "offset {offset}"
                    );
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_directory_of_many_pages() {
    let server = server();
    for index in 0..2500 {
        put(&server, &format!("many/file-{index:05}"), "x");
    }
    let mounted = Mounted::new(&server, &[]);
    let listed = shell(
        mounted.path(),
        "ls -f many | sed '/^\\./d' | LC_ALL=C sort -u | wc -l; ls -l many | wc -l",
    );
    assert_eq!(listed, "2500\n2501\n");
}

#[test]
fn a_read_only_mount_refuses_every_change() {
    let server = server();
    put(&server, "file", "x");
    let mounted = Mounted::new(&server, &["--read-only"]);
    for script in [
        "echo y > file",
        "echo y > new",
        "rm file",
        "mkdir d",
        "mv file other",
        "touch file",
        "chmod 600 file",
        "truncate -s 0 file",
    ] {
        let output = crate::harness::run(
            "bash",
            &[
                "-c",
                &format!("cd {} && {script}", mounted.path().display()),
            ],
        );
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && stderr.contains("Read-only file system"),
            "{script}: {stderr}"
        );
    }
    assert_eq!(read(&mounted.join("file")), b"x");
}
