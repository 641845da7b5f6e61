//! Listings that a cache keeps for the mounts that follow.

use std::time::Duration;

use futures::executor::block_on;
use tempfile::TempDir;

use super::*;
use crate::cache::{Cache, Caches, StoreId};
use crate::config::CacheConfig;

const ROOT: InodeNo = InodeNo::ROOT;

const SECOND: Duration = Duration::from_secs(1);

const TTL: Duration = Duration::from_secs(60);

/// A bucket and a machine with a cache.
struct Machine {
    bucket: Arc<SimClient>,
    clock: Clock,
    directory: TempDir,
}

/// A mount with the cache of its machine.
struct CachedMount {
    mount: Mount,
    cache: Arc<Cache>,
}

impl Machine {
    fn new(keys: &[&str]) -> Self {
        let bucket = Arc::new(SimClient::new(SimOptions {
            time: Time::Immediate,
            ..SimOptions::default()
        }));
        for key in keys {
            bucket.put_object(key, format!("content of {key}"));
        }
        let clock = Clock::manual();
        clock.advance(1_000 * SECOND);
        Self {
            bucket,
            clock,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn mount(&self) -> CachedMount {
        self.mount_with(TTL, all_changes())
    }

    fn mount_with(&self, ttl: Duration, write: WriteConfig) -> CachedMount {
        let config = CacheConfig {
            directory: self.directory.path().to_owned(),
            bytes_max: Some(64 << 20),
            key: None,
            clear_at_exit: false,
        };
        let opened = Cache::open(
            &config,
            StoreId::default(),
            1 << 20,
            &|_| false,
            self.clock.clone(),
        );
        let cache = opened.unwrap();
        // No listing is asked for in the moment in which the marks are made.
        self.clock.advance(Duration::from_millis(1));
        let caches = Caches {
            disk: Some(Arc::clone(&cache)),
            shared: None,
        };
        let config = FsConfig {
            names: NamesConfig {
                ttl,
                negative_ttl: ttl,
                opens_unasked: !ttl.is_zero(),
                has_cache: true,
                ..NamesConfig::default()
            },
            write,
            ..FsConfig::default()
        };
        let (bucket, clock) = (Arc::clone(&self.bucket), self.clock.clone());
        let client = Arc::clone(&bucket) as _;
        let fs = FileSystem::with_caches(client, config, caches, clock.clone());
        fs.parts.writing.believe();
        let fs = Arc::new(fs);
        drop(bucket.take_log());
        let mount = Mount { bucket, clock, fs };
        CachedMount { mount, cache }
    }
}

impl CachedMount {
    /// The names in the directory at `path`, and how many requests that took.
    fn list(&self, path: &str) -> (Vec<String>, usize) {
        let directory = self.find(path).unwrap();
        let fs = &self.mount.fs;
        let handle = block_on(fs.open_directory(directory)).unwrap();
        let (mut names, mut offset) = (Vec::new(), 0);
        loop {
            let mut sink = Sink::new(700);
            block_on(fs.read_directory(handle, offset, true, &mut sink)).unwrap();
            let Some(last) = sink.entries.last() else {
                break;
            };
            offset = last.next_offset;
            names.append(&mut shown(&sink.entries));
        }
        fs.release_directory(handle);
        (names, self.requests())
    }

    fn find(&self, path: &str) -> Result<InodeNo, FsError> {
        let names = path.split('/').filter(|name| !name.is_empty());
        let mut found = ROOT;
        for name in names {
            let entry = block_on(self.mount.fs.lookup(found, OsStr::new(name)))?;
            found = entry.attributes.ino;
        }
        Ok(found)
    }

    fn requests(&self) -> usize {
        self.mount.bucket.take_log().records().len()
    }

    /// Waits until what was listed is on the disk.
    fn store(&self) {
        self.cache.drain(TTL);
    }
}

/// The names in all directories, and how many requests that took.
fn list_all(mount: &CachedMount) -> (Vec<Vec<String>>, usize) {
    let (mut all, mut requests) = (Vec::new(), 0);
    for path in ["", "a", "a/b", "c"] {
        let (names, sent) = mount.list(path);
        all.push(names);
        requests += sent;
    }
    (all, requests)
}

const KEYS: [&str; 5] = ["1", "a/2", "a/b/3", "a/b/4", "c/5"];

#[test]
fn a_remount_sends_no_request_for_names_until_they_are_too_old() {
    let machine = Machine::new(&KEYS);
    let first = machine.mount();
    let (listed, _) = list_all(&first);
    assert_eq!(
        listed,
        [
            vec!["1", "a/", "c/"],
            vec!["2", "b/"],
            vec!["3", "4"],
            vec!["5"]
        ]
    );
    first.store();
    machine.clock.advance(20 * SECOND);
    machine.bucket.put_object("a/b/6", "new");

    let second = machine.mount();
    assert_eq!(list_all(&second), (listed, 0));
    // Without a listing before, too.
    let third = machine.mount();
    let file = third.find("a/b/3").unwrap();
    let attributes = block_on(third.mount.fs.attributes(file)).unwrap();
    assert_eq!(attributes.size, "content of a/b/3".len() as u64);
    let opened = block_on(third.mount.fs.open(file, READ)).unwrap();
    third.mount.fs.release(opened.handle);
    assert!(matches!(third.find("a/b/none"), Err(FsError::NotFound)));
    assert!(matches!(third.find("a/none/x"), Err(FsError::NotFound)));
    assert_eq!(third.requests(), 0);

    machine.clock.advance(TTL - 20 * SECOND);
    let (names, requests) = second.list("a/b");
    assert_eq!(names, ["3", "4", "6"]);
    assert!(requests > 0);
    let (names, _) = machine.mount().list("a/b");
    assert_eq!(names, ["3", "4", "6"]);
}

#[test]
fn names_of_a_saved_listing_are_valid_from_its_request_on() {
    let machine = Machine::new(&KEYS);
    let first = machine.mount();
    list_all(&first);
    first.store();
    machine.clock.advance(50 * SECOND);
    let second = machine.mount();
    let directory = second.find("a").unwrap();
    let entry = block_on(second.mount.fs.lookup(directory, OsStr::new("2"))).unwrap();
    // A mount takes a millisecond here.
    assert_eq!(entry.ttl.as_secs(), 9);
}

#[test]
fn a_change_that_was_acknowledged_is_in_every_later_mount() {
    let machine = Machine::new(&KEYS);
    let first = machine.mount();
    list_all(&first);
    first.store();
    let second = machine.mount();
    second.find("a/b/3").unwrap();
    let (fs, directory) = (&second.mount.fs, second.find("a/b").unwrap());
    block_on(fs.unlink(directory, OsStr::new("3"))).unwrap();
    block_on(fs.settled());
    assert_eq!(second.list("a/b").0, ["4"]);
    // The second mount was killed: nothing more was stored.
    assert_eq!(machine.mount().list("a/b").0, ["4"]);
    assert!(machine.mount().find("a/b/3").is_err());
    let third = machine.mount();
    third.find("c").unwrap();
    let (from, to) = ((ROOT, OsStr::new("c")), (ROOT, OsStr::new("d")));
    let stop = Stop::never();
    let fs = &third.mount.fs;
    block_on(fs.rename(from, to, RenameMode::Replace, &stop)).unwrap();
    block_on(fs.settled());
    let last = machine.mount();
    assert_eq!(last.list("").0, ["1", "a/", "d/"]);
    assert!(last.find("c/5").is_err());
    assert_eq!(last.list("d").0, ["5"]);
}

#[test]
fn a_mount_never_goes_back_to_an_older_listing() {
    let machine = Machine::new(&KEYS);
    let first = machine.mount();
    list_all(&first);
    first.store();
    machine.clock.advance(SECOND);
    let second = machine.mount();
    machine.bucket.put_object("c/6", "new");
    // A look-up that S3 has answered.
    let directory = second.find("c").unwrap();
    block_on(second.mount.fs.lookup(directory, OsStr::new("5"))).unwrap();
    machine.clock.advance(TTL - 5 * SECOND);
    assert_eq!(second.list("c").0, ["5"]);
    machine.clock.advance(5 * SECOND);
    assert_eq!(second.list("c").0, ["5", "6"]);
    second.store();
    machine.bucket.put_object("c/7", "new");
    assert_eq!(second.list("c").0, ["5", "6", "7"], "asked again");
    second.store();
    assert_eq!(machine.mount().list("c").0, ["5", "6", "7"]);
}

#[test]
fn a_long_listing_is_saved_in_one_piece() {
    let keys: Vec<String> = (0..2_500).map(|number| format!("d/n{number:04}")).collect();
    let machine = Machine::new(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let first = machine.mount();
    first.list("");
    let (listed, requests) = first.list("d");
    assert_eq!(listed.len(), 2_500);
    assert!(requests >= 3);
    first.store();
    assert_eq!(machine.mount().list("d"), (listed, 0));
}

#[test]
fn nothing_is_saved_or_shown_where_names_are_to_be_new() {
    let machine = Machine::new(&KEYS);
    let short = machine.mount_with(Duration::ZERO, all_changes());
    list_all(&short);
    short.store();
    assert_eq!(short.cache.stats().listings_stored, 0);
    let posix = WriteConfig {
        posix_metadata: true,
        ..all_changes()
    };
    let posix = machine.mount_with(TTL, posix);
    list_all(&posix);
    posix.store();
    assert_eq!(posix.cache.stats().listings_stored, 0);
    let long = machine.mount();
    list_all(&long);
    long.store();
    assert_eq!(long.cache.stats().listings_stored, 4);
    let short = machine.mount_with(Duration::ZERO, all_changes());
    assert!(short.list("c").1 > 0);
    // Such a mount's changes count all the same.
    short.find("c/5").unwrap();
    let directory = short.find("c").unwrap();
    block_on(short.mount.fs.unlink(directory, OsStr::new("5"))).unwrap();
    block_on(short.mount.fs.settled());
    assert_eq!(machine.mount().list("").0, ["1", "a/"]);
}
