//! Requests of tree walks like those of `find`, `du` and `ls -lR`.

use std::time::Duration;

use super::*;
use crate::config::limits::FILE_TTL;
use crate::namespace::bounds::WALK_AGE_MAX;

const ROOT: InodeNo = InodeNo::ROOT;

/// A mount with names that are valid for `ttl` seconds, if given.
fn mount(ttl: Option<u64>, keys: impl IntoIterator<Item = String>) -> Mount {
    let names = ttl.map_or_else(NamesConfig::default, |seconds| NamesConfig {
        ttl: Duration::from_secs(seconds),
        negative_ttl: Duration::from_secs(seconds),
        opens_unasked: true,
        ..NamesConfig::default()
    });
    let options = SimOptions::default();
    let options = SimOptions {
        time: Time::Immediate,
        ..options
    };
    let mount = Mount::with_all(options, names, WriteConfig::default(), "", &[]);
    for key in keys {
        mount.bucket.put_pattern(&key, 1, 0);
    }
    mount.clock.advance(Duration::from_millis(1));
    mount
}

/// Lists directories recursively. Each takes `pause` after its names are known.
struct Walk<'a> {
    mount: &'a Mount,
    pause: Duration,
    /// The listed names.
    seen: Vec<String>,
}

impl Walk<'_> {
    fn walk(&mut self, directory: InodeNo, path: &str) {
        let mount = self.mount;
        let handle = now(mount.fs.open_directory(directory)).unwrap();
        mount.clock.advance(self.pause);
        let entries = mount.list(handle, 100, true);
        mount.fs.release_directory(handle);
        let listed_at = mount.clock.now();
        for entry in &entries[2..] {
            let path = format!("{path}{}", entry.name);
            if entry.entry.attributes.kind != FileKind::Directory {
                self.seen.push(path);
                continue;
            }
            // The kernel looks up an expired name.
            if mount.clock.now() - listed_at >= entry.entry.ttl {
                mount.lookup(directory, &entry.name).unwrap();
            }
            let path = format!("{path}/");
            self.seen.push(path.clone());
            self.walk(entry.entry.attributes.ino, &path);
        }
    }
}

/// Walks from the root. Returns the names and the number of LISTs; asserts that there are no other
/// requests.
#[track_caller]
fn walked(mount: &Mount) -> (Vec<String>, usize) {
    walked_in(mount, Duration::from_micros(100))
}

/// Walks with a `pause` in each directory. Returns the names and the number of LISTs.
#[track_caller]
fn walked_in(mount: &Mount, pause: Duration) -> (Vec<String>, usize) {
    mount.requests();
    let mut walk = Walk {
        mount,
        pause,
        seen: Vec::new(),
    };
    walk.walk(ROOT, "");
    let (heads, lists, others) = mount.requests();
    assert_eq!((heads, others), (0, 0));
    (walk.seen, lists)
}

/// 100 directories of 12 files and a directory of 3.
fn small_directories() -> Vec<String> {
    let directory = |number: usize| {
        let files = (0..12).map(move |file| format!("t/d{number:02}/f{file:02}"));
        files.chain((0..3).map(move |file| format!("t/d{number:02}/sub/f{file}")))
    };
    (0..100).flat_map(directory).collect()
}

fn all_of(keys: &[String]) -> Vec<String> {
    let mut paths = std::collections::BTreeSet::new();
    for key in keys {
        paths.insert(key.clone());
        for (index, _) in key.match_indices('/') {
            paths.insert(key[..=index].to_owned());
        }
    }
    paths.into_iter().collect()
}

/// LISTs of the small directories: the root, `t`, and 1,500 keys in two pages that end within
/// directories.
const TOGETHER: usize = 2 + 4;

#[test]
fn small_directories_are_listed_together() {
    let keys = small_directories();
    let mount = mount(None, keys.clone());
    let (mut seen, lists) = walked(&mount);
    seen.sort();
    assert_eq!(seen, all_of(&keys));
    assert!(lists <= TOGETHER, "{lists}");
    let stats = mount.fs.walk_stats();
    assert_eq!(stats.wasted, 0);
    assert!(stats.directories >= 198, "{stats:?}");
}

/// A walk that outlasts the validity of names. Directories whose names are too old are listed
/// again.
#[test]
fn a_slow_walk_is_no_more_than_a_request_for_each_directory() {
    for pause_ms in [20, 60, 200, 600, 1_100] {
        let keys = small_directories();
        let mount = mount(None, keys.clone());
        let (mut seen, lists) = walked_in(&mount, Duration::from_millis(pause_ms));
        seen.sort();
        assert_eq!(seen, all_of(&keys));
        // Names that have expired are looked up by pages of their directory.
        let again = 5 + usize::try_from(pause_ms).unwrap() / 4;
        assert!(lists <= 202 + again, "{pause_ms} ms: {lists}");
    }
}

#[test]
fn small_directories_are_listed_together_where_names_may_be_old() {
    let keys = small_directories();
    for ttl in [60, 31_536_000] {
        let mount = mount(Some(ttl), keys.clone());
        let (mut seen, lists) = walked(&mount);
        seen.sort();
        assert_eq!(seen, all_of(&keys));
        assert!(lists <= TOGETHER, "{lists}");
        // A second walk uses nothing of the first one and lists all directories again.
        mount.bucket.put_pattern("t/d50/new", 1, 0);
        let (seen, lists) = walked(&mount);
        assert!(seen.contains(&"t/d50/new".to_owned()));
        assert!(lists <= 2 * TOGETHER, "{lists}");
    }
}

/// Few LISTs are wasted on directories that are larger than one page.
#[test]
fn large_directories_are_listed_one_by_one() {
    let directories = 100;
    let keys: Vec<String> = (0..directories)
        .flat_map(|number| (0..1_100).map(move |file| format!("d{number:02}/f{file:04}")))
        .collect();
    let without = 1 + 2 * directories;
    for ttl in [None, Some(60)] {
        let mount = mount(ttl, keys.clone());
        let (seen, with) = walked(&mount);
        assert_eq!(seen.len(), keys.len() + directories);
        assert!(with <= without + 7, "{with} and {without}");
        let stats = mount.fs.walk_stats();
        assert!(stats.directories >= 80, "{stats:?}");
    }
}

/// Finishes a future, and counts the round trips to the store that it waits for.
fn settled<T>(mount: &Mount, mut future: impl Future<Output = T> + Unpin, trips: &mut usize) -> T {
    loop {
        if let Some(outcome) = (&mut future).now_or_never() {
            return outcome;
        }
        *trips += 1;
        mount.clock.advance(Duration::from_millis(20));
        for request in mount.bucket.pending_requests() {
            mount.bucket.finish(request.id);
        }
    }
}

/// Walks below `directory`. Returns the number of its files; adds the round trips to `trips`.
fn walk_far(mount: &Mount, directory: InodeNo, trips: &mut usize) -> usize {
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    let mut sink = Sink::new(5_000);
    let read = Box::pin(mount.fs.read_directory(handle, 0, true, &mut sink));
    settled(mount, read, trips).unwrap();
    let last = sink.entries.last().unwrap().next_offset;
    let mut rest = Sink::new(1);
    let read = Box::pin(mount.fs.read_directory(handle, last, true, &mut rest));
    settled(mount, read, trips).unwrap();
    assert!(rest.entries.is_empty(), "the sink was too small");
    mount.fs.release_directory(handle);
    let mut files = 0;
    for entry in &sink.entries[2..] {
        let attributes = entry.entry.attributes;
        files += match attributes.kind {
            FileKind::Directory => walk_far(mount, attributes.ino, trips),
            _ => 1,
        };
    }
    files
}

/// Directories that hold files and many directories. A LIST without a delimiter shows their
/// subdirectories, and never all of them.
#[test]
fn parents_of_many_directories_are_listed_ahead() {
    let names = NamesConfig {
        ttl: Duration::from_secs(60),
        ..NamesConfig::default()
    };
    let options = SimOptions {
        time: Time::Manual,
        ..SimOptions::default()
    };
    let mount = Mount::with_all(options, names, WriteConfig::default(), "", &[]);
    for parent in 0..12 {
        for file in 0..3 {
            let key = format!("p{parent:02}/a{file}");
            mount.bucket.put_pattern(&key, 1, 0);
        }
        for key in (0..1_200).map(|n| format!("p{parent:02}/d{:02}/f{:02}", n / 20, n % 20)) {
            mount.bucket.put_pattern(&key, 1, 0);
        }
    }
    let mut trips = 0;
    let files = walk_far(&mount, ROOT, &mut trips);
    assert_eq!(files, 12 * 1_203);
    let (_, lists, _) = mount.requests();
    assert!(trips <= 12, "{trips} round trips");
    assert!(lists <= 100, "{lists} LISTs");
}

/// Every way of listing shows equal names, in trees of many shapes.
#[test]
fn shapes() {
    let many = |head: &str, tail: &str, count: usize| -> Vec<String> {
        (0..count).map(|n| format!("{head}{n:04}{tail}")).collect()
    };
    let shapes: [(&[Vec<String>], usize); 4] = [
        // Files before, between and behind directories.
        (
            &[
                many("t/a", "", 700),
                many("t/b", "/x", 300),
                many("t/z", "", 700),
            ],
            8,
        ),
        // Names that are prefixes of other names.
        (
            &[
                many("a", "/x", 50),
                many("a", ".gz", 50),
                many("a", "-1/y", 50),
                many("a", "/b/c", 50),
            ],
            4,
        ),
        // Directories that contain only directories.
        (&[many("x/", "/a/b/c", 400), many("y/", "/a/b/c", 400)], 6),
        // Markers, hidden keys, and directories that shadow files.
        (
            &[vec![
                "a/", "a/b", "a/b/c", "a/b/c/", "c//x", "c/y", "c/d/e", "e/", "e/f/", "g", "g/h",
            ]
            .into_iter()
            .map(str::to_owned)
            .collect()],
            8,
        ),
    ];
    for (keys, lists_max) in shapes {
        let keys = keys.concat();
        // A walk too slow for the answers that were listed ahead.
        let (expected, _) = walked_in(&mount(None, keys.clone()), Duration::from_secs(2));
        for ttl in [None, Some(60)] {
            let (seen, with) = walked(&mount(ttl, keys.clone()));
            assert_eq!(seen, expected);
            assert!(with <= lists_max, "{with} of {lists_max}");
        }
    }
}

/// The largest age of an answer that was listed ahead.
#[test]
fn what_was_listed_ahead_is_shown_once_and_not_for_long() {
    for (ttl, age_max) in [
        (None, FILE_TTL),
        (Some(5), Duration::from_secs(5)),
        (Some(3_600), WALK_AGE_MAX),
    ] {
        let check = |age: Duration, is_new: bool| {
            let keys = ["a/x", "b/x", "c/x"].map(str::to_owned);
            let mount = mount(ttl, keys);
            let handle = now(mount.fs.open_directory(ROOT)).unwrap();
            let entries = mount.list(handle, 100, true);
            let [a, b] = [2, 3].map(|index: usize| entries[index].entry.attributes.ino);
            assert_eq!(mount.names(a), ["x"]);
            mount.bucket.put_object("b/new", "new");
            mount.clock.advance(age);
            let expected: &[&str] = if is_new { &["new", "x"] } else { &["x"] };
            assert_eq!(mount.names(b), expected, "{ttl:?} {age:?}");
            assert_eq!(mount.names(b), ["new", "x"], "{ttl:?} {age:?}, again");
        };
        check(age_max - Duration::from_millis(1), false);
        check(age_max, true);
    }
}

/// Answers all requests of a future. Returns its output.
fn answered<T>(mount: &Mount, mut future: impl Future<Output = T> + Unpin) -> T {
    loop {
        if let Some(outcome) = (&mut future).now_or_never() {
            return outcome;
        }
        mount.bucket.deliver_all();
    }
}

/// A listing may be returned after a lookup that was requested later.
#[test]
fn what_was_found_is_not_absent_by_an_older_listing() {
    let names = NamesConfig {
        negative_ttl: Duration::from_secs(60),
        ..NamesConfig::default()
    };
    let options = SimOptions {
        time: Time::Manual,
        ..SimOptions::default()
    };
    let mount = Mount::with_all(options, names, WriteConfig::default(), "", &["x"]);
    let handle = now(mount.fs.open_directory(ROOT)).unwrap();
    let mut sink = Sink::new(9);
    let mut read = Box::pin(mount.fs.read_directory(handle, 0, true, &mut sink));
    waits(&mut read);
    mount.bucket.deliver_all();
    mount.clock.advance(Duration::from_millis(1));
    mount.bucket.put_object("new", "new");
    let look = || Box::pin(mount.fs.lookup(ROOT, OsStr::new("new")));
    answered(&mount, look()).unwrap();
    now(read).unwrap();
    assert_eq!(shown(&sink.entries), ["x"]);
    assert_eq!(answered(&mount, look()).unwrap().attributes.size, 3);
}

/// A reader that starts over sees the current bucket. Changes of this mount are always visible.
#[test]
fn what_was_listed_ahead_does_not_hide_changes_of_this_mount() {
    let keys = ["a/x", "b/x", "c/x"].map(str::to_owned);
    let mount = mount(Some(60), keys);
    let handle = now(mount.fs.open_directory(ROOT)).unwrap();
    let entries = mount.list(handle, 100, true);
    let [a, b, c] = [2, 3, 4].map(|index: usize| entries[index].entry.attributes.ino);
    assert_eq!(mount.names(a), ["x"]);
    let rewound = now(mount.fs.open_directory(c)).unwrap();
    mount.bucket.put_object("c/new", "new");
    assert_eq!(shown(&mount.list(rewound, 100, false)), ["x"]);
    assert_eq!(shown(&mount.list(rewound, 100, false)), ["new", "x"]);

    mount.clock.advance(Duration::from_millis(1));
    let options = WriteOptions::default();
    let created = mount
        .fs
        .create(b, OsStr::new("mine"), options, Opener::UNSEEN);
    let (_, opened) = created.unwrap();
    now(mount.fs.sync(opened.handle)).unwrap();
    mount.fs.release(opened.handle);
    assert_eq!(mount.names(b), ["mine", "x"]);
}

/// A listed directory answers stats of absent names, if absence may be old.
#[test]
fn absence_is_known_from_a_listing_where_it_may_be_old() {
    let keys: Vec<String> = (0..2_500).map(|n| format!("d/n{n:04}")).collect();
    let mount = mount(Some(60), keys);
    let directory = mount.walk("d");
    assert_eq!(mount.names(directory).len(), 2_500);
    mount.requests();
    let absent = |mount: &Mount, name: &str| {
        let outcome = mount.lookup(directory, name);
        let is_absent = matches!(outcome, Err(FsError::NotFound));
        (is_absent, mount.requests().1)
    };
    assert_eq!(absent(&mount, "n0000-lock"), (true, 0));
    assert_eq!(absent(&mount, "z"), (true, 0));
    let kept = |mount: &Mount| mount.fs.negative_ttl(directory, OsStr::new("z"));
    assert_eq!(kept(&mount), Duration::from_secs(60));
    mount.clock.advance(Duration::from_secs(20));
    assert_eq!(kept(&mount), Duration::from_secs(40));
    // New files of this mount are visible.
    mount.clock.advance(Duration::from_millis(1));
    let options = WriteOptions::default();
    let (_, opened) = mount
        .fs
        .create(directory, OsStr::new("z"), options, Opener::UNSEEN)
        .unwrap();
    now(mount.fs.sync(opened.handle)).unwrap();
    mount.fs.release(opened.handle);
    assert!(!absent(&mount, "z").0);
    // New files of other clients are visible when the listing is too old.
    mount.bucket.put_object("d/y", "y");
    assert_eq!(absent(&mount, "y"), (true, 0));
    mount.clock.advance(Duration::from_secs(40));
    assert_eq!(absent(&mount, "y"), (false, 1));
}
