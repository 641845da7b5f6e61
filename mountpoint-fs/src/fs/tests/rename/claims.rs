//! Hosts that rename directories to one name at the same time: one of them has it.

use std::future::Future;
use std::pin::pin;

use futures::FutureExt as _;
use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::SimObject;
use mountpoint_client::types::Key;

use super::*;
use crate::operation::RenameMode::Replace;

const ROOT: InodeNo = InodeNo::ROOT;

/// What the bucket has, beside the directories `one` and `two` of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// An empty directory of the name.
    EmptyDirectory,
}

/// Two hosts with one bucket, and their directories with `keys`, of equal bytes.
fn hosts(keys: [&[&str]; 2], before: Before) -> [Mount; 2] {
    hosts_on(manual(&[], all_changes()), keys, before)
}

/// Hosts on a server that takes no bytes and no content type in the place of a marker.
fn hosts_with_bare_markers(keys: [&[&str]; 2]) -> [Mount; 2] {
    let options = SimOptions {
        time: Time::Manual,
        has_bare_markers: true,
        ..SimOptions::default()
    };
    let one = Mount::with_write(options, "", &[], all_changes());
    hosts_on(one, keys, Before::Nothing)
}

fn hosts_on(one: Mount, keys: [&[&str]; 2], before: Before) -> [Mount; 2] {
    for key in keys.concat() {
        match key.ends_with('/') {
            true => one.bucket.put_object(key, ""),
            false => one.bucket.put_object(key, "1\n"),
        };
    }
    if before == Before::EmptyDirectory {
        one.bucket.put_object("lock/", "");
    }
    let two = one.beside(all_changes());
    for (mount, name) in [(&one, "one"), (&two, "two")] {
        walk(mount, name);
        drive(mount, mount.fs.lookup(ROOT, OsStr::new("lock"))).ok();
    }
    [one, two]
}

fn rename_to_lock(mount: &Mount, name: &str) -> impl Future<Output = Result<(), FsError>> {
    let (fs, name) = (Arc::clone(&mount.fs), name.to_owned());
    async move {
        let (from, to) = ((ROOT, OsStr::new(&name)), (ROOT, OsStr::new("lock")));
        fs.rename(from, to, Replace, &Stop::never()).await
    }
}

/// Exactly one of the two has succeeded, with all and with nothing else; the other one's directory
/// is as it was.
#[track_caller]
fn check(mount: &Mount, keys: [&[&str]; 2], outcomes: &[Result<(), FsError>; 2], case: &str) {
    let winner = match outcomes {
        [Ok(()), Err(FsError::NotEmpty)] => 0,
        [Err(FsError::NotEmpty), Ok(())] => 1,
        both => panic!("{case}: {both:?}"),
    };
    let moved = keys[winner].iter().map(|key| {
        let (_, rest) = key.split_once('/').unwrap();
        format!("lock/{rest}")
    });
    let stays = keys[1 - winner].iter().map(|key| (*key).to_owned());
    let mut expected: Vec<String> = moved.chain(stays).collect();
    expected.sort_unstable();
    let there = mount.bucket.keys();
    // A directory that was there keeps its marker.
    let there: Vec<String> = match expected.contains(&"lock/".to_owned()) {
        true => there,
        false => there.into_iter().filter(|key| key != "lock/").collect(),
    };
    assert_eq!(there, expected, "{case}");
    if let Some(marker) = mount.bucket.object("lock/") {
        assert!(marker.content.to_vec().is_empty(), "{case}");
    }
}

const PLAIN: [&[&str]; 2] = [&["one/a", "one/b"], &["two/a", "two/c"]];
const MARKED: [&[&str]; 2] = [&["one/", "one/a"], &["two/", "two/a", "two/s/b"]];
const MIXED: [&[&str]; 2] = [&["one/", "one/a"], &["two/b"]];

/// Two of the `hosts` rename `keys` to one name. The second one does so at once when the first has
/// had some answers: none at first, and then one more each time until it has all.
#[track_caller]
fn check_wherever_they_meet(keys: [&[&str]; 2], case: &str, hosts: impl Fn() -> [Mount; 2]) {
    for met_at in 0.. {
        let [one, two] = hosts();
        let mut first = pin!(rename_to_lock(&one, "one"));
        let mut done = None;
        for _ in 0..met_at {
            done = done.or_else(|| first.as_mut().now_or_never());
            one.bucket.deliver_all();
        }
        let is_over = done.is_some();
        let second = drive(&two, rename_to_lock(&two, "two"));
        let first = done.unwrap_or_else(|| drive(&one, first));
        let case = format!("{keys:?}, {case}, at {met_at}");
        check(&one, keys, &[first, second], &case);
        if is_over {
            assert!(met_at > 5, "{case}: they have met nowhere");
            break;
        }
    }
}

#[test]
fn of_two_hosts_that_rename_to_one_name_one_wins_wherever_they_meet() {
    for keys in [PLAIN, MARKED, MIXED] {
        for before in [Before::Nothing, Before::EmptyDirectory] {
            check_wherever_they_meet(keys, &format!("{before:?}"), || hosts(keys, before));
        }
    }
}

#[test]
fn a_server_without_bytes_in_markers_gives_the_name_to_one_of_two_hosts() {
    for keys in [PLAIN, MARKED, MIXED] {
        check_wherever_they_meet(keys, "bare markers", || hosts_with_bare_markers(keys));
    }
}

#[test]
fn a_claim_without_bytes_keeps_other_hosts_away() {
    let [one, two] = hosts_with_bare_markers(PLAIN);
    let mut first = Box::pin(rename_to_lock(&one, "one"));
    while !one.bucket.keys().contains(&"lock/".to_owned()) {
        assert!((&mut first).now_or_never().is_none());
        one.bucket.deliver_all();
    }
    let second = drive(&two, rename_to_lock(&two, "two"));
    assert!(matches!(second, Err(FsError::NotEmpty)), "{second:?}");
    let first = drive(&one, first);
    check(&one, PLAIN, &[first, second], "the first has claimed it");
}

#[test]
fn of_two_hosts_that_rename_to_one_name_in_step_one_wins() {
    for keys in [PLAIN, MARKED, MIXED] {
        for before in [Before::Nothing, Before::EmptyDirectory] {
            for ahead in 0..12 {
                let [one, two] = hosts(keys, before);
                let mut both = [
                    Box::pin(rename_to_lock(&one, "one")),
                    Box::pin(rename_to_lock(&two, "two")),
                ];
                let mut done = [None, None];
                for step in 0..1000 {
                    for (host, outcome) in both
                        .iter_mut()
                        .zip(&mut done)
                        .skip(usize::from(step < ahead))
                    {
                        if outcome.is_none() {
                            *outcome = host.now_or_never();
                        }
                    }
                    one.bucket.deliver_all();
                }
                let outcomes = done.map(|outcome| outcome.expect("it ends"));
                check(
                    &one,
                    keys,
                    &outcomes,
                    &format!("{keys:?}, {before:?}, {ahead}"),
                );
            }
        }
    }
}

/// A host that is gone has claimed the name: nobody takes it, until somebody removes it, or a day
/// has passed.
#[test]
fn the_claim_of_a_host_that_is_gone_can_be_removed() {
    for is_removed in [true, false] {
        let [one, two] = hosts(PLAIN, Before::Nothing);
        {
            let mut first = pin!(rename_to_lock(&one, "one"));
            while !one.bucket.keys().contains(&"lock/".to_owned()) {
                assert!(first.as_mut().now_or_never().is_none());
                one.bucket.deliver_all();
            }
        }
        let again = || {
            drive(&two, two.fs.lookup(ROOT, OsStr::new("lock"))).ok();
            drive(&two, rename_to_lock(&two, "two"))
        };
        let refused = again();
        assert!(matches!(refused, Err(FsError::NotEmpty)), "{refused:?}");
        if is_removed {
            drive(&two, two.fs.remove_directory(ROOT, OsStr::new("lock"))).unwrap();
        } else {
            // The simulated bucket has a clock of its own.
            two.clock
                .advance(std::time::Duration::from_secs(100 * 365 * 24 * 60 * 60));
        }
        again().unwrap();
        let there = two.bucket.keys();
        let there: Vec<&str> = there
            .iter()
            .map(String::as_str)
            .filter(|key| *key != "lock/")
            .collect();
        assert_eq!(there, ["lock/a", "lock/c", "one/a", "one/b"]);
    }
}

/// Somebody removes the claim, and another host takes the name: the first one takes back what it
/// has copied, and nothing else.
#[test]
fn a_rename_that_has_lost_its_claim_takes_its_copies_back() {
    let keys = PLAIN;
    let [one, two] = hosts(keys, Before::Nothing);
    let mut first = Box::pin(rename_to_lock(&one, "one"));
    go_on_to(&one, &mut first, Operation::CopyObject);
    one.bucket.remove("lock/");
    let theirs = SimObject::new(
        Key::parse("lock/").unwrap(),
        mountpoint_client::testing::sim::Content::bytes("another claim"),
    );
    one.bucket.insert(theirs);
    one.bucket.put_object("lock/theirs", "1\n");
    let outcome = drive(&one, first);
    assert!(matches!(outcome, Err(FsError::NotEmpty)), "{outcome:?}");
    let there = two.bucket.keys();
    assert_eq!(
        there,
        ["lock/", "lock/theirs", "one/a", "one/b", "two/a", "two/c"]
    );
}

/// A server that takes no bytes in the place of a marker.
#[test]
fn a_rename_goes_on_where_the_server_takes_no_claim() {
    let [one, _] = hosts(PLAIN, Before::Nothing);
    one.bucket
        .fail_next(Operation::PutObject, 2, ErrorKind::InvalidRequest);
    drive(&one, rename_to_lock(&one, "one")).unwrap();
    assert_eq!(one.bucket.keys(), ["lock/a", "lock/b", "two/a", "two/c"]);
}
