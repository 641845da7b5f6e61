//! Contents, archived objects, directory buckets: behaviour that the contract suite cannot ask of
//! every server.

use super::*;
use crate::testing::sim::store::content::Content;
use crate::testing::sim::{SimObject, pattern_bytes};
use crate::types::{CopyHeaders, CopySource, ListRequest, ObjectHeaders, PutCondition};

#[test]
fn patterns_are_the_same_from_any_offset() {
    let whole = pattern_bytes(3, 0..100);
    for start in 0..40 {
        for end in start..100 {
            let piece = pattern_bytes(3, start..end);
            assert_eq!(
                piece,
                whole[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()]
            );
        }
    }
    assert_ne!(pattern_bytes(4, 0..100), whole);
    assert_ne!(pattern_bytes(3, 8..108), whole);
}

#[test]
fn contents_are_sliced_and_joined() {
    let bytes = Content::bytes(b"0123456789".to_vec());
    let pattern = Content::pattern(200_000, 9);
    let both = Content::concat([&bytes.slice(2..5), &pattern.slice(7..150_000), &bytes]);
    let expected = [
        b"234".to_vec(),
        pattern_bytes(9, 7..150_000),
        b"0123456789".to_vec(),
    ]
    .concat();
    assert_eq!(both.size(), expected.len() as u64);
    assert_eq!(both.to_vec(), expected);
    assert_eq!(both.slice(1..149_999).to_vec(), expected[1..149_999]);
    assert_eq!(Content::bytes("a").etag(), Content::bytes("a").etag());
    assert_ne!(Content::bytes("a").etag(), Content::bytes("b").etag());
    assert_ne!(
        Content::pattern(10, 1).etag(),
        Content::pattern(10, 2).etag()
    );
}

#[test]
fn a_terabyte_costs_nothing() {
    let sim = sim(Time::Immediate);
    let size = 1 << 40;
    sim.put_pattern("k", size, 5);
    let get = get(&sim, "k", size - 100..size, None);
    assert_eq!(get.block.bytes(0..100), pattern_bytes(5, size - 100..size));
}

#[test]
fn archived_objects_are_seen_but_not_read() {
    for (class, restored, outcome) in [
        ("GLACIER", false, Err(ErrorKind::Archived)),
        ("DEEP_ARCHIVE", false, Err(ErrorKind::Archived)),
        ("DEEP_ARCHIVE", true, Ok(5)),
        ("GLACIER_IR", false, Ok(5)),
    ] {
        let sim = sim(Time::Immediate);
        let object = SimObject::new(key("k"), Content::bytes("bytes")).with_storage_class(class);
        sim.insert(SimObject { restored, ..object });
        assert_eq!(
            now(sim.head(&key("k"))).unwrap().storage_class.as_deref(),
            Some(class)
        );
        assert_eq!(now(sim.head(&key("k"))).unwrap().restored, restored);
        assert_eq!(
            get(&sim, "k", 0..5, None).seen.outcome(),
            Some(outcome.clone()),
            "{class}"
        );
        let source = CopySource {
            key: key("k"),
            if_match: None,
        };
        let copied = now(sim.copy(
            source,
            &key("l"),
            PutCondition::None,
            CopyHeaders::Same(ObjectHeaders::default()),
        ));
        assert_eq!(copied.is_ok(), outcome.is_ok(), "{class}");
    }
}

#[test]
fn a_block_of_the_wrong_size_is_refused() {
    let sim = sim(Time::Immediate);
    sim.put_object("k", "0123456789");
    let seen = Arc::new(Seen::default());
    let request = GetRequest {
        key: key("k"),
        range: 0..5,
        if_match: None,
        object_size: None,
        priority: Priority::Foreground,
    };
    let into = BlockPool::new(0).allocate(6);
    let _handle = sim.get(request, into, Arc::clone(&seen) as Arc<dyn GetObserver>);
    assert_eq!(seen.outcome(), Some(Err(ErrorKind::InvalidRequest)));
}

#[test]
fn directory_buckets_list_all_in_no_order() {
    let sim = SimClient::new(SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    });
    let mut expected: Vec<_> = (0..25).map(|n| format!("d/{n:02}")).collect();
    for name in &expected {
        sim.put_object(name, "x");
    }
    sim.put_object("d/e/f", "x");
    sim.put_object("d/e/g", "x");
    expected.push("d/e/".to_owned());
    let mut listed = Vec::new();
    let mut token = None;
    loop {
        let page = now(sim.list(ListRequest {
            prefix: "d/".to_owned(),
            delimiter: Some("/".to_owned()),
            continuation_token: token,
            max_keys: Some(4),
            ..ListRequest::default()
        }))
        .unwrap();
        assert!(page.objects.len() + page.common_prefixes.len() <= 4);
        listed.extend(
            page.objects
                .iter()
                .map(|object| object.key.as_str().to_owned()),
        );
        listed.extend(page.common_prefixes);
        token = page.continuation_token;
        if token.is_none() {
            break;
        }
    }
    assert_ne!(listed, expected);
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    let half = ListRequest {
        prefix: "d/0".to_owned(),
        ..ListRequest::default()
    };
    assert_eq!(
        now(sim.list(half)).unwrap_err().kind,
        ErrorKind::InvalidRequest
    );
}

#[test]
fn directory_buckets_rename() {
    let sim = SimClient::new(SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    });
    let object = sim.put_object("a", "bytes");
    sim.put_object("b", "other");
    let refused = now(sim.rename(&key("a"), &key("b"), PutCondition::Absent)).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::PreconditionFailed);
    now(sim.rename(&key("a"), &key("b"), PutCondition::None)).unwrap();
    assert_eq!(sim.keys(), ["b"]);
    assert_eq!(sim.object("b").unwrap().etag, object.etag);
    let gone = now(sim.rename(&key("a"), &key("b"), PutCondition::None)).unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound);
    now(sim.create_session()).unwrap();
}

#[test]
fn a_large_directory_is_one_entry() {
    let sim = sim(Time::Immediate);
    for n in 0..2000 {
        sim.put_object(&format!("big/{n}"), "");
    }
    sim.put_object("after", "");
    sim.put_object("next/x", "");
    let request = ListRequest {
        delimiter: Some("/".to_owned()),
        ..ListRequest::default()
    };
    let page = now(sim.list(request)).unwrap();
    assert_eq!(page.common_prefixes, ["big/", "next/"]);
    assert_eq!(page.objects.len(), 1);
    assert_eq!(page.continuation_token, None);
}
