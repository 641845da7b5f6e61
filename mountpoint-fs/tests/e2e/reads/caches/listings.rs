//! Listings that the cache on disk keeps: what a remount need not ask for, and what it must.

use std::fs::{self, File};
use std::path::Path;

use mountpoint_client::testing::server::{Operation, Server};
use tempfile::TempDir;

use crate::harness::{BUCKET, CACHE_ROOM, Mounted, PATIENCE, put, server, shell, wait_until};

fn cached(server: &Server, cache: &Path, args: &[&str]) -> Mounted {
    let mut all = vec!["--cache", cache.to_str().unwrap()];
    all.extend(CACHE_ROOM);
    all.extend(args);
    Mounted::unhedged(server, &all)
}

/// LISTs, HEADs and GETs since the log was cleared.
fn requests(server: &Server) -> [u64; 3] {
    let operations = [
        Operation::ListObjectsV2,
        Operation::HeadObject,
        Operation::GetObject,
    ];
    operations.map(|operation| {
        let log = server.log();
        let done = log.wait_until(operation, PATIENCE, |counted| counted.in_flight == 0);
        assert!(done, "requests are in flight for ever");
        log.counters(operation).requests
    })
}

fn tree(server: &Server) {
    for directory in ["", "a/", "a/b/", "a/b/c/", "d/", "e/f/"] {
        for number in 0..5 {
            put(server, &format!("{directory}file{number}"), "content");
        }
    }
}

/// A program's view of all names, and the bytes of all files.
fn all_of(mounted: &Mounted) -> String {
    shell(
        mounted.path(),
        // The time of a directory is that of its mount.
        "ls -R && find . -type f -printf '%p %s %T@\\n' | sort && find . -type f | sort | xargs cat && stat -c '%n %s %Y' a/b/file1",
    )
}

fn names(mounted: &Mounted, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(mounted.join(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_remount_asks_for_nothing_until_names_are_too_old() {
    let server = server();
    let cache = TempDir::new().unwrap();
    tree(&server);
    let first = cached(&server, cache.path(), &[]);
    let seen = all_of(&first);
    assert!(first.unmount().success());
    let second = cached(&server, cache.path(), &["--read-only"]);
    // The request that checks the bucket is that of the start.
    server.log().clear();
    assert_eq!(all_of(&second), seen);
    assert_eq!(requests(&server), [0, 0, 0]);
    // Another mount beside it, of a part of the bucket.
    let third = cached(&server, cache.path(), &["--prefix", "a/"]);
    server.log().clear();
    assert_eq!(
        names(&third, "b"),
        ["c", "file0", "file1", "file2", "file3", "file4"]
    );
    assert_eq!(
        fs::read_to_string(third.join("b/c/file0")).unwrap(),
        "content"
    );
    assert_eq!(requests(&server), [0, 0, 0]);
    drop((second, third));

    put(&server, "a/new", "content");
    let old = cached(&server, cache.path(), &["--metadata-ttl", "indefinite"]);
    server.log().clear();
    assert!(!old.join("a/new").exists());
    assert_eq!(requests(&server), [0, 0, 0]);
    drop(old);
    let fresh = cached(&server, cache.path(), &["--metadata-ttl", "minimal"]);
    server.log().clear();
    assert!(names(&fresh, "a").contains(&"new".to_owned()));
    assert!(requests(&server)[0] > 0);
}

#[test]
fn a_change_that_was_acknowledged_outlives_a_kill() {
    let server = server();
    let cache = TempDir::new().unwrap();
    tree(&server);
    let first = cached(&server, cache.path(), &[]);
    all_of(&first);
    assert!(first.unmount().success());
    let changes: [&[&str]; 4] = [
        &["sh", "-c", "echo new > a/b/new"],
        &["rm", "a/b/file0"],
        &["mv", "a/b/file1", "d/moved"],
        &["rm", "-r", "e/f"],
    ];
    for change in changes {
        let mounted = cached(&server, cache.path(), &["--allow-changes"]);
        // All names come from the disk before the change, too.
        all_of_names(&mounted);
        shell(mounted.path(), &shell_words(change));
        let directory = mounted.path().to_owned();
        mounted.kill();
        assert!(!directory.join("a").exists());
        let after = cached(&server, cache.path(), &[]);
        let plain = Mounted::unhedged(&server, &[]);
        assert_eq!(all_of_names(&after), all_of_names(&plain), "{change:?}");
        assert!(after.unmount().success());
    }
    let last = cached(&server, cache.path(), &[]);
    assert_eq!(fs::read_to_string(last.join("a/b/new")).unwrap(), "new\n");
    assert!(File::open(last.join("a/b/file0")).is_err());
}

fn all_of_names(mounted: &Mounted) -> String {
    shell(mounted.path(), "find . -type f -printf '%p %s\\n' | sort")
}

fn shell_words(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| format!("'{word}'"));
    quoted.collect::<Vec<_>>().join(" ")
}

/// One mount changes what another one lists.
#[test]
fn a_listing_from_before_another_mounts_change_is_not_kept() {
    let server = server();
    let cache = TempDir::new().unwrap();
    tree(&server);
    let reads = cached(&server, cache.path(), &[]);
    let writes = cached(&server, cache.path(), &["--allow-changes"]);
    names(&reads, "d");
    wait_until("the listing is kept", || kept(cache.path()) > 0);
    fs::remove_file(writes.join("d/file3")).unwrap();
    // It may keep what it lists now, or not: never what is older than the change.
    names(&reads, "d");
    writes.kill();
    assert!(reads.unmount().success());
    let after = cached(&server, cache.path(), &[]);
    assert_eq!(names(&after, "d"), ["file0", "file1", "file2", "file4"]);
}

/// Listings in the cache.
fn kept(cache: &Path) -> usize {
    let folder = cache.join("mount-s3-cache/v1/listings");
    let entries = fs::read_dir(folder).unwrap();
    let is_listing = |name: String| name.ends_with(".names");
    entries
        .filter(|entry| is_listing(entry.as_ref().unwrap().file_name().into_string().unwrap()))
        .count()
}

#[test]
fn listings_go_with_the_cache() {
    let server = server();
    let cache = TempDir::new().unwrap();
    tree(&server);
    let mounted = cached(&server, cache.path(), &["--cache-cleanup"]);
    all_of(&mounted);
    assert!(mounted.unmount().success());
    assert_eq!(kept(cache.path()), 0);
    let mounted = cached(&server, cache.path(), &[]);
    all_of(&mounted);
    assert!(mounted.unmount().success());
    assert!(kept(cache.path()) > 0);
    let cleared = crate::harness::mount_s3()
        .args(["cache", "clear"])
        .arg(cache.path())
        .output()
        .unwrap();
    assert!(cleared.status.success(), "{cleared:?}");
    assert!(!cache.path().join("mount-s3-cache").exists());
    server.store().object(BUCKET, "file0").unwrap();
}
