//! The format and what is found in it: round trips, damage, order, listings.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use mountpoint_client::types::{ETag, ListOutput, ListRequest};
use proptest::prelude::*;

use super::file::DiskWait;
use super::{IndexBuilder, IndexEntry, IndexError, IndexFile, IndexHeader};

fn header() -> IndexHeader {
    IndexHeader {
        bucket: "bucket".to_owned(),
        prefix: "p/".to_owned(),
        region: Some("eu-central-1".to_owned()),
        endpoint_url: None,
    }
}

fn entry(key: &str, number: u64) -> IndexEntry {
    let etag = match number % 4 {
        0 => format!("\"{:032x}\"", number * 7),
        1 => format!("{:032x}", number * 7),
        2 => format!("\"{:032x}-{number}\"", number * 7),
        _ => format!("W/\"{number}\""),
    };
    let mtime = match number % 5 {
        0 => UNIX_EPOCH - Duration::from_secs(number),
        _ => UNIX_EPOCH + Duration::from_secs(1_700_000_000 + number % 1000),
    };
    IndexEntry::new(
        key.to_owned(),
        number * 1000,
        mtime,
        &ETag::from_header(&etag),
        number.is_multiple_of(3),
    )
}

/// Writes entries in that order, sorted in memory of `gathered_max` bytes if they are not.
fn write(path: &Path, entries: &[IndexEntry], gathered_max: usize) -> IndexFile {
    let mut builder = IndexBuilder::with_memory(path, header(), gathered_max).unwrap();
    for entry in entries {
        builder.push(entry.clone()).unwrap();
    }
    builder.finish().unwrap()
}

fn read(index: &IndexFile) -> Result<Vec<IndexEntry>, IndexError> {
    let mut cursor = index.cursor(DiskWait::Allowed);
    let mut entries = Vec::new();
    while cursor.advance()? {
        entries.push(cursor.entry()?);
    }
    Ok(entries)
}

/// Whether a whole file is read as `entries`; an error is neither.
fn reads_otherwise(path: &Path, entries: &[IndexEntry]) -> bool {
    let Ok(index) = IndexFile::open(path) else {
        return false;
    };
    let is_other = |found: Vec<IndexEntry>| {
        found != entries || *index.header() != header() || index.keys() != entries.len() as u64
    };
    read(&index).is_ok_and(is_other)
}

fn files_in(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).unwrap();
    files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn names_of_hashes_take_half_a_byte_a_digit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let hash = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut keys: Vec<String> = (0..5_000)
        .map(|number| format!("p/{:016x}{:016x}.bin", hash(number), hash(!number)))
        .collect();
    // Longer than one run, odd, and of capitals, which stay as they are.
    keys.push(format!("p/{}", "0123456789abcdef".repeat(60)));
    keys.push(format!("p/{}x", "f".repeat(601)));
    keys.push("p/0123456789ABCDEF0123456789ABCDEF".to_owned());
    let entries: Vec<IndexEntry> = keys.iter().map(|key| entry(key, 2)).collect();
    let index = write(&path, &entries, 1 << 20);
    let found = read(&index).unwrap();
    let found: BTreeSet<&String> = found.iter().map(|entry| &entry.key).collect();
    assert_eq!(found, keys.iter().collect());
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes < 5_000 * 46, "{bytes} bytes");
}

#[test]
fn an_empty_index_is_an_index() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let index = write(&path, &[], 1 << 20);
    assert_eq!((index.keys(), index.object_bytes()), (0, 0));
    assert!(read(&index).unwrap().is_empty());
    let index = IndexFile::open(&path).unwrap();
    assert_eq!(*index.header(), header());
    assert!(index.find("a", DiskWait::Allowed).unwrap().is_none());
    let listed = index.list(&ListRequest::default(), DiskWait::Allowed);
    assert!(listed.unwrap().objects.is_empty());
    assert_eq!(files_in(directory.path()), ["index"]);
}

#[test]
fn every_flipped_byte_is_an_error_or_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let entries: Vec<IndexEntry> = (0..12)
        .map(|number| {
            entry(
                &format!("p/directory-{}/file-{number:02}", number / 5),
                number,
            )
        })
        .collect();
    write(&path, &entries, 1 << 20);
    let whole = std::fs::read(&path).unwrap();
    let damaged = directory.path().join("damaged");
    for at in 0..whole.len() {
        for flip in [0xff, 0x01, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            std::fs::write(&damaged, &bytes).unwrap();
            let index = IndexFile::open(&damaged);
            let outcome = index.and_then(|index| read(&index));
            assert!(
                outcome.is_err(),
                "byte {at} of {}: {outcome:?}",
                whole.len()
            );
        }
    }
}

#[test]
fn every_cut_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let entries: Vec<IndexEntry> = (0..12)
        .map(|number| entry(&format!("p/file-{number:02}"), number))
        .collect();
    write(&path, &entries, 1 << 20);
    let whole = std::fs::read(&path).unwrap();
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        let error = IndexFile::open(&path).map(drop).unwrap_err();
        assert!(
            matches!(error, IndexError::Damaged(_) | IndexError::NotAnIndex),
            "{len}: {error}"
        );
    }
    let longer = [&whole[..], b"more"].concat();
    std::fs::write(&path, longer).unwrap();
    assert!(IndexFile::open(&path).is_err());
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let entries: Vec<IndexEntry> = (0..5000)
        .map(|number| entry(&format!("p/file-{number:06}"), number))
        .collect();
    let index = write(&path, &entries, 1 << 20);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(10_000)
        .unwrap();
    for wait in [DiskWait::Allowed, DiskWait::Refused] {
        let error = index.find("p/file-004000", wait).map(drop).unwrap_err();
        match wait {
            DiskWait::Allowed => assert!(matches!(error, IndexError::Damaged(_)), "{error}"),
            DiskWait::Refused => assert!(matches!(error, IndexError::NotInMemory), "{error}"),
        }
    }
}

#[test]
fn foreign_files_and_other_versions_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    std::fs::write(&path, "Bucket,Key,Size,ETag\nbucket,a,1,x\n").unwrap();
    let error = IndexFile::open(&path).map(drop).unwrap_err();
    assert!(matches!(error, IndexError::NotAnIndex), "{error}");
    write(&path, &[], 1 << 20);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    std::fs::write(&path, bytes).unwrap();
    let error = IndexFile::open(&path).map(drop).unwrap_err();
    assert!(error.to_string().contains("version 9"), "{error}");
    let error = IndexFile::open(&directory.path().join("none")).map(drop);
    assert!(error.unwrap_err().to_string().contains("No such file"));
}

#[test]
fn of_equal_keys_the_newest_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let of = |key: &str, second: u64, size| {
        let mtime = UNIX_EPOCH + Duration::from_secs(second);
        IndexEntry::new(
            key.to_owned(),
            size,
            mtime,
            &ETag::from_header("\"e\""),
            false,
        )
    };
    let entries = [
        of("b", 1, 1),
        of("a", 1, 2),
        of("b", 3, 3),
        of("b", 2, 4),
        of("c", 1, 5),
    ];
    for gathered_max in [1, 1 << 20] {
        let index = write(&path, &entries, gathered_max);
        let found = read(&index).unwrap();
        let found: Vec<_> = found.iter().map(|it| (&*it.key, it.size)).collect();
        assert_eq!(found, [("a", 2), ("b", 3), ("c", 5)]);
    }
}

#[test]
fn a_key_that_no_object_has_is_refused_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let mut builder = IndexBuilder::new(&path, header()).unwrap();
    let error = builder.push(entry(&"k".repeat(1025), 0)).unwrap_err();
    assert!(matches!(error, IndexError::KeyLength(1025)), "{error}");
    drop(builder);
    assert!(files_in(directory.path()).is_empty());
}

/// The answer to `request` where the keys are `keys`, in order.
fn expected(keys: &[String], request: &ListRequest) -> Vec<String> {
    let after = request.start_after.as_deref().unwrap_or_default();
    let keys = keys
        .iter()
        .filter(|key| key.starts_with(&request.prefix) && key.as_str() > after);
    let mut shown: Vec<String> = keys
        .map(|key| match request.delimiter.as_deref() {
            Some(delimiter) => match key[request.prefix.len()..].find(delimiter) {
                Some(at) => format!("{}/", &key[..request.prefix.len() + at]),
                None => key.clone(),
            },
            None => key.clone(),
        })
        .collect();
    shown.dedup();
    shown
}

/// All pages of a listing, each entry by its key or common prefix.
fn all_pages(index: &IndexFile, request: &ListRequest) -> Vec<String> {
    let mut request = request.clone();
    let mut shown = Vec::new();
    loop {
        let ListOutput {
            objects,
            common_prefixes,
            continuation_token,
            ..
        } = index.list(&request, DiskWait::Allowed).unwrap();
        let page_max = usize::from(request.max_keys.unwrap_or(1000));
        assert!(objects.len() + common_prefixes.len() <= page_max);
        let objects = objects.iter().map(|object| object.key.as_str().to_owned());
        let mut page: Vec<String> = objects.chain(common_prefixes).collect();
        page.sort();
        shown.extend(page);
        request.continuation_token = continuation_token;
        if request.continuation_token.is_none() {
            return shown;
        }
    }
}

fn keys() -> impl Strategy<Value = Vec<String>> {
    let component = "[a-cé/.]{1,6}";
    proptest::collection::btree_set(component, 0..60).prop_map(|keys| keys.into_iter().collect())
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        keys in proptest::collection::vec("[a-d/é]{1,12}|[a-h0-9/é]{1,3}[0-9a-f]{3,12}[-.A]?[0-9a-f]{0,9}", 0..200),
        gathered_max in 1_usize..20_000,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index");
        let entries: Vec<IndexEntry> = keys
            .iter()
            .zip(0..)
            .map(|(key, number)| entry(key, number))
            .collect();
        let index = write(&path, &entries, gathered_max);
        let expected: Vec<&String> = keys.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let found = read(&index).unwrap();
        prop_assert_eq!(found.iter().map(|it| &it.key).collect::<Vec<_>>(), expected);
        prop_assert!(found.iter().all(|it| entries.contains(it)));
        prop_assert!(!reads_otherwise(&path, &found));
        for key in &keys {
            let object = index.find(key, DiskWait::Refused).or_else(|_| index.find(key, DiskWait::Allowed));
            let object = object.unwrap().unwrap();
            prop_assert_eq!(object.key.as_str(), key);
            let entry = found.iter().find(|it| it.key == *key).unwrap();
            let is_archived = object.storage_class.is_some();
            let described = IndexEntry::new(
                key.clone(), object.size, object.last_modified, &object.etag, is_archived,
            );
            prop_assert_eq!(&described, entry);
        }
        prop_assert!(index.find("e", DiskWait::Allowed).unwrap().is_none());
        prop_assert_eq!(files_in(directory.path()), vec!["index"]);
    }

    #[test]
    fn listings_are_those_of_a_bucket(
        keys in keys(),
        prefix in "[a-cé/.]{0,3}",
        start_after in proptest::option::of("[a-cé/.]{1,4}"),
        is_delimited: bool,
        max_keys in 1_u16..7,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index");
        let entries: Vec<IndexEntry> =
            keys.iter().zip(0..).map(|(key, number)| entry(key, number)).collect();
        let index = write(&path, &entries, 1 << 20);
        let request = ListRequest {
            prefix,
            delimiter: is_delimited.then(|| "/".to_owned()),
            start_after,
            continuation_token: None,
            max_keys: Some(max_keys),
        };
        prop_assert_eq!(all_pages(&index, &request), expected(&keys, &request));
    }
}

#[test]
fn keys_of_many_blocks_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let key = |number: u64| format!("data/{:03}/sample-{:07}.jpg", number / 1000, number * 3);
    let entries: Vec<IndexEntry> = (0..50_000)
        .map(|number| entry(&key(number), number))
        .collect();
    write(&path, &entries, 1 << 20);
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes < 50_000 * 32, "{bytes} bytes");
    let index = IndexFile::open(&path).unwrap();
    for number in (0..50_000).step_by(7) {
        let found = index
            .find(&key(number), DiskWait::Allowed)
            .unwrap()
            .unwrap();
        assert_eq!(found.size, number * 1000);
        let absent = key(number).replace(".jpg", "");
        assert!(index.find(&absent, DiskWait::Allowed).unwrap().is_none());
    }
    let request = ListRequest {
        prefix: "data/".to_owned(),
        delimiter: Some("/".to_owned()),
        ..ListRequest::default()
    };
    let listed = index.list(&request, DiskWait::Allowed).unwrap();
    assert_eq!(listed.common_prefixes.len(), 50);
    assert!(listed.objects.is_empty() && listed.continuation_token.is_none());
}
