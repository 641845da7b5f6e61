//! Walks of a tree by programs: requests counted at the server, and what the programs see.

use std::time::{Duration, Instant};

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};

use crate::harness::{BUCKET, Mounted, put, server, shell};

/// 60 directories of 20 files, in tens, so 67 with those above them.
fn put_tree(server: &Server) -> usize {
    for directory in 0..60 {
        for file in 0..20 {
            let key = format!("t/d{}/x{}/f{file:02}", directory / 10, directory % 10);
            server.store().put_synthetic(BUCKET, &key, 512, 1);
        }
    }
    1 + 6 + 60
}

fn lists(server: &Server) -> u64 {
    server.log().counters(Operation::ListObjectsV2).requests
}

/// A walk by a program that yields one line for each directory or file.
const PROGRAMS: [&str; 7] = [
    "find t",
    "find t -size +0",
    "ls -lR t",
    "du -a t",
    // Without its destination, a dry run would look for each file in the working directory.
    "D=$(mktemp -d) && rsync -rnv t/ $D/ && rmdir $D",
    "grep -rLe nothing-of-this t || true",
    "python3 -c 'import os\nfor _, below, files in os.walk(\"t\"):\n  print(*below, *files)'",
];

/// In a second a slow machine gets less far, and lists again what has become too old.
const AGAIN_MAX: u64 = 20;

#[test]
fn a_tree_is_walked_with_fewer_requests_than_directories() {
    let server = server();
    let directories = put_tree(&server) as u64;
    for program in PROGRAMS {
        let mounted = Mounted::new(&server, &[]);
        server.log().clear();
        let start = Instant::now();
        let lines = shell(mounted.path(), program).lines().count();
        let seconds = start.elapsed().as_secs();
        assert!(lines as u64 >= directories, "{program}: {lines} lines");
        let lists = lists(&server);
        let most = directories / 2 + AGAIN_MAX * seconds;
        assert!(lists <= most, "{program}: {lists} LISTs in {seconds} s");
    }
}

/// Directories of more keys than an answer has are listed several at a time.
#[test]
fn large_directories_far_away_are_listed_several_at_once() {
    let server = server();
    for directory in 0..24 {
        for file in 0..1_050 {
            let key = format!("t/d{directory:02}/f{file:04}");
            server.store().put_synthetic(BUCKET, &key, 512, 1);
        }
    }
    let (fixed, jitter) = (Duration::from_millis(60), Duration::ZERO);
    server
        .faults()
        .add(Rule::always(Fault::Latency { fixed, jitter }));
    let mounted = Mounted::new(&server, &[]);
    server.log().clear();
    let start = Instant::now();
    let names = shell(mounted.path(), "find t").lines().count();
    let seconds = start.elapsed().as_secs();
    assert_eq!(names, 1 + 24 * 1_051);
    let counters = server.log().counters(Operation::ListObjectsV2);
    assert!(counters.in_flight_max >= 3, "{counters:?}");
    // A look-up, `t`, two pages of each directory, what may be wasted, and names that expired.
    let most = 2 + 2 * 24 + 17 + AGAIN_MAX * seconds;
    assert!(counters.requests <= most, "{counters:?}");
}

#[test]
fn a_listing_alone_asks_for_nothing_more() {
    let server = server();
    put_tree(&server);
    for program in [
        "ls t",
        "ls -l t",
        "echo t/*",
        "compgen -f t/",
        "find t -maxdepth 1",
    ] {
        let mounted = Mounted::new(&server, &[]);
        server.log().clear();
        shell(mounted.path(), program);
        // The name `t`, and what is in it.
        let lists = lists(&server);
        assert!(lists <= 2, "{program}: {lists} LISTs");
    }
}

/// A program that lists a directory and one below it, as if it were walking, and no more.
#[test]
fn waste_is_bounded() {
    let server = server();
    for directory in 0..40 {
        for file in 0..30 {
            let key = format!("t{directory:02}/d{:02}/e/f{file}", file % 3);
            server.store().put_synthetic(BUCKET, &key, 512, 1);
        }
    }
    let mounted = Mounted::new(&server, &[]);
    server.log().clear();
    let start = Instant::now();
    shell(
        mounted.path(),
        "python3 -c '
import os, time
for number in range(40):
    os.listdir(f\"t{number:02}\"); os.listdir(f\"t{number:02}/d00\"); time.sleep(0.3)
'",
    );
    let renewed = start.elapsed().as_secs() / 10;
    // Three for each: the name and two listings. The rest was sent ahead.
    let ahead = lists(&server).saturating_sub(3 * 40);
    assert!(ahead <= 8 + 4 + renewed, "{ahead} LISTs ahead");
}

#[test]
fn changes_through_the_mount_are_seen_at_once_in_a_walk() {
    let server = server();
    put_tree(&server);
    put(&server, "t/d3/x1/only", "1");
    let args = ["--allow-delete", "--allow-overwrite", "--allow-rename"];
    let mounted = Mounted::new(&server, &args);
    shell(
        mounted.path(),
        "python3 -c '
import os
seen = {}
for path, below, files in os.walk(\"t\"):
    seen[path] = set(below) | set(files)
    if path == \"t/d0/x0\":
        # All of the tree is listed ahead by now.
        open(\"t/d2/new\", \"w\").close()
        open(\"t/d2/x3/f00\", \"w\").write(\"other\")
        os.remove(\"t/d2/x5/f07\")
        os.rename(\"t/d3/x1/only\", \"t/d3/x2/moved\")
        os.rename(\"t/d4/x0\", \"t/d4/y0\")
        os.makedirs(\"t/d5/made/below\")
        os.mkdir(\"t/d5/x9/empty\")
assert \"new\" in seen[\"t/d2\"], seen[\"t/d2\"]
assert os.stat(\"t/d2/x3/f00\").st_size == 5
assert len(seen[\"t/d2/x3\"]) == 20
assert len(seen[\"t/d2/x5\"]) == 19 and \"f07\" not in seen[\"t/d2/x5\"]
assert \"only\" not in seen[\"t/d3/x1\"] and \"moved\" in seen[\"t/d3/x2\"]
assert \"x0\" not in seen[\"t/d4\"] and \"y0\" in seen[\"t/d4\"] and len(seen[\"t/d4/y0\"]) == 20
assert \"made\" in seen[\"t/d5\"] and seen[\"t/d5/made\"] == {\"below\"}
assert \"empty\" in seen[\"t/d5/x9\"] and seen[\"t/d5/x9/empty\"] == set()
'",
    );
}

/// Files that are removed during a walk are gone, and no others.
#[test]
fn trees_are_copied_and_removed() {
    let server = server();
    put_tree(&server);
    let mounted = Mounted::new(&server, &["--allow-delete"]);
    shell(
        mounted.path(),
        "cp -r t u; diff <(cd t; find . | sort) <(cd u; find . | sort); rm -r t; test ! -e t
         test $(find u -type f | wc -l) = 1200",
    );
    assert_eq!(server.store().keys(BUCKET).len(), 1_200);
}

/// Each directory that is opened a second later shows changes of another host.
#[test]
fn changes_of_others_are_seen_after_a_second() {
    let server = server();
    put_tree(&server);
    let mounted = Mounted::new(&server, &[]);
    let walk = shell_walk(&mounted);
    put(&server, "t/d5/x9/new", "new");
    put(&server, "t/new/new", "new");
    let changed = Instant::now();
    while changed.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(walk("t/d5/x9").contains(&"new".to_owned()));
    assert!(walk("t").contains(&"new".to_owned()));
    assert_eq!(walk("t/new"), ["new"]);
}

/// Lists `t` and its first directories, and returns what lists one more.
fn shell_walk(mounted: &Mounted) -> impl Fn(&str) -> Vec<String> + use<'_> {
    let list = |path: &str| -> Vec<String> {
        let entries = std::fs::read_dir(mounted.join(path)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    };
    for path in ["t", "t/d0", "t/d0/x0", "t/d0/x1"] {
        list(path);
    }
    list
}

/// A server that wants fewer requests gets no more than one for each directory.
#[test]
fn a_server_that_slows_down_is_walked_all_the_same() {
    let server = server();
    put_tree(&server);
    server.faults().add(Rule {
        probability: 0.3,
        ..Rule::on(Operation::ListObjectsV2, Fault::SlowDown)
    });
    let mounted = Mounted::new(&server, &[]);
    let names = shell(mounted.path(), "find t -type f").lines().count();
    assert_eq!(names, 1_200);
}
