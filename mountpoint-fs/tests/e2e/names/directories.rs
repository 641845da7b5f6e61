//! Directories as tools read them: requests counted at the server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};

use crate::harness::{BUCKET, Mounted, put, server, shell, wait_until};
use crate::reads::memory::{MemoryGroup, resident};

/// Requests per second on a machine so slow that names expire during the test.
///
/// The mount looks up some single names before it lists the directory again.
const AGAIN_MAX: u64 = 16;

fn put_numbered(server: &Server, head: &str, count: usize) {
    for number in 0..count {
        let key = format!("{head}{number:06}");
        server.store().put_synthetic(BUCKET, &key, 512, 1);
    }
}

#[test]
fn a_directory_of_2000_files_is_measured_with_a_handful_of_requests() {
    let server = server();
    put_numbered(&server, "d/file-", 2000);
    for tool in ["du -s d", "ls -l d", "find d -size +0", "ls -U d"] {
        let mounted = Mounted::new(&server, &[]);
        server.log().clear();
        let start = Instant::now();
        shell(mounted.path(), tool);
        let most = 5 + AGAIN_MAX * start.elapsed().as_secs();
        let requests = server.log().take();
        assert!(requests.len() as u64 <= most, "{tool}: {requests:?}");
    }
}

#[test]
fn names_that_the_kernel_has_forgotten_take_no_memory() {
    let server = server();
    put_numbered(&server, "d/file-", 100_000);
    let mounted = Mounted::new(&server, &[]);
    shell(mounted.path(), "ls -l d/file-000000");
    let before = resident(&mounted);
    // The kernel keeps the names for the group of the program that asked for them.
    let group = MemoryGroup::new(4 << 30);
    let listed = group.run("ls", &["-l".as_ref(), mounted.join("d").as_ref()]);
    assert_eq!(
        listed.stdout.iter().filter(|it| **it == b'\n').count(),
        100_001
    );
    let taken = resident(&mounted) - before;
    assert!(taken > 16 << 20, "{taken}");
    wait_until("the memory of the names", || {
        group.reclaim();
        resident(&mounted) < before + taken / 2
    });
}

#[test]
fn a_tree_of_small_directories_is_walked_with_a_handful_of_requests() {
    let server = server();
    for directory in 0..100 {
        put_numbered(&server, &format!("t/d{directory:02}/f"), 12);
        put_numbered(&server, &format!("t/d{directory:02}/sub/f"), 3);
    }
    for args in [&[][..], &["--metadata-ttl", "3600"]] {
        for tool in ["find t", "find t -size +0", "ls -lR t", "du -s t"] {
            let mounted = Mounted::new(&server, args);
            server.log().clear();
            let start = Instant::now();
            let entries = shell(mounted.path(), tool).lines().count();
            if tool == "find t" {
                assert_eq!(entries, 1 + 100 * (1 + 12 + 1 + 3));
            }
            let requests = server.log().count_all();
            // The look-up of `t`, `t`, and two pages' worth of keys, which end within directories.
            let most = 8 + AGAIN_MAX * start.elapsed().as_secs();
            assert!(requests <= most, "{args:?} {tool}: {requests} requests");
        }
    }
}

#[test]
fn a_large_directory_far_away_is_listed_several_pages_at_once() {
    let server = server();
    put_numbered(&server, "d/img_", 40_000);
    // To a reader on a slow machine a store is far only at a very high latency.
    for delay_ms in [50, 200, 800] {
        let (fixed, jitter) = (Duration::from_millis(delay_ms), Duration::ZERO);
        let far = Rule::always(Fault::Latency { fixed, jitter });
        let far = server.faults().add(far);
        let mounted = Mounted::new(&server, &[]);
        shell(mounted.path(), "test -d d");
        server.log().clear();
        let names = shell(mounted.path(), "ls -U d");
        let lists = server.log().counters(Operation::ListObjectsV2);
        assert!(names.lines().eq((0..40_000).map(|n| format!("img_{n:06}"))));
        assert!(lists.requests <= 40 + 40 / 4, "{lists:?}");
        assert!(lists.in_flight_max <= 16, "{lists:?}");
        if lists.in_flight_max >= 3 {
            return;
        }
        server.faults().remove(far);
    }
    panic!("the LISTs were not sent in parallel");
}

#[test]
fn a_server_that_slows_down_is_listed_all_the_same() {
    let server = server();
    put_numbered(&server, "d/", 12_000);
    server.faults().add(Rule {
        probability: 0.3,
        ..Rule::on(Operation::ListObjectsV2, Fault::SlowDown)
    });
    let mounted = Mounted::new(&server, &[]);
    let names = shell(mounted.path(), "ls -U d");
    assert!(names.lines().eq((0..12_000).map(|n| format!("{n:06}"))));
}

#[test]
fn a_directory_that_changes_while_it_is_listed_shows_what_stays_once() {
    let server = server();
    put_numbered(&server, "d/", 12_000);
    let mounted = Mounted::new(&server, &[]);
    let mut names = Vec::new();
    for (index, entry) in std::fs::read_dir(mounted.join("d")).unwrap().enumerate() {
        names.push(entry.unwrap().file_name().into_string().unwrap());
        if index % 100 == 0 {
            put(&server, &format!("d/{index:06}x"), "new");
            put(&server, &format!("d/{:06}x", 12_000 - index), "new");
        }
    }
    let unique: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(unique.len(), names.len(), "each name once");
    names.retain(|name| !name.ends_with('x'));
    assert!(names.into_iter().eq((0..12_000).map(|n| format!("{n:06}"))));
}

#[test]
fn pages_without_entries_hide_nothing() {
    let server = server();
    for key in ["file", "a/x", "a/y", "marked/", "marked/z", "empty/"] {
        put(&server, key, "1");
    }
    let rule = Rule::on(Operation::ListObjectsV2, Fault::EmptyPages(3));
    server.faults().add(rule);
    let args = ["--allow-delete", "--allow-rename"];
    let mounted = Mounted::new(&server, &args);
    shell(
        mounted.path(),
        "test \"$(ls | tr '\\n' ' ')\" = 'a empty file marked '
         test -f file; test -d a; test -f a/x; test ! -e nothing
         ! rmdir a 2> /dev/null; ! rmdir marked 2> /dev/null; rmdir empty
         mv a b; test \"$(ls b | tr '\\n' ' ')\" = 'x y '; test ! -e a/x",
    );
    assert_eq!(
        server.store().keys(BUCKET),
        ["b/x", "b/y", "file", "marked/", "marked/z"]
    );
}

#[test]
fn a_listing_that_repeats_its_pages_ends_with_an_error() {
    let server = server();
    for key in ["a/x", "a/y"] {
        put(&server, key, "1");
    }
    let rule = Rule::on(Operation::ListObjectsV2, Fault::RepeatPages);
    server.faults().add(rule);
    let mounted = Mounted::new(&server, &["--allow-rename"]);
    let listed = shell(mounted.path(), "test -d a; ls a 2>&1 || true");
    assert!(listed.contains("Input/output error"), "{listed}");
    let moved = shell(mounted.path(), "mv a b 2>&1 || true");
    assert!(moved.contains("Input/output error"), "{moved}");
    assert_eq!(server.store().keys(BUCKET), ["a/x", "a/y"]);
}
