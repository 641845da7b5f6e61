//! The cache on disk: what outlives a mount, and what never counts.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::UNIX_EPOCH;

use mountpoint_client::testing::server::{Operation, Server, synthetic_bytes};
use rand::{Rng as _, SeedableRng as _};
use tempfile::TempDir;

use crate::harness::{
    BUCKET, CACHE_ROOM, Mounted, PATIENCE, mount_s3, put, server, unmount, wait_until,
};

const MIB: u64 = 1 << 20;

/// Object of the tests.
const SIZE: u64 = 40 * MIB + 12_345;

fn content(seed: u64) -> Vec<u8> {
    synthetic_bytes(seed, 0..SIZE)
}

fn cached(server: &Server, cache: &Path, args: &[&str]) -> Mounted {
    let mut all = vec!["--cache", cache.to_str().unwrap()];
    all.extend(CACHE_ROOM);
    all.extend(args);
    Mounted::unhedged(server, &all)
}

/// GETs since the log was cleared.
fn gets(server: &Server) -> u64 {
    let log = server.log();
    let done = log.wait_until(Operation::GetObject, PATIENCE, |gets| gets.in_flight == 0);
    assert!(done, "GETs are in flight for ever");
    log.counters(Operation::GetObject).requests
}

/// Files of the cache that end with `.suffix`.
fn files(cache: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![cache.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == suffix) {
                found.push(path);
            }
        }
    }
    found
}

/// Bytes that the data files of a cache occupy.
fn occupied(cache: &Path) -> u64 {
    let blocks = |path: &PathBuf| fs::metadata(path).unwrap().blocks() * 512;
    files(cache, "data").iter().map(blocks).sum()
}

#[track_caller]
fn check_whole(mounted: &Mounted, key: &str, expected: &[u8]) {
    let bytes = fs::read(mounted.join(key)).unwrap();
    assert!(bytes == expected, "{key} differs");
}

/// Reads all of `key` and unmounts, which stores what was read.
fn fill(server: &Server, cache: &Path, key: &str) {
    let mounted = cached(server, cache, &[]);
    fs::read(mounted.join(key)).unwrap();
    assert!(mounted.unmount().success());
}

#[test]
fn what_was_read_is_there_after_a_remount() {
    let server = server();
    let cache = TempDir::new().unwrap();
    server.store().put_synthetic(BUCKET, "large", SIZE, 1);
    for number in 0..50u64 {
        put(
            &server,
            &format!("small/{number}"),
            synthetic_bytes(number, 0..30_000),
        );
    }
    let mounted = cached(&server, cache.path(), &[]);
    check_whole(&mounted, "large", &content(1));
    for number in 0..50u64 {
        check_whole(
            &mounted,
            &format!("small/{number}"),
            &synthetic_bytes(number, 0..30_000),
        );
    }
    assert!(mounted.unmount().success());

    let mounted = cached(&server, cache.path(), &[]);
    server.log().clear();
    check_whole(&mounted, "large", &content(1));
    for number in 0..50u64 {
        check_whole(
            &mounted,
            &format!("small/{number}"),
            &synthetic_bytes(number, 0..30_000),
        );
    }
    let mut random = rand::rngs::StdRng::seed_from_u64(1);
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(mounted.join("large"))
        .unwrap();
    let content = content(1);
    for _ in 0..200 {
        let offset = random.random_range(0..SIZE / 4096) * 4096;
        let mut buffer = vec![0; 4096];
        let count = file.read_at(&mut buffer, offset).unwrap();
        let at = usize::try_from(offset).unwrap();
        assert_eq!(buffer[..count], content[at..at + count]);
    }
    assert_eq!(gets(&server), 0);
}

#[test]
fn random_reads_store_what_they_fetch() {
    let server = server();
    let cache = TempDir::new().unwrap();
    server.store().put_synthetic(BUCKET, "huge", 4096 * MIB, 1);
    let read_some = |mounted: &Mounted| {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(mounted.join("huge"))
            .unwrap();
        for number in 0..20u64 {
            let offset = (number * 7 % 20) * 150 * MIB + 4096 * number;
            let mut buffer = vec![0; 4096];
            file.read_exact_at(&mut buffer, offset).unwrap();
            assert_eq!(buffer, synthetic_bytes(1, offset..offset + 4096));
        }
    };
    let mounted = cached(&server, cache.path(), &[]);
    server.log().clear();
    read_some(&mounted);
    gets(&server);
    let fetched = server.log().counters(Operation::GetObject).bytes_sent;
    assert!(mounted.unmount().success());
    let occupied = occupied(cache.path());
    assert!(occupied <= fetched + 64 * 4096, "{occupied} for {fetched}");

    let mounted = cached(&server, cache.path(), &[]);
    server.log().clear();
    read_some(&mounted);
    assert_eq!(gets(&server), 0);
}

#[test]
fn a_killed_mount_leaves_what_it_stored() {
    let server = server();
    let cache = TempDir::new().unwrap();
    server.store().put_synthetic(BUCKET, "large", SIZE, 1);
    for _ in 0..3 {
        let mounted = cached(&server, cache.path(), &[]);
        check_whole(&mounted, "large", &content(1));
        mounted.kill();
    }
    fill(&server, cache.path(), "large");
    let mounted = cached(&server, cache.path(), &[]);
    server.log().clear();
    check_whole(&mounted, "large", &content(1));
    assert_eq!(gets(&server), 0);
}

#[test]
fn damaged_bytes_are_fetched_again() {
    let server = server();
    let cache = TempDir::new().unwrap();
    server.store().put_synthetic(BUCKET, "large", SIZE, 1);
    let flip = |path: &Path, offset: u64| {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
    };
    type Damage<'a> = (&'a str, &'a dyn Fn(&Path, &Path));
    let damages: [Damage<'_>; 7] = [
        ("a byte of the data", &|data, _| flip(data, SIZE / 2)),
        ("the data cut", &|data, _| {
            File::options()
                .write(true)
                .open(data)
                .unwrap()
                .set_len(SIZE / 3)
                .unwrap();
        }),
        ("no data", &|data, _| fs::remove_file(data).unwrap()),
        ("the header", &|_, index| flip(index, 20)),
        ("a record", &|_, index| {
            flip(index, index.metadata().unwrap().len() - 100);
        }),
        ("the index cut", &|_, index| {
            let file = File::options().write(true).open(index).unwrap();
            file.set_len(index.metadata().unwrap().len() - 7).unwrap();
            // No process is appending to it just now.
            file.set_modified(UNIX_EPOCH).unwrap();
        }),
        ("another file", &|_, index| {
            fs::write(index, b"not an index at all").unwrap();
        }),
    ];
    for (what, damage) in damages {
        fill(&server, cache.path(), "large");
        let (data, index) = (files(cache.path(), "data"), files(cache.path(), "index"));
        assert_eq!((data.len(), index.len()), (1, 1), "before {what}");
        damage(&data[0], &index[0]);
        let mounted = cached(&server, cache.path(), &[]);
        server.log().clear();
        check_whole(&mounted, "large", &content(1));
        assert!(gets(&server) > 0, "{what} was not noticed");
        assert!(
            mounted.log().contains("a cache entry was removed"),
            "{what}: no line"
        );
    }
}

#[test]
fn a_replaced_object_is_another_entry() {
    let server = server();
    let cache = TempDir::new().unwrap();
    server.store().put_synthetic(BUCKET, "large", SIZE, 1);
    fill(&server, cache.path(), "large");
    server.store().put_synthetic(BUCKET, "large", SIZE, 2);
    let mounted = cached(&server, cache.path(), &[]);
    check_whole(&mounted, "large", &content(2));
}

#[test]
fn mounts_share_a_directory() {
    let server = server();
    let cache = TempDir::new().unwrap();
    server.store().put_synthetic(BUCKET, "large", SIZE, 1);
    let first = cached(&server, cache.path(), &[]);
    let second = cached(&server, cache.path(), &[]);
    std::thread::scope(|scope| {
        for mounted in [&first, &second] {
            scope.spawn(|| check_whole(mounted, "large", &content(1)));
        }
    });
    assert!(first.unmount().success());
    assert!(second.unmount().success());
    let third = cached(&server, cache.path(), &[]);
    server.log().clear();
    check_whole(&third, "large", &content(1));
    assert_eq!(gets(&server), 0);
}

#[test]
fn a_full_disk_is_no_error() {
    let server = server();
    server.store().put_synthetic(BUCKET, "large", SIZE, 1);
    let disk = TempDir::new().unwrap();
    nix::mount::mount(
        Some("tmpfs"),
        disk.path(),
        Some("tmpfs"),
        nix::mount::MsFlags::empty(),
        Some("size=8m,mode=700"),
    )
    .unwrap();
    let mounted = cached(&server, disk.path(), &[]);
    check_whole(&mounted, "large", &content(1));
    check_whole(&mounted, "large", &content(1));
    assert!(mounted.unmount().success());
    nix::mount::umount(disk.path()).unwrap();
}

#[test]
fn a_cache_may_end_with_its_mount() {
    let server = server();
    let cache = TempDir::new().unwrap();
    server.store().put_synthetic(BUCKET, "large", SIZE, 1);
    fs::write(cache.path().join("of others"), "x").unwrap();
    let mounted = cached(&server, cache.path(), &["--cache-cleanup"]);
    check_whole(&mounted, "large", &content(1));
    wait_until("an entry", || !files(cache.path(), "index").is_empty());
    assert!(mounted.unmount().success());
    assert_eq!(files(cache.path(), "data"), Vec::<PathBuf>::new());
    assert_eq!(files(cache.path(), "index"), Vec::<PathBuf>::new());
    assert_eq!(fs::read(cache.path().join("of others")).unwrap(), b"x");
}

#[test]
fn directories_that_cannot_be_a_cache_are_refused() {
    let server = server();
    let place = TempDir::new().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::write(at("file"), "x").unwrap();
    for (name, mode) in [("open/mount-s3-cache", 0o777), ("others", 0o700)] {
        fs::create_dir_all(at(name)).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    std::os::unix::fs::chown(at("others"), Some(65534), Some(65534)).unwrap();
    fs::create_dir(at("mount")).unwrap();
    for (cache, reason) in [
        ("file", "directory"),
        ("open", "chmod"),
        ("others", "belongs to"),
        ("mount", "mount"),
        ("mount/below", "mount"),
    ] {
        let Output { status, stderr, .. } = mount_s3()
            .args([
                BUCKET,
                "--endpoint-url",
                &server.url(),
                "--force-path-style",
            ])
            .arg(at("mount"))
            .arg("--cache")
            .arg(at(cache))
            .output()
            .unwrap();
        if status.success() {
            unmount(&at("mount"));
        }
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1), "{cache}: {stderr}");
        assert!(
            stderr.contains("--cache") && stderr.contains(reason),
            "{cache}: {stderr}"
        );
    }
}
