//! Names and attributes: requests counted at the server, cold and at default settings.

use std::collections::BTreeMap;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::time::{Duration, Instant};

use mountpoint_client::testing::server::{Fault, Headers, Operation, Rule, Server};

use crate::harness::{
    BUCKET, HANG, Mounted, PATIENCE, put, read, release_when_in_flight, server, shell,
};

/// The requests of a script by operation, after its background work has ended.
#[track_caller]
fn requests(server: &Server, mounted: &Mounted, script: &str) -> BTreeMap<&'static str, u64> {
    timed_requests(server, mounted, script).0
}

/// The requests of a script, and the number of validities that it lasted.
///
/// A slow machine may need more than one, and then looks up names again.
#[track_caller]
fn timed_requests(
    server: &Server,
    mounted: &Mounted,
    script: &str,
) -> (BTreeMap<&'static str, u64>, u64) {
    server.log().clear();
    let start = Instant::now();
    shell(mounted.path(), script);
    let validities = start.elapsed().as_secs();
    (sent(server), validities)
}

/// Whether `attempt`, with a new mount, sends the `expected` requests.
///
/// The attempt is repeated where a slow machine outlasted the validity of an answer.
#[track_caller]
fn comes_to<const N: usize>(
    expected: [(&'static str, u64); N],
    attempt: impl Fn() -> BTreeMap<&'static str, u64>,
) {
    let expected = BTreeMap::from(expected);
    let mut found = BTreeMap::new();
    for _ in 0..ATTEMPTS_MAX {
        found = attempt();
        if found == expected {
            return;
        }
    }
    panic!("{found:?}, not {expected:?}");
}

/// Far more than a machine with occasional delays needs.
const ATTEMPTS_MAX: usize = 30;

fn sent(server: &Server) -> BTreeMap<&'static str, u64> {
    let operations = [
        ("GET", Operation::GetObject),
        ("HEAD", Operation::HeadObject),
        ("LIST", Operation::ListObjectsV2),
    ];
    let mut counts = BTreeMap::new();
    for (name, operation) in operations {
        let log = server.log();
        let has_ended = log.wait_until(operation, PATIENCE, |counters| counters.in_flight == 0);
        assert!(has_ended, "{name} is in flight for ever");
        match log.count(operation) {
            0 => {}
            count => drop(counts.insert(name, count)),
        }
    }
    counts
}

/// Adds a fixed delay to every request.
fn slow_down(server: &Server, by: Duration) {
    let latency = Fault::Latency {
        fixed: by,
        jitter: Duration::ZERO,
    };
    server.faults().add(Rule::always(latency));
}

fn total(counts: &BTreeMap<&'static str, u64>) -> u64 {
    counts.values().sum()
}

#[test]
fn a_path_is_found_and_read_with_two_requests() {
    let server = server();
    put(&server, "a/b/c.txt", "x");
    put(&server, "apple", "x");
    let cold = || {
        let mounted = Mounted::unhedged(&server, &[]);
        let sent = requests(&server, &mounted, "cat a/b/c.txt");
        (mounted, sent)
    };
    comes_to([("GET", 1), ("LIST", 1)], || cold().1);
    // An unchanged file is not fetched again.
    comes_to([("HEAD", 1)], || {
        requests(&server, &cold().0, "cat a/b/c.txt")
    });
}

/// At each level more keys precede the file than one lookup shows.
#[test]
fn a_path_in_a_large_tree_is_a_request_for_each_name() {
    let server = server();
    for index in 0..300 {
        put(&server, &format!("a/b/a{index}"), "x");
        put(&server, &format!("a/a{index}/x"), "x");
    }
    put(&server, "a/b/c.txt", "x");
    comes_to([("GET", 1), ("LIST", 3)], || {
        let mounted = Mounted::unhedged(&server, &[]);
        requests(&server, &mounted, "cat a/b/c.txt")
    });
}

/// Names that begin other names. The file's bytes come with the request that finds it.
#[test]
fn a_path_among_names_like_its_own_is_five_requests() {
    let server = server();
    for index in 0..300 {
        put(&server, &format!("a-{index}"), "x");
        put(&server, &format!("a/b.{index}/x"), "x");
        put(&server, &format!("a/b/c.txt-{index}"), "x");
    }
    put(&server, "a/b/c.txt", "content");
    // A lookup is valid for its open as long as the lookup took: on a busy machine an instant
    // lookup expires too soon.
    slow_down(&server, Duration::from_millis(20));
    comes_to([("GET", 1), ("LIST", 4)], || {
        let mounted = Mounted::unhedged(&server, &[]);
        requests(&server, &mounted, "test $(cat a/b/c.txt) = content")
    });
}

#[test]
fn a_large_file_is_asked_for_its_version_first() {
    let server = server();
    server.store().put_synthetic(BUCKET, "a/big", 1 << 20, 1);
    comes_to([("GET", 1), ("HEAD", 1), ("LIST", 1)], || {
        let mounted = Mounted::unhedged(&server, &[]);
        requests(&server, &mounted, "cat a/big > /dev/null")
    });
}

#[test]
fn a_directory_of_2000_files_is_a_few_listings() {
    for script in [
        "du -s many",
        "ls -l many",
        "find many -size +1",
        "ls -f many",
    ] {
        let server = server();
        for index in 0..2000 {
            put(&server, &format!("many/f{index:04}"), "x");
        }
        let mounted = Mounted::new(&server, &[]);
        // As far as the nearest region: a listing must still be valid when its reader comes back.
        slow_down(&server, Duration::from_millis(20));
        let (cold, validities) =
            timed_requests(&server, &mounted, &format!("{script} > /dev/null"));
        let most = 4 + AGAIN_MAX * validities;
        assert!(total(&cold) <= most, "{script}: {cold:?}, {validities} s");
        check_listings_alone(&cold, validities);
    }
}

/// Checks a round without repeated lookups of single names, which fetch first bytes.
#[track_caller]
fn check_listings_alone(counts: &BTreeMap<&'static str, u64>, validities: u64) {
    let has_others = counts.keys().any(|name| *name != "LIST");
    assert!(!has_others || validities > 0, "{counts:?}");
}

/// Requests for a directory's names after their validity: some lookups, then a listing.
const AGAIN_MAX: u64 = 16;

/// `du` outlasts the names' validity. It reads over 10,000 files in the order of their inode
/// numbers.
#[test]
fn a_directory_of_12_000_files_is_listed_a_few_times() {
    let server = server();
    for index in 0..12_000 {
        put(&server, &format!("many/f{index:05}"), "x");
    }
    let mounted = Mounted::new(&server, &[]);
    let (cold, validities) = timed_requests(&server, &mounted, "du -s many > /dev/null");
    check_listings_alone(&cold, validities);
    // Once to read it, and again after each validity.
    let most = 32 + 2 * AGAIN_MAX * (1 + validities);
    assert!(total(&cold) <= most, "{cold:?}, {validities} s");
}

/// As `find -inum`, `ls -i`, git and tar see them.
#[test]
fn a_listing_and_stat_tell_one_number() {
    for flags in [&[][..], &["--posix-metadata"]] {
        let server = server();
        for index in 0..3_000 {
            put(&server, &format!("d/f{index:04}"), "x");
        }
        let mounted = Mounted::new(&server, flags);
        std::fs::metadata(mounted.join("d/f0007")).unwrap();
        let entries = std::fs::read_dir(mounted.join("d")).unwrap();
        let entries: Vec<_> = entries.map(Result::unwrap).collect();
        assert_eq!(entries.len(), 3_000);
        for entry in entries {
            let ino = std::fs::metadata(entry.path()).unwrap().ino();
            assert_eq!(entry.ino(), ino, "{flags:?}: {:?}", entry.path());
        }
    }
}

#[test]
fn absent_names_are_one_request() {
    let server = server();
    put(&server, "d/a", "x");
    let mounted = Mounted::new(&server, &[]);
    let absent = requests(&server, &mounted, "test ! -e absent");
    assert_eq!(absent, BTreeMap::from([("LIST", 1)]));
    // The next lookup asks again: a new object is visible at once.
    let again = requests(&server, &mounted, "test ! -e absent");
    assert_eq!(again, BTreeMap::from([("LIST", 1)]));
    put(&server, "absent", "x");
    shell(mounted.path(), "test -e absent");
}

#[test]
fn known_small_files_are_a_get_each() {
    let server = server();
    for index in 0..64 {
        put(
            &server,
            &format!("d/f{index:02}"),
            format!("content {index}"),
        );
    }
    // The second round finds the pages in the kernel's cache, and asks whether they are valid.
    let script = "cat d/* | sort -u | wc -l | grep -q '^1$' || true; cat d/* > /dev/null";
    let attempt = || {
        let mounted = Mounted::unhedged(&server, &[]);
        shell(mounted.path(), "ls -l d > /dev/null");
        let (sent, validities) = timed_requests(&server, &mounted, script);
        let lists = sent.get("LIST").copied().unwrap_or_default();
        let most = 2 + AGAIN_MAX * validities;
        assert!(lists <= most, "{sent:?}, {validities} s");
        (sent["GET"], sent["HEAD"], validities)
    };
    // One GET each, and one HEAD each. A repeated lookup of a name fetches first bytes.
    let is_as_expected = |(gets, heads, validities): (u64, u64, u64)| match validities {
        0 => (gets, heads) == (64, 64),
        _ => (64..=128).contains(&gets) && heads <= 64,
    };
    // A machine short of memory evicts pages before the second round.
    let mut found = attempt();
    for _ in 1..ATTEMPTS_MAX {
        if is_as_expected(found) {
            break;
        }
        found = attempt();
    }
    assert!(is_as_expected(found), "GETs, HEADs, seconds: {found:?}");
}

#[test]
fn many_first_lookups_are_one_listing() {
    let server = server();
    for index in 0..200 {
        put(&server, &format!("d/f{index:03}"), "x");
    }
    let mounted = Mounted::new(&server, &[]);
    shell(mounted.path(), "test -d d");
    server.log().clear();
    let hold = Rule::on(Operation::ListObjectsV2, Fault::Hold);
    let hold = server.faults().add(hold);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..32 {
            let directory = mounted.join("d");
            scope.spawn(move || {
                for index in (thread..200).step_by(32) {
                    std::fs::metadata(directory.join(format!("f{index:03}"))).unwrap();
                }
            });
        }
        release_when_in_flight(&server, Operation::ListObjectsV2, hold, 2);
    });
    let (cold, validities) = (sent(&server), start.elapsed().as_secs());
    let most = 12 + AGAIN_MAX * validities;
    assert!(total(&cold) <= most, "{cold:?}, {validities} s");
}

#[test]
fn what_changed_behind_the_mount_is_seen_in_time() {
    let server = server();
    put(&server, "d/a", "one");
    put(&server, "d/gone", "x");
    let mounted = Mounted::new(&server, &[]);
    let is_seen_in_time = |what: &str, is_seen: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_seen() {
            assert!(start.elapsed() < HANG, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(read(&mounted.join("d/a")), b"one");
    // An open sees the newest version, at once and every time.
    for round in 0..20 {
        let text = format!("version {round}");
        put(&server, "d/a", text.clone());
        assert_eq!(read(&mounted.join("d/a")), text.as_bytes());
    }
    // Attributes, a second later at most.
    put(&server, "d/a", "longer than before, all of a sudden");
    is_seen_in_time("a new size", &|| {
        std::fs::metadata(mounted.join("d/a")).unwrap().len() == 35
    });
    server.store().delete(BUCKET, "d/gone");
    is_seen_in_time("an absence", &|| !mounted.join("d/gone").exists());
    // A file becomes a directory, and back.
    put(&server, "d/a/b", "below");
    is_seen_in_time("a directory", &|| mounted.join("d/a").is_dir());
    server.store().delete(BUCKET, "d/a/b");
    is_seen_in_time("a file", &|| mounted.join("d/a").is_file());
    // New names, at once: looked up before, listed before, or neither.
    for name in ["new", "d/new", "d/dir/new"] {
        assert!(!mounted.join(name).exists());
        shell(mounted.path(), "ls -lR > /dev/null");
        put(&server, name, "new");
        assert_eq!(read(&mounted.join(name)), b"new", "{name}");
        let listed = shell(mounted.path(), "find . -name new");
        assert!(listed.contains(&format!("./{name}")), "{listed}");
    }
}

#[test]
fn an_open_file_never_mixes_two_versions() {
    let server = server();
    put(&server, "a", vec![b'1'; 3 << 20]);
    let mounted = Mounted::new(&server, &[]);
    let file = std::fs::File::open(mounted.join("a")).unwrap();
    let mut first = [0; 1000];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut first, 0).unwrap();
    put(&server, "a", vec![b'2'; 3 << 20]);
    let late = std::os::unix::fs::FileExt::read_exact_at(&file, &mut first, 2 << 20);
    assert!(late.is_ok_and(|()| first == [b'1'; 1000]) || first == [b'1'; 1000]);
    assert!(read(&mounted.join("a")).iter().all(|byte| *byte == b'2'));
}

#[test]
fn a_time_to_live_is_kept() {
    let server = server();
    put(&server, "d/a", "one");
    let mounted = Mounted::new(&server, &["--metadata-ttl", "3600"]);
    assert_eq!(read(&mounted.join("d/a")), b"one");
    shell(mounted.path(), "test ! -e d/absent");
    put(&server, "d/a", "three");
    put(&server, "d/absent", "x");
    let script = "test $(stat -c %s d/a) = 3; test ! -e d/absent; cat d/a";
    assert_eq!(requests(&server, &mounted, script), BTreeMap::new());
    // A read past the cache sees the bucket.
    shell(
        mounted.path(),
        "dd if=d/a iflag=direct status=none | grep three",
    );

    let mounted = Mounted::new(
        &server,
        &[
            "--metadata-ttl",
            "indefinite",
            "--negative-metadata-ttl",
            "minimal",
        ],
    );
    shell(mounted.path(), "test ! -e later");
    put(&server, "later", "x");
    shell(mounted.path(), "test -e later");
}

#[test]
fn extended_attributes() {
    let server = server();
    let headers = Headers {
        content_type: Some("text/plain".to_owned()),
        storage_class: Some("STANDARD_IA".to_owned()),
        metadata: BTreeMap::from([("colour".to_owned(), "blue".to_owned())]),
        ..Headers::default()
    };
    server.store().put_with(BUCKET, "d/rich", "x", headers);
    put(&server, "d/plain", "x");
    let mounted = Mounted::new(&server, &[]);
    shell(mounted.path(), "ls -l d > /dev/null");
    server.log().clear();
    let dump = |path: &str| shell(mounted.path(), &format!("getfattr -d -m - {path}"));
    let etag = server.store().object(BUCKET, "d/rich").unwrap().etag();
    let etag = etag.trim_matches('"');
    assert_eq!(
        dump("d/rich").trim(),
        format!(
            "# file: d/rich\n\
             user.s3.content_type=\"text/plain\"\n\
             user.s3.etag=\"\\\"{etag}\\\"\"\n\
             user.s3.metadata=\"{{\\\"colour\\\":\\\"blue\\\"}}\"\n\
             user.s3.storage_class=\"STANDARD_IA\"\n\
             user.s3.version_id=\"null\""
        )
    );
    assert_eq!(sent(&server)["HEAD"], 1);
    let one = "getfattr --only-values -n user.s3.metadata.colour d/rich";
    assert_eq!(shell(mounted.path(), one), "blue");
    assert!(dump("d/plain").contains("binary/octet-stream"));
    assert_eq!(dump("d"), "");
    // A list of attribute names alone sends no request.
    server.log().clear();
    shell(
        mounted.path(),
        "getfattr -m - d/plain | grep -c user.s3 | grep -qx 5",
    );
    assert_eq!(sent(&server).get("HEAD"), None);
    for refused in [
        "getfattr -n user.s3.none d/rich",
        "getfattr -n user.other d/rich",
        "setfattr -n user.s3.etag -v x d/rich",
    ] {
        shell(mounted.path(), &format!("! {refused} 2> /dev/null"));
    }
}

#[test]
fn an_archived_object_shows_that_nobody_can_read_it() {
    let server = server();
    put(&server, "cold", "x");
    server
        .store()
        .set_storage_class(BUCKET, "cold", Some("GLACIER"), None);
    let mounted = Mounted::new(&server, &[]);
    let mode = "stat -c %a cold; ! cat cold 2> /dev/null; ls -l | grep -c -- ----------";
    assert_eq!(shell(mounted.path(), mode), "0\n1\n");
    let free = "df --output=avail -B1 . | tail -1 | tr -d ' '";
    let free: i64 = shell(mounted.path(), free).trim().parse().unwrap();
    assert!(free >= 1 << 60, "{free}");
}
