//! Copies that the server makes, and attributes that come late: what is sent, when it is answered,
//! and what becomes of faults.

use futures::FutureExt as _;
use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, SimObject, When};
use mountpoint_client::types::{Key, ObjectHeaders};

use crate::config::limits::COPIES_IN_FLIGHT_MAX;
use crate::operation::FsError;
use crate::write::tests::{Bench, MIB, now, pattern, write};
use crate::write::{Beginning, CopiedRange, Stored, Writer};

const GIB: u64 = 1 << 30;

/// All of an object of `size` bytes.
fn source(bench: &Bench, size: u64) -> CopiedRange {
    let object = bench.client.put_pattern("source", size, 1);
    CopiedRange {
        key: Key::parse("source").unwrap(),
        etag: object.etag,
        object_size: size,
        range: 0..size,
    }
}

#[test]
fn a_copy_is_answered_when_the_server_has_made_it() {
    let bench = Bench::manual(256 << 20);
    let size = GIB + 5;
    let source = source(&bench, size);
    let writer = bench.writer(Beginning::New);
    let mut copying = Box::pin(writer.copy(0, source));
    assert!((&mut copying).now_or_never().is_none());
    assert_eq!(bench.pending(), [Operation::CreateMultipartUpload]);
    let created = bench.client.pending_requests()[0].id;
    bench.client.finish(created);
    let copies = bench.client.pending_requests();
    assert_eq!(bench.pending(), [Operation::UploadPartCopy; 3]);
    // They are nothing that other writers wait for.
    assert_eq!(bench.context.send.parts.count(), 0);
    for copy in copies.into_iter().rev() {
        assert!((&mut copying).now_or_never().is_none());
        assert_eq!(writer.progress().size(), 0);
        bench.client.finish(copy.id);
    }
    assert_eq!((&mut copying).now_or_never().unwrap().unwrap(), size);
    assert_eq!(writer.progress().size(), size);
    drop(copying);
    bench.client.remove("source");
    let mut stored = Box::pin(writer.store());
    assert!((&mut stored).now_or_never().is_none());
    bench.client.deliver_all();
    assert_eq!(now(stored).unwrap().size, size);
}

#[test]
fn a_server_that_does_not_copy_has_the_bytes_written() {
    let content = pattern(6 * MIB);
    for kind in [ErrorKind::Unsupported, ErrorKind::InvalidRequest] {
        let bench = Bench::immediate();
        let source = source(&bench, 6 << 20);
        let writer = bench.writer(Beginning::New);
        bench
            .client
            .fail_next(Operation::UploadPartCopy, 1, kind.clone());
        let copied = now(writer.copy(0, source.clone()));
        assert!(matches!(copied, Err(FsError::Unsupported(_))), "{copied:?}");
        assert_eq!(bench.uploads(), 0);
        write(&writer, 0, &content).unwrap();
        now(writer.store()).unwrap();
        assert!(bench.content().unwrap() == content);
        // Not where something of the file depends on it.
        let writer = bench.writer(bench.replacing());
        now(writer.copy(0, source.clone())).unwrap();
        bench.client.fail_next(Operation::UploadPartCopy, 1, kind);
        now(writer.copy(6 << 20, source)).unwrap_err();
        now(writer.store()).unwrap_err();
        assert!(bench.content().unwrap() == content);
        assert_eq!(bench.uploads(), 0);
    }
}

#[test]
fn a_copy_that_fails_fails_the_file() {
    for kind in [ErrorKind::Denied, ErrorKind::Transient, ErrorKind::NotFound] {
        for part in 1..=3 {
            let bench = Bench::immediate();
            let source = source(&bench, GIB + 5);
            let writer = bench.writer(Beginning::New);
            bench.client.add_fault(FaultRule {
                operation: Some(Operation::UploadPartCopy),
                when: When::Nth(part),
                fault: Fault::Fail(kind.clone()),
            });
            let error = now(writer.copy(0, source)).unwrap_err().to_string();
            assert_eq!(now(writer.store()).unwrap_err().to_string(), error);
            assert_eq!(bench.told(), ["failed"]);
            assert!(bench.content().is_none());
            assert_eq!(bench.uploads(), 0);
        }
    }
}

#[test]
fn behind_a_copy_that_failed_no_more_are_made() {
    let bench = Bench::manual(256 << 20);
    let size = 40 * (GIB / 2);
    let object = bench.client.put_pattern("key", size, 1);
    let etag = object.etag;
    let writer = bench.writer(Beginning::Append(Stored { etag, size }));
    writer.write_now(size, b"new").unwrap().unwrap();
    let mut stored = Box::pin(writer.store());
    assert!((&mut stored).now_or_never().is_none());
    let created = bench.client.pending_requests()[0].id;
    bench.client.finish(created);
    let is_copy = |operation: &Operation| *operation == Operation::UploadPartCopy;
    assert_eq!(
        bench.pending().iter().filter(|it| is_copy(it)).count(),
        COPIES_IN_FLIGHT_MAX
    );
    let pending = bench.client.pending_requests();
    let first = pending.iter().find(|it| is_copy(&it.operation)).unwrap().id;
    bench.client.fail(first, ErrorKind::Denied);
    bench.client.deliver_all();
    assert!(matches!(now(stored), Err(FsError::Denied(_))));
    let log = bench.client.take_log();
    assert_eq!(log.count(Operation::UploadPartCopy), COPIES_IN_FLIGHT_MAX);
    assert_eq!(bench.client.object("key").unwrap().content.size(), size);
}

/// Something to carry.
fn blue() -> ObjectHeaders {
    ObjectHeaders {
        metadata: vec![("colour".to_owned(), "blue".to_owned())],
        ..ObjectHeaders::default()
    }
}

/// A file that was sent and then told something that its object is to carry.
fn dressed_late(bench: &Bench) -> std::sync::Arc<Writer> {
    let writer = bench.writer(Beginning::New);
    write(&writer, 0, &pattern(11 * MIB)).unwrap();
    let changed = now(writer.change_metadata(|headers| {
        headers.metadata = blue().metadata;
        Ok(())
    }));
    assert!(changed.unwrap());
    writer
}

#[test]
fn late_attributes_that_fail_leave_the_bytes() {
    let bench = Bench::immediate();
    let writer = dressed_late(&bench);
    bench
        .client
        .fail_next(Operation::CopyObject, 1, ErrorKind::Denied);
    let stored = now(writer.store());
    assert!(matches!(stored, Err(FsError::Denied(_))), "{stored:?}");
    assert_eq!(bench.told(), ["stored 11534336", "failed"]);
    assert!(bench.content().unwrap() == pattern(11 * MIB));
}

#[test]
fn late_attributes_whose_answer_was_lost_are_there() {
    let bench = Bench::immediate();
    let writer = dressed_late(&bench);
    bench.client.add_fault(FaultRule {
        operation: Some(Operation::CopyObject),
        when: When::Next(1),
        fault: Fault::Repeat,
    });
    let stored = now(writer.store()).unwrap();
    let object = bench.client.object("key").unwrap();
    assert_eq!(stored.etag, object.etag);
    assert_eq!(object.headers.metadata[0].1, "blue");
    // The object of another client is not taken for the copy.
    let bench = Bench::immediate();
    let writer = dressed_late(&bench);
    bench.client.add_fault(FaultRule {
        operation: Some(Operation::CopyObject),
        when: When::Next(1),
        fault: Fault::Fail(ErrorKind::PreconditionFailed),
    });
    now(writer.store()).unwrap_err();
}

/// An object of the same bytes that carries the same is another one's all the same.
#[test]
fn a_copy_onto_itself_whose_answer_was_lost_is_known_by_its_token() {
    for is_replaced in [true, false] {
        let bench = Bench::immediate();
        let writer = bench.writer(Beginning::New);
        write(&writer, 0, &pattern(11 * MIB)).unwrap();
        let Stored { etag, size } = now(writer.store()).unwrap();
        if is_replaced {
            bench.client.put_object("key", pattern(11 * MIB));
            let theirs = bench.client.object("key").unwrap();
            bench.client.insert(SimObject {
                headers: blue(),
                ..theirs
            });
        }
        bench.client.add_fault(FaultRule {
            operation: Some(Operation::CopyObject),
            when: When::Next(1),
            fault: Fault::Repeat,
        });
        let key = Key::parse("key").unwrap();
        let mutator = &bench.context.send.mutator;
        let copied = now(mutator.replace_headers(&key, (&etag, size), blue()));
        let case = format!("{is_replaced}: {copied:?}");
        if is_replaced {
            assert!(matches!(copied, Err(FsError::Stale(_))), "{case}");
        } else {
            let there = bench.client.object("key").unwrap().etag;
            assert_eq!(copied.unwrap(), there, "{case}");
        }
    }
}

#[test]
fn a_server_that_takes_no_conditions_of_copies_may_take_them_of_uploads() {
    let bench = Bench::immediate();
    let writer = dressed_late(&bench);
    bench
        .client
        .fail_next(Operation::CopyObject, 1, ErrorKind::Unsupported);
    now(writer.store()).unwrap();
    let other = bench.writer_of("other", Beginning::New);
    write(&other, 0, b"ours").unwrap();
    bench.client.put_object("other", "theirs");
    assert!(matches!(now(other.store()), Err(FsError::Exists)));
}

/// Another host's version is never replaced by the bytes of the one before.
#[test]
fn on_a_server_that_ignores_conditions_of_copies_no_old_bytes_come_back() {
    use Operation::{CompleteMultipartUpload, CopyObject, PutObject};
    for (content, other) in [("mine", CompleteMultipartUpload), ("", PutObject)] {
        let bench = Bench::immediate();
        let mutator = &bench.context.send.mutator;
        mutator.believe(false);
        bench.client.add_fault(FaultRule {
            operation: Some(CopyObject),
            when: When::Every(1),
            fault: Fault::IgnoreVersions,
        });
        let key = Key::parse("key").unwrap();
        bench.client.put_object("key", content);
        let size = content.len() as u64;
        // Copies, and the requests in their place: the first of each has to fail.
        for (copies, others) in [(1, 0), (0, 2), (0, 1)] {
            let etag = bench.client.object("key").unwrap().etag;
            drop(bench.client.take_log());
            let changed = now(mutator.replace_headers(&key, (&etag, size), blue()));
            let there = bench.client.object("key").unwrap();
            assert_eq!(changed.unwrap(), there.etag, "{content:?}");
            assert_eq!(there.headers.metadata, blue().metadata, "{content:?}");
            let log = bench.client.take_log();
            let counts = (log.count(CopyObject), log.count(other));
            assert_eq!(counts, (copies, others), "{content:?}");
        }
        let etag = bench.client.object("key").unwrap().etag;
        bench.client.put_object("key", "theirs");
        let refused = now(mutator.replace_headers(&key, (&etag, size), blue()));
        assert!(matches!(refused, Err(FsError::Stale(_))), "{refused:?}");
        assert_eq!(bench.content().unwrap(), b"theirs", "{content:?}");
    }
}

/// A server that keeps those of copies says nothing about those of other requests by that.
#[test]
fn on_a_server_that_ignores_a_condition_the_bytes_of_another_host_stay() {
    use Operation::{CompleteMultipartUpload, PutObject};
    for (request, size) in [(CompleteMultipartUpload, 2), (PutObject, 0)] {
        let bench = Bench::immediate();
        let mutator = &bench.context.send.mutator;
        mutator.believe(false);
        bench.client.add_fault(FaultRule {
            operation: Some(request),
            when: When::Every(1),
            fault: Fault::IgnoreVersions,
        });
        bench.client.put_object("key", "mine");
        let key = Key::parse("key").unwrap();
        // The first change and a later one, which is not tried.
        for _ in 0..2 {
            let seen = now(mutator.describe(&key)).unwrap();
            bench.client.put_object("key", "theirs");
            let refused = now(mutator.shorten(&seen, size));
            assert!(matches!(refused, Err(FsError::Stale(_))), "{refused:?}");
            assert_eq!(bench.content().unwrap(), b"theirs", "{request:?}");
            let seen = now(mutator.describe(&key)).unwrap();
            let cut = now(mutator.shorten(&seen, size)).unwrap();
            let there = bench.client.object("key").unwrap();
            assert_eq!((there.etag, there.content.size()), (cut, size));
            bench.client.put_object("key", "mine");
        }
    }
}
