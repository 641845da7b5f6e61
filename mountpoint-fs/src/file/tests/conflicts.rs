//! Other clients change the object meanwhile.

use mountpoint_client::testing::sim::SimOptions;

use super::{Bench, MIB, read, wait, write};
use crate::config::ConflictPolicy;
use crate::operation::FsError;

/// An action of another client.
#[derive(Clone, Copy, Debug)]
enum Theirs {
    Creates,
    Replaces,
    Removes,
}

/// Stores a file that another client changes meanwhile. All its bytes are local if `is_whole`.
fn conflict(
    policy: ConflictPolicy,
    theirs: Theirs,
    is_whole: bool,
) -> (Bench, Result<(), FsError>) {
    let bench = Bench::with(policy, SimOptions::default());
    let file = match theirs {
        Theirs::Creates => bench.new_file(),
        Theirs::Replaces | Theirs::Removes => {
            let object = bench.client.put_object("key", vec![1; 100]);
            bench.over(&object)
        }
    };
    write(&file, 0, b"mine").unwrap();
    if is_whole {
        wait(file.set_len(4)).unwrap();
    }
    match theirs {
        Theirs::Creates | Theirs::Replaces => {
            bench.client.put_object("key", "theirs");
        }
        Theirs::Removes => {
            bench.client.remove("key");
        }
    }
    let stored = wait(file.release());
    if stored.is_err() {
        let again = wait(file.store());
        assert!(
            matches!(again, Err(FsError::Stale(_))),
            "it is final: {again:?}"
        );
        assert!(write(&file, 0, b"more").is_err());
    }
    (bench, stored)
}

#[test]
fn a_conflict_fails_and_the_local_version_is_kept() {
    for theirs in [Theirs::Creates, Theirs::Replaces, Theirs::Removes] {
        for is_whole in [true, false] {
            let (bench, stored) = conflict(ConflictPolicy::Fail, theirs, is_whole);
            let text = match (&stored, theirs) {
                (Err(FsError::Exists), Theirs::Creates) => None,
                (Err(FsError::Stale(text)), Theirs::Replaces | Theirs::Removes) => Some(text),
                _ => panic!("{theirs:?}: {stored:?}"),
            };
            let kept = bench.names("kept");
            assert_eq!(kept.len(), 2, "{kept:?}");
            let id = kept[0].strip_suffix(".1").unwrap();
            assert_eq!(kept[1], format!("{id}.json"));
            let names_it = |text: &String| text.contains(id) && text.contains("staged list");
            assert!(text.is_none_or(names_it), "{text:?}");
            assert_eq!(bench.told(), ["failed"]);
            let object = bench.content("key");
            match theirs {
                Theirs::Removes => assert_eq!(object, None),
                Theirs::Creates | Theirs::Replaces => assert_eq!(object.unwrap(), b"theirs"),
            }
        }
    }
}

#[test]
fn both_versions_are_kept_if_that_is_wanted() {
    for theirs in [Theirs::Creates, Theirs::Replaces, Theirs::Removes] {
        let (bench, stored) = conflict(ConflictPolicy::KeepBoth, theirs, true);
        stored.unwrap();
        let keys = bench.client.keys();
        let beside = keys
            .iter()
            .find(|key| key.starts_with("key.conflict-host-"));
        assert_eq!(bench.content(beside.unwrap()).unwrap(), b"mine");
        let object = bench.content("key");
        match theirs {
            Theirs::Removes => assert_eq!(object, None),
            Theirs::Creates | Theirs::Replaces => assert_eq!(object.unwrap(), b"theirs"),
        }
        assert_eq!(bench.told(), ["adopted"]);
        assert_eq!(bench.names("kept"), [""; 0]);
    }
}

#[test]
fn the_local_version_wins_if_that_is_wanted() {
    for theirs in [Theirs::Creates, Theirs::Replaces, Theirs::Removes] {
        let (bench, stored) = conflict(ConflictPolicy::Overwrite, theirs, true);
        stored.unwrap();
        assert_eq!(bench.client.keys(), ["key"]);
        assert_eq!(bench.content("key").unwrap(), b"mine");
        assert_eq!(bench.told(), ["stored 4"]);
    }
}

/// Bytes of a base that is gone cannot be stored under any name.
#[test]
fn without_the_bytes_of_the_base_the_local_changes_are_kept() {
    for policy in [ConflictPolicy::KeepBoth, ConflictPolicy::Overwrite] {
        for theirs in [Theirs::Replaces, Theirs::Removes] {
            let (bench, stored) = conflict(policy, theirs, false);
            assert!(matches!(stored, Err(FsError::Stale(_))), "{stored:?}");
            assert_eq!(bench.names("kept").len(), 2, "{policy:?} {theirs:?}");
            assert!(bench.client.keys().iter().all(|key| key == "key"));
        }
    }
}

/// A read never mixes two versions of the object.
#[test]
fn a_base_that_was_replaced_is_stale() {
    let bench = Bench::new();
    let object = bench.client.put_pattern("key", 8 << 20, 7);
    let file = bench.over(&object);
    write(&file, 0, b"mine").unwrap();
    bench.client.put_pattern("key", 8 << 20, 8);
    let found = read(&file, 0, MIB);
    assert!(matches!(found, Err(FsError::Stale(_))), "{found:?}");
    assert_eq!(read(&file, 0, 4).unwrap(), b"mine", "local bytes are there");
}

#[test]
fn a_failed_release_keeps_the_file() {
    use mountpoint_client::ErrorKind;
    use mountpoint_client::testing::sim::Operation;
    let bench = Bench::new();
    let file = bench.new_file();
    write(&file, 0, b"mine").unwrap();
    bench
        .client
        .fail_next(Operation::PutObject, 1, ErrorKind::Unreachable);
    assert!(wait(file.release()).is_err());
    assert_eq!(bench.names("kept").len(), 2);
    assert_eq!(bench.told(), ["failed"]);
    drop(file);
    assert_eq!(bench.names("kept").len(), 2, "it outlives the file");
    assert_eq!(bench.names("files"), [""; 0]);
}
