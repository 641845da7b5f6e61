//! Listings on a disk that lies and forgets, of mounts that come and go.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::executor::block_on;
use mountpoint_client::types::ETag;

use super::super::directory::CacheDirectory;
use super::super::disk::Disk;
use super::super::eviction::{Room, RoomLimits};
use super::super::identity::StoreId;
use super::super::storage::Storage;
use super::marks::MARK_TIME;
use super::{ListingStore, SavedName};
use crate::clock::Clock;
use crate::local_disk::test_disk::SimulatedDisk;
use crate::operation::Version;

const TTL: Duration = Duration::from_secs(60);

const SECOND: Duration = Duration::from_secs(1);

/// A cache directory and the machine's clock.
struct Place {
    directory: tempfile::TempDir,
    clock: Clock,
}

impl Place {
    fn new() -> Self {
        let clock = Clock::manual();
        clock.advance(1_000 * SECOND);
        Self {
            directory: tempfile::tempdir().unwrap(),
            clock,
        }
    }

    /// A mount of a bucket, in a boot of the machine.
    fn mount_of(&self, bucket: &str, boot: &str) -> Arc<ListingStore> {
        let directory = CacheDirectory::open(self.directory.path(), None, &|_| false).unwrap();
        let storage = Storage::simulated(&SimulatedDisk::timed(0, &self.clock));
        let room = Room::start(
            Arc::clone(&storage),
            RoomLimits::default(),
            self.clock.clone(),
        );
        let disk = Disk::new(storage, room, self.clock.clone(), boot.to_owned());
        let store = StoreId {
            bucket: bucket.to_owned(),
            ..StoreId::default()
        };
        let mount = ListingStore::start(directory.listings().unwrap(), store, boot, disk).unwrap();
        // It counts its listings first: a thread that does so while the clock goes on seems stuck.
        mount.drain(TTL);
        // No listing is asked for in the moment in which the marks are made.
        self.clock.advance(Duration::from_millis(1));
        mount
    }

    fn mount(&self) -> Arc<ListingStore> {
        self.mount_of("bucket", "boot")
    }

    fn file(&self, suffix: &str) -> PathBuf {
        let folder = self.directory.path().join("mount-s3-cache/v1/listings");
        let mut files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
        let is_it = |path: &PathBuf| path.to_str().unwrap().ends_with(suffix);
        files.find(is_it).expect("a file")
    }
}

fn names() -> Vec<SavedName> {
    let object = |name: &str, is_archived| SavedName {
        name: Arc::from(name),
        object: Some(Version {
            size: 7 << 40,
            mtime: SystemTime::UNIX_EPOCH + 77 * SECOND,
            etag: ETag::from_header("\"tag-2\""),
            is_archived,
        }),
    };
    let directory = SavedName {
        name: Arc::from("d"),
        object: None,
    };
    vec![object("a", false), directory, object("e", true)]
}

/// Keeps a listing that was asked for just now.
fn keep(mount: &Arc<ListingStore>, prefix: &str) {
    mount.store(Arc::from(prefix), (names().len(), names), Duration::ZERO);
    mount.drain(TTL);
}

fn load(mount: &Arc<ListingStore>, prefix: &str) -> Option<(Vec<SavedName>, Duration)> {
    let listing = block_on(Arc::clone(mount).load(Arc::from(prefix), TTL));
    listing.map(|listing| (listing.names, listing.age))
}

#[track_caller]
fn check_kept(mount: &Arc<ListingStore>, prefix: &str, is_there: bool) {
    let expected = is_there.then(names);
    assert_eq!(load(mount, prefix).map(|(names, _)| names), expected);
}

#[test]
fn a_listing_outlives_its_mount_for_as_long_as_names_are_valid() {
    let place = Place::new();
    let mount = place.mount();
    mount.store(Arc::from("p/"), (3, names), 5 * SECOND);
    mount.drain(TTL);
    check_kept(&mount, "p/", false);
    place.clock.advance(10 * SECOND);
    mount.store(Arc::from("p/"), (3, names), 5 * SECOND);
    mount.drain(TTL);
    drop(mount);
    place.clock.advance(10 * SECOND);
    let mount = place.mount();
    let (listed, age) = load(&mount, "p/").unwrap();
    assert_eq!(listed, names());
    assert_eq!(age.as_secs(), 15);
    check_kept(&mount, "q/", false);
    place.clock.advance(TTL - 15 * SECOND);
    check_kept(&mount, "p/", false);
}

#[test]
fn other_stores_and_other_boots_have_their_own() {
    let place = Place::new();
    keep(&place.mount(), "p/");
    check_kept(&place.mount_of("other", "boot"), "p/", false);
    check_kept(&place.mount(), "p/", true);
    // Which marks a power loss has left is not known.
    check_kept(&place.mount_of("bucket", "second boot"), "p/", false);
    check_kept(&place.mount(), "p/", false);
}

#[test]
fn every_flipped_byte_of_a_listing_is_a_miss() {
    let place = Place::new();
    let mount = place.mount();
    keep(&mount, "p/");
    let path = place.file(".names");
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut wrong = whole.clone();
        wrong[at] ^= 0x10;
        fs::write(&path, &wrong).unwrap();
        check_kept(&mount, "p/", false);
        // Bytes that are no listing of this format belong to somebody else.
        assert_eq!(path.exists(), at < 12, "byte {at}");
    }
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        check_kept(&mount, "p/", false);
    }
    fs::write(&path, &whole).unwrap();
    check_kept(&mount, "p/", true);
}

#[test]
fn every_flipped_byte_of_the_marks_is_a_miss() {
    let place = Place::new();
    keep(&place.mount(), "p/");
    let (path, listing) = (place.file("marks"), place.file(".names"));
    let (marks, listing_bytes) = (fs::read(&path).unwrap(), fs::read(&listing).unwrap());
    let slot = place.mount().slots_for("p/")[0];
    let at = 56 + 8 * usize::from(slot);
    for at in (0..56).chain(at..at + 8) {
        let mut wrong = marks.clone();
        wrong[at] ^= 0x10;
        fs::write(&path, &wrong).unwrap();
        fs::write(&listing, &listing_bytes).unwrap();
        check_kept(&place.mount(), "p/", false);
    }
    fs::write(&path, &marks).unwrap();
    check_kept(&place.mount(), "p/", true);
    fs::remove_file(&path).unwrap();
    check_kept(&place.mount(), "p/", false);
}

/// The mount that has made the change is killed, or goes on.
#[test]
fn no_listing_from_before_a_change_counts() {
    for (key, prefix, is_changed) in [
        ("p/file", "p/", true),
        ("p/new/file", "p/", true),
        ("p/file", "", true),
        ("p/file", "p/q/", false),
        ("p/file", "q/", false),
        ("file", "p/", false),
        ("p/", "p/", true),
        ("p/", "p/q/r/", true),
        ("p/q/", "p/", true),
        ("p/q/", "p/q/r/", true),
        ("p/q/", "p/r/", false),
    ] {
        let place = Place::new();
        let (reads, changes) = (place.mount(), place.mount());
        keep(&reads, prefix);
        check_kept(&reads, prefix, true);
        place.clock.advance(SECOND);
        changes.changed(key);
        block_on(changes.settled());
        check_kept(&reads, prefix, !is_changed);
        check_kept(&place.mount(), prefix, !is_changed);
        // A listing may be in flight when the change begins, and come when it has ended.
        place.clock.advance(MARK_TIME / 2);
        keep(&reads, prefix);
        check_kept(&place.mount(), prefix, !is_changed);
        place.clock.advance(MARK_TIME + SECOND);
        keep(&changes, prefix);
        check_kept(&place.mount(), prefix, true);
    }
}

#[test]
fn one_mark_holds_for_many_changes() {
    let place = Place::new();
    let mount = place.mount();
    for number in 0..100 {
        mount.changed(&format!("p/{number}"));
        block_on(mount.settled());
    }
    assert_eq!(
        mount
            .pending
            .queued
            .load(std::sync::atomic::Ordering::Relaxed),
        1
    );
    place.clock.advance(MARK_TIME);
    mount.changed("p/1");
    assert_eq!(
        mount
            .pending
            .queued
            .load(std::sync::atomic::Ordering::Relaxed),
        2
    );
}

#[test]
fn marks_are_made_anew_where_another_process_removed_them() {
    let place = Place::new();
    let (one, other) = (place.mount(), place.mount());
    keep(&one, "p/");
    fs::remove_file(place.file("marks")).unwrap();
    keep(&other, "p/");
    check_kept(&one, "p/", false);
    place.clock.advance(SECOND);
    keep(&other, "p/");
    check_kept(&one, "p/", true);
    place.clock.advance(SECOND);
    one.changed("p/file");
    block_on(one.settled());
    check_kept(&place.mount(), "p/", false);
}

#[test]
fn without_marks_nothing_is_used_any_more() {
    let place = Place::new();
    let mount = place.mount();
    keep(&mount, "p/");
    let path = place.file("marks");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    mount.changed("p/file");
    block_on(mount.settled());
    assert!(!mount.may_have("p/"));
    check_kept(&place.mount(), "p/", false);
}

#[test]
fn listings_are_removed_and_counted() {
    let place = Place::new();
    let mount = place.mount();
    keep(&mount, "p/");
    keep(&mount, "q/");
    assert_eq!(mount.folder.count().unwrap().len(), 2);
    let (there, absent) = (place.mount(), place.mount());
    there.drain(TTL);
    assert!(there.may_have("p/") && there.may_have("q/") && !there.may_have("r/"));
    mount.clear().unwrap();
    assert_eq!(
        mount.folder.count().unwrap(),
        std::collections::HashSet::new()
    );
    check_kept(&absent, "p/", false);
    assert!(!absent.may_have("p/"));
    place.file("marks");
}
