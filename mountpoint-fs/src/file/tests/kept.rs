//! Kept versions, as a helper command sees them while the mount runs.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;

use super::{Bench, wait, write};
use crate::file::kept::{BaseFetch, KeptPlace, KeptVersion, KeptVersions, export, read_files};

/// A bench with a kept version over a base of 100 bytes, of which most were never fetched.
fn kept() -> (Bench, KeptVersions, KeptVersion) {
    let bench = Bench::new();
    let object = bench.client.put_object("key", vec![1; 100]);
    let file = bench.over(&object);
    write(&file, 10, b"mine").unwrap();
    wait(file.set_len(120)).unwrap();
    bench.client.put_object("key", "theirs");
    wait(file.release()).unwrap_err();
    let versions = KeptVersions::open(bench.directory.path()).unwrap().unwrap();
    let ids = versions.ids().unwrap();
    let [id] = &ids[..] else { panic!("{ids:?}") };
    let version = versions.find(id).unwrap().unwrap();
    (bench, versions, version)
}

pub(super) fn exported(
    versions: &KeptVersions,
    version: &KeptVersion,
    fetch: Option<&mut BaseFetch<'_>>,
) -> Result<Vec<u8>, String> {
    let target = tempfile::NamedTempFile::new().unwrap();
    let file = File::options().write(true).open(target.path()).unwrap();
    let files = versions.data(&version.id).unwrap();
    let mut read = |place, range: &_| read_files(&files, place, range);
    export(&version.description, &mut read, &file, fetch)?;
    Ok(std::fs::read(target.path()).unwrap())
}

#[test]
fn a_version_tells_what_it_was_to_be() {
    let (_bench, versions, version) = kept();
    let description = &version.description;
    assert_eq!(description.key, "key");
    assert_eq!(
        (&*description.bucket, &*description.host),
        ("bucket", "host")
    );
    assert_eq!(description.size, 120);
    assert_eq!(description.base.as_ref().unwrap().size, 100);
    assert!(
        description.reason.contains("another client"),
        "{}",
        description.reason
    );
    assert_eq!(description.time, "1970-01-01T00:00:00Z");
    for (place, bytes) in [
        (KeptPlace::First, 4),
        (KeptPlace::Second, 0),
        (KeptPlace::Zeros, 20),
        (KeptPlace::Base, 96),
    ] {
        assert_eq!(description.bytes_in(&[place]), bytes, "{place:?}");
    }
    assert!(version.bytes > 0);
    let state = versions.state().unwrap();
    assert_eq!(state.holder.unwrap().mount_point, "/mnt");
    assert_eq!(state.open_files, 0);
}

#[test]
fn a_version_is_exported_with_its_base_or_without() {
    let (_bench, versions, version) = kept();
    let mut expected = vec![0; 120];
    expected[10..14].copy_from_slice(b"mine");
    assert_eq!(exported(&versions, &version, None).unwrap(), expected);
    let mut asked = Vec::new();
    let mut fetch = |range: Range<u64>| {
        asked.push(range.clone());
        Ok(vec![1; usize::try_from(range.end - range.start).unwrap()])
    };
    expected[..10].fill(1);
    expected[14..100].fill(1);
    let found = exported(&versions, &version, Some(&mut fetch)).unwrap();
    assert_eq!(found, expected);
    assert_eq!(asked, [0..10, 14..100]);
    let mut fail = |_: Range<u64>| Err("gone".to_owned());
    let failed = exported(&versions, &version, Some(&mut fail));
    assert_eq!(failed, Err("gone".to_owned()));
}

#[test]
fn a_discarded_version_is_gone_and_names_lead_nowhere_else() {
    let (bench, versions, version) = kept();
    for id in ["", "..", "../format", "1/1"] {
        assert!(versions.find(id).unwrap().is_none(), "{id}");
        versions.discard(id).unwrap();
    }
    versions.discard(&version.id).unwrap();
    assert!(versions.find(&version.id).unwrap().is_none());
    assert_eq!(versions.ids().unwrap(), [""; 0]);
    assert_eq!(bench.names("kept"), [""; 0]);
    let nothing = tempfile::tempdir().unwrap();
    assert!(KeptVersions::open(nothing.path()).unwrap().is_none());
}

#[test]
fn a_description_that_is_damaged_or_newer_is_not_guessed() {
    let (bench, versions, version) = kept();
    let name = format!("mount-s3-staging/kept/{}.json", version.id);
    let path = bench.directory.path().join(name);
    for (text, told) in [
        ("{", "damaged"),
        (r#"{"format":2,"other":[]}"#, "format 2"),
        (r#"{"format":1}"#, "damaged"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = versions.find(&version.id).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains(told), "{error}");
    }
}
