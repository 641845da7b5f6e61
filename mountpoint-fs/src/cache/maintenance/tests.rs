use std::fs::{self, File, FileTimes};

use mountpoint_client::types::{ETag, Key};
use tempfile::TempDir;

use super::*;
use crate::cache::identity::StoreId;
use crate::cache::index::{Extent, Header, Record};
use crate::cache::storage::FileKind;
use crate::local_disk::checksum;

const CHUNK: u64 = 64 << 10;

/// A directory with a cache, and something that is not ours.
struct Place {
    outer: TempDir,
    storage: Storage,
}

impl Place {
    fn new() -> Self {
        let outer = TempDir::new().unwrap();
        let storage = Self::storage(&outer);
        fs::write(outer.path().join("of others"), "x").unwrap();
        Self { outer, storage }
    }

    fn storage(outer: &TempDir) -> Storage {
        Storage::new(Arc::new(
            CacheDirectory::open(outer.path(), None, &|_| false).unwrap(),
        ))
    }

    /// The cache as the helper command opens it.
    fn open(&self) -> KeptCache {
        let mut caches = KeptCache::open_all(self.outer.path(), &Clock::monotonic()).unwrap();
        assert_eq!(caches.len(), 1);
        caches.pop().unwrap()
    }

    /// Stores the first of two chunks of an object.
    fn put(&self, key: &str) -> CachedVersion {
        let version = version(key);
        let name = version.name();
        let bytes = vec![7; usize::try_from(CHUNK).unwrap()];
        let data = self.storage.create(name, FileKind::Data).unwrap().unwrap();
        data.write_at(&bytes, 0).unwrap();
        let index = self.storage.create(name, FileKind::Index).unwrap().unwrap();
        let header = Header::encode(&version);
        index.append(&header).unwrap();
        let salt = Header::decode(&header).unwrap().salt;
        let extent = Extent {
            start: 0,
            len: u32::try_from(CHUNK).unwrap(),
            crc: checksum(&[&bytes]),
        };
        index.append(&Record::Stored(extent).encode(salt)).unwrap();
        version
    }

    /// Has an entry look as if it was stored and used so long ago.
    fn age(&self, version: &CachedVersion, age: Duration) {
        let data = self
            .storage
            .open(version.name(), FileKind::Data)
            .unwrap()
            .unwrap();
        let then = Clock::monotonic().wall() - age;
        let times = FileTimes::new().set_accessed(then).set_modified(then);
        data.file().unwrap().set_times(times).unwrap();
    }

    fn entries(&self) -> Vec<ListedEntry> {
        let shards = self.open().shards().map(Result::unwrap).collect::<Vec<_>>();
        shards.concat()
    }

    /// The only entry's verdict, as text.
    fn verdict(&self) -> String {
        let entries = self.entries();
        assert_eq!(entries.len(), 1);
        let mut compared = 0;
        let verdict = self
            .open()
            .verify(&entries[0], &mut |bytes| compared += bytes);
        match verdict {
            Ok(EntryCheck::Right(found)) => format!("right {} {compared}", found.bytes),
            Ok(EntryCheck::Absent) => "absent".to_owned(),
            Ok(EntryCheck::Damaged(reason)) => reason.to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

fn version(key: &str) -> CachedVersion {
    CachedVersion {
        store: StoreId {
            bucket: "bucket".to_owned(),
            ..StoreId::default()
        },
        key: Key::parse(key).unwrap(),
        etag: ETag::from_header("\"1\""),
        size: 2 * CHUNK,
    }
}

#[test]
fn entries_are_described_and_compared() {
    let place = Place::new();
    let version = place.put("a/b");
    let cache = place.open();
    let Ok(EntryCheck::Right(found)) = cache.describe(&place.entries()[0]) else {
        panic!("an entry");
    };
    assert!(found.version.is(&version));
    assert_eq!(found.bytes, CHUNK);
    assert_eq!(place.verdict(), format!("right {CHUNK} {CHUNK}"));
    assert!(cache.space().unwrap().available > 0);
}

#[test]
fn damage_is_found_wherever_it_is() {
    let place = Place::new();
    let version = place.put("a/b");
    let name = version.name();
    let path = |extension: &str| {
        let text = name.to_string();
        let file = format!("{}.{extension}", &text[2..]);
        place.open().path().join(&text[..2]).join(file)
    };
    let (index, data) = (path("index"), path("data"));
    let (whole_index, whole_data) = (fs::read(&index).unwrap(), fs::read(&data).unwrap());
    for (at, is_index) in [
        (0, true),
        (40, true),
        (whole_index.len() - 1, true),
        (77, false),
    ] {
        let (file, whole) = if is_index {
            (&index, &whole_index)
        } else {
            (&data, &whole_data)
        };
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        fs::write(file, flipped).unwrap();
        assert!(!place.verdict().starts_with("right"), "byte {at}");
        fs::write(file, whole).unwrap();
    }
    File::options()
        .write(true)
        .open(&data)
        .unwrap()
        .set_len(100)
        .unwrap();
    assert_eq!(place.verdict(), "its bytes do not have their checksum");
    fs::remove_file(&data).unwrap();
    assert_eq!(place.verdict(), "its data file is missing");
    // An entry under another one's name.
    fs::write(&data, &whole_data).unwrap();
    let other = self::version("c").name().to_string();
    let folder = place.open().path().join(&other[..2]);
    fs::create_dir_all(&folder).unwrap();
    fs::rename(&index, folder.join(format!("{}.index", &other[2..]))).unwrap();
    fs::rename(&data, folder.join(format!("{}.data", &other[2..]))).unwrap();
    assert_eq!(place.verdict(), "it is of another object");
}

#[test]
fn what_is_old_goes_and_what_is_left_fits() {
    let place = Place::new();
    let hour = Duration::from_secs(60 * 60);
    for number in 0..20_u32 {
        let version = place.put(&format!("{number}"));
        place.age(&version, hour * number);
    }
    let entries = place.entries();
    let each = entries[0].bytes;
    let cache = place.open();
    let since = Clock::monotonic().wall() - hour * 15 + hour / 2;
    let removed = cache.evict_older_than(since).unwrap();
    assert_eq!((removed.entries, removed.bytes), (5, 5 * each));
    let removed = cache.evict_to(7 * each + each / 2).unwrap();
    assert_eq!((removed.entries, removed.bytes), (8, 8 * each));
    assert_eq!(place.entries().len(), 7);
    assert_eq!(cache.evict_to(7 * each).unwrap(), RemovedEntries::default());
    // While a mount evicts, the command waits for it.
    let right = place.storage.lock_eviction().unwrap();
    thread::scope(|scope| {
        let evicted = scope.spawn(|| cache.evict_to(0));
        drop(right);
        assert_eq!(evicted.join().unwrap().unwrap().entries, 7);
    });
    assert_eq!(place.entries(), []);
}

#[test]
fn clearing_removes_what_is_ours_and_leaves_folders_in_use() {
    let place = Place::new();
    let version = place.put("a");
    let open = place
        .storage
        .open(version.name(), FileKind::Data)
        .unwrap()
        .unwrap();
    let folder = place.open().path().to_owned();
    assert_eq!(place.open().clear().unwrap().entries, 1);
    assert!(folder.exists(), "a mount uses it");
    let mut byte = [0];
    assert_eq!(open.read_at(&mut byte, 0).unwrap(), 1);
    // The mount stores on.
    place.put("a");
    let Place { outer, storage } = place;
    drop(storage);
    let mut caches = KeptCache::open_all(outer.path(), &Clock::monotonic()).unwrap();
    assert_eq!(caches.pop().unwrap().clear().unwrap().entries, 1);
    let left: Vec<_> = fs::read_dir(outer.path()).unwrap().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(fs::read(outer.path().join("of others")).unwrap(), b"x");
    assert!(
        KeptCache::open_all(outer.path(), &Clock::monotonic())
            .unwrap()
            .is_empty()
    );
}
