//! New files that another host has made first.

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Content, Operation, SimObject, Time};
use mountpoint_client::types::{Key, ObjectHeaders};

use super::{Mount, now, small_parts, write};
use crate::file::StagedBase;
use crate::operation::FsError;
use crate::write::Adopts;

/// A change of a new file before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Nothing,
    Touched,
    Described,
    Written,
    Lengthened,
}

fn mount() -> Mount {
    Mount::new(Time::Immediate, 256 << 20, small_parts())
}

/// Stores a new file where another host's object has the bytes `theirs` by then.
#[track_caller]
fn check(adopts: Adopts, done: Done, theirs: &'static str, is_adopted: bool) {
    for base in [StagedBase::None, StagedBase::Unasked] {
        let case = format!("{adopts:?} {done:?} {theirs:?} {base:?}");
        let mount = mount();
        let file = mount.open("key", base);
        file.may_adopt(adopts);
        let metadata = |metadata: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            metadata.iter().map(owned).collect()
        };
        let described = match done {
            Done::Touched => metadata(&[("mtime", "7.5"), ("ctime", "7.5")]),
            Done::Described => metadata(&[("mtime", "7"), ("ctime", "7.5")]),
            Done::Nothing | Done::Written | Done::Lengthened => Vec::new(),
        };
        let change = |headers: &mut ObjectHeaders| {
            headers.metadata = described;
            Ok(())
        };
        assert!(now(file.change_headers(change)).unwrap());
        match done {
            Done::Written => write(&file, 0, b"mine").unwrap(),
            Done::Lengthened => now(file.set_len(9)).unwrap(),
            Done::Nothing | Done::Touched | Done::Described => {}
        }
        mount.client.put_object("key", theirs);
        let stored = now(file.store());
        if is_adopted {
            assert!(stored.is_ok(), "{case}: {stored:?}");
            assert_eq!(mount.told(), ["adopted"], "{case}");
            assert!(now(file.store()).is_ok(), "{case}");
            // It would change an object that this open has not seen.
            let late = file.write_now(0, b"late").expect("it does not wait");
            assert!(matches!(late, Err(FsError::Stale(_))), "{case}: {late:?}");
        } else {
            assert!(matches!(stored, Err(FsError::Exists)), "{case}: {stored:?}");
            assert_eq!(mount.told(), ["failed"], "{case}");
            assert!(now(file.store()).is_err(), "{case}");
        }
        assert_eq!(mount.content("key").unwrap(), theirs.as_bytes(), "{case}");
        drop(file);
        assert_eq!((mount.budget.used(), mount.uploads()), (0, 0), "{case}");
    }
}

#[test]
fn what_another_host_has_made_stands_for_a_file_that_nothing_was_written_to() {
    use Done::{Described, Lengthened, Nothing, Touched, Written};
    check(Adopts::Any, Nothing, "theirs", true);
    check(Adopts::Any, Nothing, "", true);
    check(Adopts::Any, Touched, "theirs", true);
    check(Adopts::Any, Described, "theirs", false);
    check(Adopts::Any, Written, "theirs", false);
    check(Adopts::Any, Written, "", false);
    check(Adopts::Any, Lengthened, "theirs", false);
    check(Adopts::Empty, Nothing, "", true);
    check(Adopts::Empty, Nothing, "theirs", false);
    check(Adopts::Nothing, Nothing, "", false);
    check(Adopts::Nothing, Nothing, "theirs", false);
}

/// An object that this mount may not read may be a symbolic link as well.
#[test]
fn what_is_no_file_or_cannot_be_looked_at_stands_for_none() {
    let link = ObjectHeaders {
        metadata: vec![("mode".to_owned(), "41471".to_owned())],
        ..ObjectHeaders::default()
    };
    for (headers, denied) in [(link, 0), (ObjectHeaders::default(), 1)] {
        let mount = mount();
        let file = mount.new_file("key");
        file.may_adopt(Adopts::Any);
        let key = Key::parse("key").unwrap();
        mount.client.insert(SimObject {
            headers,
            ..SimObject::new(key, Content::bytes("theirs"))
        });
        let kind = ErrorKind::Denied;
        mount.client.fail_next(Operation::HeadObject, denied, kind);
        assert!(matches!(now(file.store()), Err(FsError::Exists)));
        assert_eq!(mount.content("key").unwrap(), b"theirs");
    }
}
