//! Files of directory buckets, whose parts are appended to their object.

use futures::FutureExt as _;
use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{
    Content, Fault, FaultRule, Operation, SimObject, Time, When,
};
use mountpoint_client::types::{ChecksumAlgorithm, Key, StoredChecksum};

use super::{MIB, Mount, client, now, pattern, small_parts, wait, write};
use crate::config::WriteConfig;
use crate::file::StagedFile;
use crate::operation::FsError;

const PART: u64 = 5 << 20;

fn mount(time: Time) -> Mount {
    let config = WriteConfig {
        allow_append: true,
        incremental_upload: true,
        ..small_parts()
    };
    let mount = Mount::doubting(client(time, true), 256 << 20, config);
    mount.writing.believe();
    mount
}

/// A file over an object of these bytes, as an open for appending finds it.
fn behind(mount: &Mount, object: &[u8]) -> StagedFile {
    mount.client.put_object("key", object.to_vec());
    let file = mount.over("key");
    file.set_checksum(StoredChecksum::None);
    file
}

/// Offsets and lengths of what was put, `None` where it made the object.
fn puts(mount: &Mount) -> Vec<(Option<u64>, u64)> {
    let log = mount.client.take_log();
    let puts = log.records().iter().map(|record| {
        assert_eq!(record.operation, Operation::PutObject);
        (record.range.as_ref().map(|range| range.start), record.bytes)
    });
    puts.collect()
}

fn fail_next_put(mount: &Mount, fault: Fault) {
    mount.client.add_fault(FaultRule {
        operation: Some(Operation::PutObject),
        when: When::Next(1),
        fault,
    });
}

#[test]
fn each_full_part_is_appended_and_the_rest_at_the_end() {
    for (len, expected) in [
        (0, vec![(None, 0)]),
        (5, vec![(None, 5)]),
        (5 * MIB, vec![(None, PART)]),
        (5 * MIB + 1, vec![(None, PART), (Some(PART), 1)]),
        (
            12 * MIB,
            vec![(None, PART), (Some(PART), PART), (Some(2 * PART), 2 << 20)],
        ),
    ] {
        let mount = mount(Time::Immediate);
        let file = mount.new_file("key");
        write(&file, 0, &pattern(len)).unwrap();
        wait(file.store()).unwrap();
        assert_eq!(puts(&mount), expected, "{len}");
        let object = mount.client.object("key").unwrap();
        assert!(object.content.to_vec() == pattern(len), "{len}");
        assert_eq!(file.base().unwrap().etag, object.etag);
        let kept = StoredChecksum::Of(ChecksumAlgorithm::Crc32c);
        assert_eq!(
            object.checksum, kept,
            "{len}: its parts went with checksums"
        );
        drop(file);
        assert_eq!(mount.budget.used(), 0);
    }
}

/// Other programs see a long file grow, and it takes little memory.
#[test]
fn a_long_file_is_appended_to_while_it_is_written() {
    let mount = mount(Time::Immediate);
    let file = mount.new_file("key");
    let content = pattern(100 * MIB);
    for (index, part) in content.chunks(10 * MIB).enumerate() {
        write(&file, index * 10 * MIB, part).unwrap();
        wait(mount.writing.drained());
        let size = mount.client.object("key").unwrap().content.size();
        assert!(size >= file.size() - 2 * PART, "{size}");
        let held = mount.budget.used_by_writers();
        assert!(held <= 32 << 20, "{held}");
    }
    wait(file.store()).unwrap();
    assert!(mount.content("key").unwrap() == content);
    let each: Vec<_> = (0..20)
        .map(|part| ((part > 0).then_some(part * PART), PART))
        .collect();
    assert_eq!(puts(&mount), each);
    assert_eq!(mount.uploads(), 0);
}

#[test]
fn what_was_stored_is_never_sent_again() {
    let mount = mount(Time::Immediate);
    let file = mount.new_file("key");
    let content = pattern(7 * MIB);
    let mut at = 0;
    for len in [3, 5, MIB, 100, 5 * MIB + 2] {
        write(&file, at, &content[at..at + len]).unwrap();
        wait(file.store()).unwrap();
        assert!(mount.content("key").as_deref() == Some(&content[..at + len]));
        let puts = puts(&mount);
        let (first, _) = puts[0];
        assert_eq!(first, (at > 0).then_some(at as u64));
        let bytes: u64 = puts.iter().map(|(_, len)| len).sum();
        assert_eq!(bytes, len as u64, "{puts:?}");
        at += len;
    }
    // Nothing new: nothing is sent.
    wait(file.store()).unwrap();
    assert_eq!(puts(&mount), []);
}

#[test]
fn one_part_is_on_its_way_at_a_time() {
    let mount = mount(Time::Manual);
    let file = behind(&mount, b"old");
    let content = pattern(16 * MIB);
    write(&file, 3, &content).unwrap();
    let mut storing = file.store().boxed();
    assert!((&mut storing).now_or_never().is_none());
    let mut sent = 0;
    let stored = loop {
        assert_eq!(
            mount.pending(),
            [Operation::PutObject],
            "one after the other"
        );
        mount.answer();
        sent += 1;
        if let Some(stored) = (&mut storing).now_or_never() {
            break stored;
        }
    };
    stored.unwrap();
    assert!(sent > 2, "{sent}");
    let expected = [&b"old"[..], &content].concat();
    assert!(mount.content("key") == Some(expected));
}

#[test]
fn two_hosts_never_mix() {
    let mount = mount(Time::Immediate);
    let first = behind(&mount, b"old ");
    let second = mount.over("key");
    second.set_checksum(StoredChecksum::None);
    write(&first, 4, b"first").unwrap();
    write(&second, 4, b"other").unwrap();
    wait(first.store()).unwrap();
    let refused = wait(second.store()).unwrap_err();
    assert!(
        matches!(&refused, FsError::Stale(text) if text.contains("key")),
        "{refused}"
    );
    assert_eq!(mount.content("key").unwrap(), b"old first");
    // The second one has failed for good, the first one goes on.
    assert!(write(&second, 9, b"!").is_err());
    write(&first, 9, b", more").unwrap();
    wait(first.store()).unwrap();
    assert_eq!(mount.content("key").unwrap(), b"old first, more");
}

/// Appended bytes carry no token: equal bytes at their place may be another host's.
#[test]
fn a_part_whose_answer_was_lost_is_nobodys() {
    for there in [
        None,
        Some("old mine"),
        Some("new mine"),
        Some("old mine, theirs"),
    ] {
        for fault in [
            Fault::Repeat,
            Fault::FailAfterwards(ErrorKind::TooManyParts),
        ] {
            let mount = mount(Time::Immediate);
            let file = behind(&mount, b"old ");
            write(&file, 4, b"mine").unwrap();
            if let Some(there) = there {
                mount.client.put_object("key", there);
            }
            let case = format!("{there:?} {fault:?}");
            fail_next_put(&mount, fault);
            wait(file.store()).expect_err(&case);
            let content = mount.content("key").unwrap();
            assert_eq!(content, there.unwrap_or("old mine").as_bytes(), "{case}");
            // A later close does not append them once more.
            wait(file.store()).expect_err(&case);
            let content = mount.content("key").unwrap();
            assert_eq!(content, there.unwrap_or("old mine").as_bytes(), "{case}");
            assert!(file.failure().is_some(), "{case}");
            assert!(write(&file, 8, b"more").is_err(), "{case}");
            drop(file);
            assert_eq!(mount.budget.used(), 0, "{case}");
        }
    }
}

/// The close tells it although the file is written on.
#[test]
fn a_lost_answer_while_the_file_is_written_is_told_and_loses_nothing_that_was_stored() {
    let mount = mount(Time::Immediate);
    let file = behind(&mount, b"old");
    let content = pattern(20 * MIB);
    fail_next_put(&mount, Fault::Repeat);
    let mut at = 0;
    for piece in content.chunks(MIB) {
        match file.write_now(3 + at as u64, piece) {
            Some(Ok(())) => at += piece.len(),
            Some(Err(_)) | None => break,
        }
    }
    wait(file.store()).expect_err("nobody knows whose the bytes are");
    let (stored, all) = (
        mount.content("key").unwrap(),
        [b"old", &content[..]].concat(),
    );
    assert!(
        stored.len() > 5 * MIB && stored.len() <= 11 * MIB,
        "one part"
    );
    assert!(all.starts_with(&stored));
    drop(file);
    assert_eq!(mount.budget.used(), 0);
}

/// A refusal that changes nothing: nothing is sent behind the part, and the close sends it again.
#[test]
fn a_part_that_was_refused_is_sent_by_the_close() {
    let mount = mount(Time::Manual);
    let file = behind(&mount, b"old");
    let content = pattern(10 * MIB);
    write(&file, 3, &content).unwrap();
    while let Some(request) = mount.client.pending_requests().first() {
        mount.client.fail(request.id, ErrorKind::Denied);
        assert!(
            mount.count_of(Operation::PutObject) < 100,
            "it is tried for ever"
        );
    }
    assert_eq!(mount.content("key").unwrap(), b"old");
    let mut storing = file.store().boxed();
    assert!((&mut storing).now_or_never().is_none());
    let request = mount.client.pending_requests()[0].id;
    mount.client.fail(request, ErrorKind::Denied);
    assert_eq!(mount.pending(), []);
    assert!(matches!(now(storing), Err(FsError::Denied(_))));
    let mut storing = file.store().boxed();
    assert!((&mut storing).now_or_never().is_none());
    mount.client.deliver_all();
    now(storing).unwrap();
    let expected = [&b"old"[..], &content].concat();
    assert!(mount.content("key") == Some(expected));
}

#[test]
fn an_object_that_was_appended_to_too_often_is_renewed() {
    use Operation::{CopyObject, HeadObject, PutObject};
    let mount = mount(Time::Immediate);
    let file = behind(&mount, b"old ");
    let kind = || ErrorKind::TooManyParts;
    mount.client.fail_next(PutObject, 1, kind());
    write(&file, 4, b"new").unwrap();
    wait(file.store()).unwrap();
    let log = mount.client.take_log();
    let asked: Vec<_> = log.records().iter().map(|it| it.operation).collect();
    assert_eq!(asked, [PutObject, HeadObject, CopyObject, PutObject]);
    assert_eq!(mount.content("key").unwrap(), b"old new");
    // If that does not help, the application is told.
    mount.client.fail_next(PutObject, 2, kind());
    write(&file, 7, b"more").unwrap();
    assert!(matches!(wait(file.store()), Err(FsError::TooLarge(_))));
    assert_eq!(mount.content("key").unwrap(), b"old new");
}

/// Bytes of the object itself change: it is replaced as a whole.
#[test]
fn a_change_in_front_makes_it_an_ordinary_store() {
    for (before, more) in [(7, 5), (12 * MIB, 5), (7, 12 * MIB)] {
        let mount = mount(Time::Immediate);
        let file = mount.new_file("key");
        let mut content = pattern(before + more);
        write(&file, 0, &content[..before]).unwrap();
        wait(file.store()).unwrap();
        content[2] = b'x';
        write(&file, 2, b"x").unwrap();
        write(&file, before, &content[before..]).unwrap();
        wait(file.store()).unwrap();
        assert!(mount.content("key").unwrap() == content, "{before} {more}");
        // Behind that, an object grows again, unless it was made of parts.
        drop(mount.client.take_log());
        let end = content.len();
        content.extend_from_slice(b"end");
        write(&file, end, b"end").unwrap();
        wait(file.store()).unwrap();
        assert!(mount.content("key").unwrap() == content, "{before} {more}");
        if end < 5 * MIB {
            assert_eq!(puts(&mount), [(Some(end as u64), 3)]);
        }
        assert_eq!(mount.uploads(), 0);
    }
}

/// S3 takes appended bytes with checksums of the object's algorithm alone.
#[test]
fn appended_bytes_go_with_the_checksum_of_the_object() {
    for (checksum, grows) in [
        (StoredChecksum::None, true),
        (StoredChecksum::Of(ChecksumAlgorithm::Crc32c), true),
        (StoredChecksum::Of(ChecksumAlgorithm::Crc64Nvme), true),
        (StoredChecksum::Other, false),
    ] {
        let mount = mount(Time::Immediate);
        let (key, old) = (Key::parse("key").unwrap(), b"old ");
        mount.client.insert(SimObject {
            checksum,
            ..SimObject::new(key, Content::bytes(&old[..]))
        });
        let file = mount.over("key");
        file.set_checksum(checksum);
        let more = pattern(6 * MIB);
        write(&file, 4, &more).unwrap();
        wait(file.store()).unwrap();
        let object = mount.client.object("key").unwrap();
        assert!(object.content.to_vec() == [&old[..], &more].concat());
        if grows {
            assert_eq!(object.checksum, checksum);
            let puts = puts(&mount);
            assert!(puts.iter().all(|(offset, _)| offset.is_some()), "{puts:?}");
            let bytes: u64 = puts.iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(bytes, more.len() as u64, "{checksum:?}");
        }
    }
}
