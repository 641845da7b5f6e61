//! The room of the cache on disk, and `mount-s3 cache`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use mountpoint_client::testing::server::{Operation, Server, synthetic_bytes};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{BUCKET, CACHE_ROOM, Mounted, PATIENCE, mount_s3, server, wait_until};

const MIB: u64 = 1 << 20;

/// Size of each object.
const SIZE: u64 = 2 * MIB;

fn mounted(server: &Server, cache: &Path, args: &[&str]) -> Mounted {
    let mut all = vec!["--cache", cache.to_str().unwrap()];
    all.extend(args);
    Mounted::unhedged(server, &all)
}

fn put(server: &Server, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let store = server.store();
        store.put_synthetic(BUCKET, &number.to_string(), SIZE, number);
    }
}

#[track_caller]
fn read(mounted: &Mounted, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let bytes = fs::read(mounted.join(&number.to_string())).unwrap();
        assert!(
            bytes == synthetic_bytes(number, 0..SIZE),
            "{number} differs"
        );
    }
}

/// GETs since the log was cleared.
fn gets(server: &Server) -> u64 {
    let log = server.log();
    let done = log.wait_until(Operation::GetObject, PATIENCE, |gets| gets.in_flight == 0);
    assert!(done, "GETs are in flight for ever");
    log.counters(Operation::GetObject).requests
}

/// Bytes that all files below a folder occupy.
fn occupied(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let sizes = entries.map(|entry| {
        let path = entry.unwrap().path();
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => occupied(&path),
            Ok(found) => found.blocks() * 512,
            // It was evicted meanwhile.
            Err(_) => 0,
        }
    });
    sizes.sum()
}

/// Runs `mount-s3 cache`, which must end with this code. Returns its JSON documents, one a line.
#[track_caller]
fn cache_command(args: &[&str], directory: &Path, code: i32) -> Vec<Value> {
    let Output {
        status,
        stdout,
        stderr,
    } = mount_s3()
        .arg("cache")
        .args(args)
        .arg(directory)
        .arg("--json")
        .output()
        .unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{args:?}: {stderr}");
    let stdout = String::from_utf8(stdout).unwrap();
    let documents = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    documents.collect()
}

#[test]
fn a_cache_keeps_to_its_size_and_keeps_what_is_used_again() {
    let server = server();
    let cache = TempDir::new().unwrap();
    put(&server, 0..1000);
    let args = ["--max-cache-size", "64"];
    let first = mounted(&server, cache.path(), &args);
    let second = mounted(&server, cache.path(), &args);
    read(&first, 0..8);
    assert!(first.unmount().success());
    let first = mounted(&server, cache.path(), &args);
    // The hot set: used again, some time later.
    let stored = || {
        let entries = cache_command(&["list"], cache.path(), 0);
        entries.len()
    };
    wait_until("a second", || {
        let times = cache_command(&["stat"], cache.path(), 0);
        let now = time::OffsetDateTime::now_utc().unix_timestamp();
        let newest = times[0]["newest_use"].as_str().unwrap();
        let format = &time::format_description::well_known::Rfc3339;
        let newest = time::OffsetDateTime::parse(newest, format).unwrap();
        now - newest.unix_timestamp() >= 2
    });
    // Bytes that a busy disk has not stored are stored when they are read again.
    wait_until("the hot set", || {
        read(&first, 0..8);
        stored() == 8
    });
    // A scan of more than the cache, by two mounts in turn.
    for number in (10..100).step_by(2) {
        read(&first, number..number + 1);
        read(&second, number + 1..number + 2);
        let occupied = occupied(cache.path());
        // Each of several mounts may hold credit that the others do not know of.
        assert!(occupied <= (64 + 32) * MIB, "{occupied}");
    }
    // A busy disk stores less.
    let mut others = 100..1000;
    wait_until("a full cache", || {
        let number = others.next().expect("the disk stores something");
        read(&second, number..number + 1);
        stored() > 16
    });
    assert!(first.unmount().success());
    assert!(second.unmount().success());
    assert!(occupied(cache.path()) <= (64 + 32) * MIB);
    server.log().clear();
    let third = mounted(&server, cache.path(), &args);
    read(&third, 0..8);
    assert_eq!(gets(&server), 0, "the hot set was evicted");
}

#[test]
fn a_small_disk_keeps_some_free_and_serves_all() {
    let server = server();
    put(&server, 0..100);
    let disk = Tmpfs::new("size=100m");
    let mounted = mounted(&server, &disk.0.path().join("cache"), &[]);
    for _ in 0..2 {
        read(&mounted, 0..100);
        let space = nix::sys::statvfs::statvfs(disk.0.path()).unwrap();
        let free = space.blocks_available() * space.fragment_size();
        assert!(free >= 4 * MIB, "{free}");
    }
    assert!(occupied(disk.0.path()) > 20 * MIB);
    assert!(mounted.unmount().success());
}

#[test]
fn caches_are_looked_after_while_they_are_used() {
    let server = server();
    let cache = TempDir::new().unwrap();
    let at = cache.path();
    fs::write(at.join("of others"), "x").unwrap();
    put(&server, 0..20);
    assert_eq!(cache_command(&["stat"], at, 0)[0]["entries"], 0);
    let mounted = mounted(&server, at, &CACHE_ROOM);
    read(&mounted, 0..10);
    wait_until("all entries", || {
        let entries = cache_command(&["list"], at, 0);
        let is_whole = |entry: &Value| entry["cached"] == SIZE;
        entries.len() == 10 && entries.iter().all(is_whole)
    });
    let entries = cache_command(&["list"], at, 0);
    let mut keys: Vec<_> = entries
        .iter()
        .map(|it| it["key"].as_str().unwrap())
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert!(
        entries
            .iter()
            .all(|it| it["bucket"] == BUCKET && it["size"] == SIZE)
    );
    let stat = &cache_command(&["stat"], at, 0)[0];
    assert_eq!(stat["entries"], 10);
    assert!(stat["bytes"].as_u64().unwrap() >= 10 * SIZE);

    let verified = &cache_command(&["verify"], at, 0)[0];
    assert_eq!(
        (&verified["right"], &verified["bytes"]),
        (&10.into(), &(10 * SIZE).into())
    );
    let name = entries[0]["name"].as_str().unwrap().to_owned();
    let data: PathBuf = [&name[..2], &format!("{}.data", &name[2..])]
        .iter()
        .collect();
    let data = at.join("mount-s3-cache/v1").join(data);
    let mut bytes = fs::read(&data).unwrap();
    bytes[12_345] ^= 1;
    fs::write(&data, bytes).unwrap();
    let verified = &cache_command(&["verify"], at, 1)[0];
    assert_eq!(verified["right"], 9);
    assert_eq!(verified["damaged"][0]["name"], name);
    assert!(!data.exists());
    assert_eq!(cache_command(&["verify"], at, 0)[0]["right"], 9);

    assert_eq!(
        cache_command(&["evict", "--older-than", "1d"], at, 0)[0]["entries"],
        0
    );
    let removed = &cache_command(&["evict", "--to", "10M"], at, 0)[0];
    assert!(removed["entries"].as_u64().unwrap() >= 4);
    assert!(occupied(&at.join("mount-s3-cache")) <= 10 * MIB + 64 * 1024);
    let removed = &cache_command(&["clear"], at, 0)[0];
    assert!(removed["entries"].as_u64().unwrap() >= 4);
    // The mount goes on, and stores again what the page cache does not have.
    read(&mounted, 0..20);
    wait_until("entries", || !cache_command(&["list"], at, 0).is_empty());
    assert!(mounted.unmount().success());
    cache_command(&["clear"], at, 0);
    let left: Vec<_> = fs::read_dir(at).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn directories_of_others_are_not_looked_into() {
    let place = TempDir::new().unwrap();
    fs::create_dir_all(place.path().join("mount-s3-cache/v1")).unwrap();
    let folder = place.path().join("mount-s3-cache");
    std::os::unix::fs::chown(folder, Some(65534), Some(65534)).unwrap();
    for (place, reason) in [
        (place.path(), "belongs to user 65534"),
        (Path::new("/proc/none"), "No such file"),
    ] {
        let Output { status, stderr, .. } = mount_s3()
            .args(["cache", "clear"])
            .arg(place)
            .output()
            .unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1));
        assert!(stderr.contains(reason), "{stderr}");
    }
}

/// A small file system in memory, unmounted at the end.
struct Tmpfs(TempDir);

impl Tmpfs {
    fn new(options: &str) -> Self {
        let place = TempDir::new().unwrap();
        let (source, kind) = (Some("tmpfs"), Some("tmpfs"));
        mount(source, place.path(), kind, MsFlags::empty(), Some(options))
            .expect("these tests run as root");
        Self(place)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        umount2(self.0.path(), MntFlags::MNT_DETACH).unwrap();
    }
}
