use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;
use std::time::Duration;

use mountpoint_crt_sys::block::BlockPool;
use tempfile::TempDir;

use super::*;

/// Storage in a new directory, and the folder of its entries.
fn storage() -> (TempDir, Storage, PathBuf) {
    let outer = TempDir::new().unwrap();
    let directory = CacheDirectory::open(outer.path(), None, &|_| false).unwrap();
    let path = directory.path().to_owned();
    (outer, Storage::new(Arc::new(directory)), path)
}

fn name(shard: u8, last: u8) -> EntryName {
    let mut name = [7; 16];
    (name[0], name[15]) = (shard, last);
    EntryName(name)
}

fn put(storage: &Storage, name: EntryName, index: &[u8], data: &[u8]) {
    let file = storage.create(name, FileKind::Data).unwrap().unwrap();
    file.write_at(data, 0).unwrap();
    let file = storage.create(name, FileKind::Index).unwrap().unwrap();
    file.append(index).unwrap();
}

#[test]
fn names_are_parsed_as_they_are_written() {
    let entry = EntryName(*b"0123456789abcdef");
    assert_eq!(
        file_name(entry, FileKind::Data),
        "313233343536373839616263646566.data"
    );
    for kind in [FileKind::Index, FileKind::Data] {
        assert_eq!(parse(0x30, &file_name(entry, kind)), Some((entry, kind)));
    }
    for foreign in [
        "",
        ".data",
        "x.data",
        "313233343536373839616263646566",
        "313233343536373839616263646566.Data",
        "313233343536373839616263646566.data~",
        "31323334353637383961626364656.data",
        "3132333435363738396162636465667.data",
        "31323334353637383961626364656X.data",
        "31323334353637383961626364656A.index",
        "+1323334353637383961626364656a.index",
        "éé313233343536373839616263646.index",
    ] {
        assert_eq!(parse(0x30, foreign), None, "{foreign:?}");
    }
}

#[test]
fn files_are_made_once_read_and_removed() {
    let (_outer, storage, path) = storage();
    let entry = name(0xab, 1);
    assert!(storage.open(entry, FileKind::Data).unwrap().is_none());
    storage.remove(entry).unwrap();
    put(&storage, entry, b"ind", b"0123456789");
    let file = path.join("ab").join(file_name(entry, FileKind::Data));
    let mode = fs::metadata(&file).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert_eq!(
        fs::metadata(path.join("ab")).unwrap().mode() & 0o7777,
        0o700
    );
    assert!(storage.create(entry, FileKind::Data).unwrap().is_none());

    let index = storage.open(entry, FileKind::Index).unwrap().unwrap();
    let other = storage.open(entry, FileKind::Index).unwrap().unwrap();
    index.append(b"ex").unwrap();
    other.append(b"!").unwrap();
    let mut text = [0; 10];
    assert_eq!(index.read_at(&mut text, 1).unwrap(), 5);
    assert_eq!(&text[..5], b"ndex!");

    let data = storage.open(entry, FileKind::Data).unwrap().unwrap();
    data.write_at(b"xy", 1 << 20).unwrap();
    let mut fill = BlockPool::new(0).allocate(4);
    assert_eq!(data.read_into(&mut fill, 3, 2).unwrap(), 2);
    assert_eq!(data.read_into(&mut fill, (1 << 20) + 1, 2).unwrap(), 1);
    assert_eq!(fill.bytes(), b"34y");
    let status = data.status().unwrap();
    assert_eq!(status.len, (1 << 20) + 2);
    assert!(status.allocated < 1 << 20, "it is sparse");
    assert!(status.is_linked);
    assert_eq!(status.inode, fs::metadata(&file).unwrap().ino());

    // An open file goes on without its name.
    storage.remove(entry).unwrap();
    assert!(!data.status().unwrap().is_linked);
    assert!(!index.status().unwrap().is_linked);
    data.write_at(b"z", 0).unwrap();
    assert_eq!(data.read_at(&mut text[..2], 0).unwrap(), 2);
    assert_eq!(&text[..2], b"z1");
    assert!(!file.exists());
    // Even a folder that somebody has removed is made again.
    fs::remove_dir(path.join("ab")).unwrap();
    put(&storage, entry, b"", b"");
    assert_eq!(storage.list(0xab).unwrap().len(), 1);
}

#[test]
fn listings_have_sizes_times_and_leftovers_and_nothing_of_others() {
    let (_outer, storage, path) = storage();
    assert_eq!(storage.list(0x12).unwrap(), []);
    let (whole, no_index, no_data) = (name(0x12, 1), name(0x12, 2), name(0x12, 3));
    put(&storage, whole, &[1; 10], &[2; 100_000]);
    put(&storage, name(0x13, 1), b"", b"");
    drop(storage.create(no_index, FileKind::Data).unwrap());
    drop(storage.create(no_data, FileKind::Index).unwrap());
    let folder = path.join("12");
    let foreign = [
        "notes.txt",
        "313233343536373839616263646566.data.bak",
        ".index",
    ];
    for name in foreign {
        fs::write(folder.join(name), "x").unwrap();
    }
    fs::create_dir(folder.join(file_name(name(0x12, 4), FileKind::Data))).unwrap();
    symlink(
        "notes.txt",
        folder.join(file_name(name(0x12, 5), FileKind::Data)),
    )
    .unwrap();

    let data = storage.open(whole, FileKind::Data).unwrap().unwrap();
    data.touch().unwrap();
    let mut listed = storage.list(0x12).unwrap();
    listed.sort_by_key(|entry| entry.name);
    let told: Vec<_> = listed.iter().map(|it| (it.name, it.is_complete)).collect();
    assert_eq!(told, [(whole, true), (no_index, false), (no_data, false)]);
    let index = storage.open(whole, FileKind::Index).unwrap().unwrap();
    let allocated = data.status().unwrap().allocated + index.status().unwrap().allocated;
    assert_eq!(listed[0].bytes, allocated);
    assert_eq!(listed[0].stored_at, data.status().unwrap().modified_at);
    assert!(listed[0].used_at >= listed[0].stored_at);

    // A link or a folder in the place of a file is not followed, read or removed.
    assert!(storage.open(name(0x12, 5), FileKind::Data).is_err());
    assert!(storage.open(name(0x12, 4), FileKind::Data).is_err());
    assert_eq!(fs::read(folder.join("notes.txt")).unwrap(), b"x");
}

#[test]
fn reading_is_no_use_and_touching_stores_nothing() {
    let (_outer, storage, _path) = storage();
    let entry = name(1, 1);
    put(&storage, entry, b"", b"0123");
    let before = storage.list(1).unwrap()[0];
    let data = storage.open(entry, FileKind::Data).unwrap().unwrap();
    let old = fs::FileTimes::new()
        .set_accessed(SystemTime::UNIX_EPOCH)
        .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    data.file().unwrap().set_times(old).unwrap();
    let mut text = [0; 4];
    data.read_at(&mut text, 0).unwrap();
    assert_eq!(storage.list(1).unwrap()[0].used_at, SystemTime::UNIX_EPOCH);
    data.touch().unwrap();
    let touched = storage.list(1).unwrap()[0];
    assert!(touched.used_at >= before.used_at);
    assert_eq!(
        touched.stored_at,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1)
    );
}

#[test]
fn one_process_at_a_time_evicts() {
    let (outer, first, _path) = storage();
    let second = CacheDirectory::open(outer.path(), None, &|_| false).unwrap();
    let second = Storage::new(Arc::new(second));
    let right = first.lock_eviction().unwrap().unwrap();
    assert!(second.lock_eviction().unwrap().is_none());
    assert!(first.lock_eviction().unwrap().is_none());
    drop(right);
    assert!(second.lock_eviction().unwrap().is_some());
}

#[test]
fn processes_share_the_estimate_and_a_damaged_one_is_unknown() {
    let (outer, first, path) = storage();
    let second = CacheDirectory::open(outer.path(), None, &|_| false).unwrap();
    let second = Storage::new(Arc::new(second));
    assert_eq!(
        first.update_usage(&mut |_| {}).unwrap(),
        Some(Usage::default())
    );
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
    let set = |usage: &mut Usage| usage.count(100, 2, at);
    first.update_usage(&mut { set }).unwrap();
    let add = |usage: &mut Usage| usage.bytes += 11;
    let usage = second.update_usage(&mut { add }).unwrap().unwrap();
    assert_eq!((usage.bytes, usage.entries), (111, 2));
    assert!(usage.is_counted());
    fs::write(path.join("usage"), "garbage").unwrap();
    assert_eq!(
        first.update_usage(&mut |_| {}).unwrap(),
        Some(Usage::default())
    );
    let lock = File::open(path.join("usage")).unwrap();
    lock.try_lock().unwrap();
    assert_eq!(first.update_usage(&mut |_| {}).unwrap(), None);
}

#[test]
fn the_space_is_that_of_the_file_system() {
    let (_outer, storage, path) = storage();
    let space = storage.space().unwrap();
    let status = nix::sys::statvfs::statvfs(&path).unwrap();
    assert_eq!(space.total, status.blocks() * status.fragment_size());
    assert!(space.available > 0 && space.available <= space.total);
}

#[test]
fn a_full_disk_is_an_error_and_removing_makes_room() {
    let mounted = Tmpfs::new("size=256k");
    let directory = CacheDirectory::open(mounted.0.path(), None, &|_| false).unwrap();
    let storage = Storage::new(Arc::new(directory));
    let entry = name(3, 3);
    put(&storage, entry, b"", &[1; 100_000]);
    let data = storage.create(name(3, 4), FileKind::Data).unwrap().unwrap();
    let error = data.write_at(&vec![2; 300_000], 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let index = storage
        .create(name(3, 4), FileKind::Index)
        .unwrap()
        .unwrap();
    assert!(index.append(&[3; 5000]).is_err());
    // A cache on a full disk opens: what it has can be read.
    let again = CacheDirectory::open(mounted.0.path(), None, &|_| false).unwrap();
    let again = Storage::new(Arc::new(again));
    let mut bytes = [0; 3];
    let file = again.open(entry, FileKind::Data).unwrap().unwrap();
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 3);
    drop((data, index));
    again.remove(name(3, 4)).unwrap();
    put(&again, name(3, 5), b"x", b"y");
}

/// A small file system in memory, unmounted at the end.
struct Tmpfs(TempDir);

impl Tmpfs {
    fn new(options: &str) -> Self {
        let place = TempDir::new().unwrap();
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(
            Some("tmpfs"),
            place.path(),
            Some("tmpfs"),
            flags,
            Some(options),
        )
        .expect("these tests run as root");
        Self(place)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        nix::mount::umount2(self.0.path(), nix::mount::MntFlags::MNT_DETACH).unwrap();
    }
}
