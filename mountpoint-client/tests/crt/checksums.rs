//! Bytes that are flipped on their way.

use bytes::Bytes;
use futures::executor::block_on;
use mountpoint_client::testing::server::{
    Fault, Operation, Rule, Server as Embedded, ServerOptions,
};
use mountpoint_client::types::{FirstBytes, ObjectHeaders, PutCondition, PutRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use crate::support::{Fixture, key};

const BUCKET: &str = "bucket";
const LEN: usize = 100_000;

fn pattern() -> Bytes {
    (0..LEN)
        .map(|at| u8::try_from(at * 7 % 251).expect("it is below 251"))
        .collect()
}

/// A server with the object `k`, of which it keeps a checksum, and a client.
fn server_and_client() -> (Embedded, Fixture) {
    server_and_client_that(true)
}

fn server_and_client_that(checks_reads: bool) -> (Embedded, Fixture) {
    let server = Embedded::start(ServerOptions::default()).expect("the server starts");
    server.store().create_bucket(BUCKET);
    let mut options = Fixture::options(server.address());
    options.bucket = BUCKET.to_owned();
    options.checks_reads = checks_reads;
    let fixture = Fixture::with(options);
    let request = PutRequest {
        key: key("k"),
        body: pattern(),
        condition: PutCondition::None,
        checksum: None,
        headers: ObjectHeaders::default(),
    };
    block_on(fixture.client.put(request)).expect("it is stored");
    (server, fixture)
}

fn corrupt_gets(server: &Embedded, times: u64) {
    let flipped = Fault::CorruptByte(LEN as u64 / 2);
    let rule = Rule::on(Operation::GetObject, flipped).times(times);
    server.faults().add(rule);
}

#[track_caller]
fn check_refusal(server: &Embedded, error: &ClientError) {
    assert_eq!(error.kind, ErrorKind::InvalidResponse, "{error}");
    for words in [
        "s3://bucket/k",
        "x-amz-checksum-crc64nvme is \"",
        "theirs \"",
    ] {
        assert!(error.message.contains(words), "{words}: {error}");
    }
    assert_eq!(server.log().count(Operation::GetObject), 2, "once more");
}

#[test]
fn flipped_bytes_of_a_whole_object_are_asked_for_once_more() {
    let (server, fixture) = server_and_client();
    corrupt_gets(&server, 1);
    let (block, outcome) = fixture.get(0..LEN as u64, None);
    outcome.unwrap();
    assert!(block.bytes(0..LEN) == pattern());
    assert_eq!(server.log().count(Operation::GetObject), 2);

    corrupt_gets(&server, 1);
    let FirstBytes { bytes, .. } =
        block_on(fixture.client.first_bytes(&key("k"), 1 << 20)).unwrap();
    assert!(bytes == pattern());
    assert_eq!(server.log().count(Operation::GetObject), 4);
}

#[test]
fn flipped_bytes_of_a_whole_object_are_shown_to_nobody() {
    let (server, fixture) = server_and_client();
    corrupt_gets(&server, u64::MAX);
    let (block, outcome) = fixture.get(0..LEN as u64, None);
    check_refusal(&server, &outcome.unwrap_err());
    assert_eq!(block.valid(), 0);

    server.log().clear();
    let error = block_on(fixture.client.first_bytes(&key("k"), 1 << 20)).unwrap_err();
    check_refusal(&server, &error);
}

#[test]
fn a_client_that_checks_no_reads_takes_what_comes() {
    let (server, fixture) = server_and_client_that(false);
    server
        .faults()
        .add(Rule::always(Fault::UnknownHeader(CHECKSUM_MODE)));
    fixture.get(0..LEN as u64, None).1.unwrap();
    block_on(fixture.client.first_bytes(&key("k"), 1 << 20)).unwrap();
    assert_eq!(server.log().count(Operation::GetObject), 2, "neither asked");
}

/// As MinIO does, which tells its name.
#[test]
fn a_whole_object_is_asked_for_without_a_range_where_ranges_bring_no_checksum() {
    let (server, fixture) = server_and_client();
    let info = block_on(fixture.client.head(&key("k"))).unwrap();
    let version = Some(info.etag.as_str());
    let silent = Rule::on(Operation::GetObject, Fault::NoChecksumOfRanges);
    server.faults().add(silent);
    let get = || fixture.get_of_size(0..LEN as u64, version, LEN as u64);
    corrupt_gets(&server, 1);
    server.log().clear();
    let (block, outcome) = get();
    outcome.unwrap();
    assert!(block.bytes(0..LEN) == pattern());
    let asked = server.log().take();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked.iter().all(|get| get.range.is_none()), "{asked:?}");
    corrupt_gets(&server, u64::MAX);
    let (block, outcome) = get();
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::InvalidResponse);
    assert_eq!(block.valid(), 0);
    // It is known by now that bytes of a range can be compared so.
    block_on(fixture.client.first_bytes(&key("k"), 1 << 20)).unwrap_err();
}

#[test]
fn a_range_is_asked_for_where_that_brings_the_checksum_too() {
    let (server, fixture) = server_and_client();
    let info = block_on(fixture.client.head(&key("k"))).unwrap();
    let version = Some(info.etag.as_str());
    block_on(fixture.client.first_bytes(&key("k"), 1 << 20)).unwrap();
    server.log().clear();
    let get = fixture.get_of_size(0..LEN as u64, version, LEN as u64);
    get.1.unwrap();
    assert_eq!(server.log().take()[0].range, Some(0..LEN as u64));
}

/// The kernel asks for pieces of a range that it could not have as a whole.
#[test]
fn no_piece_of_a_version_that_came_wrong_is_shown_until_it_comes_right() {
    let (server, fixture) = server_and_client();
    let info = block_on(fixture.client.head(&key("k"))).unwrap();
    let version = Some(info.etag.as_str());
    corrupt_gets(&server, 2);
    fixture.get(0..LEN as u64, version).1.unwrap_err();
    let (block, outcome) = fixture.get(10..1_000, version);
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::InvalidResponse);
    assert_eq!(block.valid(), 0);
    fixture.get(0..LEN as u64, version).1.unwrap();
    fixture.get(10..1_000, version).1.unwrap();
}

#[test]
fn an_answer_that_is_cut_goes_on_and_is_compared_as_a_whole() {
    let (server, fixture) = server_and_client();
    let cut = Rule::on(Operation::GetObject, Fault::CutBody(10_000)).times(1);
    server.faults().add(cut);
    let (block, outcome) = fixture.get(0..LEN as u64, None);
    outcome.unwrap();
    assert!(block.bytes(0..LEN) == pattern());

    server.faults().clear();
    let cut = Rule::on(Operation::GetObject, Fault::CutBody(10_000)).times(1);
    server.faults().add(cut);
    let flipped = Rule {
        skip: 1,
        ..Rule::on(Operation::GetObject, Fault::CorruptByte(5)).times(1)
    };
    server.faults().add(flipped);
    server.log().clear();
    let (block, outcome) = fixture.get(0..LEN as u64, None);
    outcome.unwrap();
    assert!(block.bytes(0..LEN) == pattern());
    assert_eq!(
        server.log().count(Operation::GetObject),
        3,
        "the rest, and all of it once more"
    );
}

#[test]
fn a_part_is_shown_as_it_comes() {
    let (server, fixture) = server_and_client();
    let (block, outcome) = fixture.get(10..1_000, None);
    outcome.unwrap();
    assert_eq!(block.bytes(0..990), &pattern()[10..1_000]);
    assert_eq!(server.log().count(Operation::GetObject), 1);
}

/// Some servers refuse every request with a header that they do not know.
#[test]
fn a_server_that_refuses_the_header_is_asked_without() {
    let (server, fixture) = server_and_client();
    let unknown = Rule::always(Fault::UnknownHeader(CHECKSUM_MODE));
    server.faults().add(unknown.clone());
    for sent in [2, 3] {
        let (block, outcome) = fixture.get(0..LEN as u64, None);
        outcome.unwrap();
        assert!(block.bytes(0..LEN) == pattern());
        assert_eq!(server.log().count(Operation::GetObject), sent);
    }
    let (server, fixture) = server_and_client();
    server.faults().add(unknown);
    for sent in [2, 3] {
        let FirstBytes { bytes, .. } =
            block_on(fixture.client.first_bytes(&key("k"), 1 << 20)).unwrap();
        assert!(bytes == pattern());
        assert_eq!(server.log().count(Operation::GetObject), sent);
    }
}

#[test]
fn other_refusals_leave_the_header() {
    let (server, fixture) = server_and_client();
    let (status, code) = (501, "NotImplemented");
    let refusal = Rule::on(Operation::GetObject, Fault::Error { status, code });
    server.faults().add(refusal.clone().times(4));
    let (_, outcome) = fixture.get(0..LEN as u64, None);
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::Unsupported);
    let outcome = block_on(fixture.client.first_bytes(&key("k"), 1 << 20));
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::Unsupported);
    assert_eq!(server.log().count(Operation::GetObject), 4, "two each");
    corrupt_gets(&server, u64::MAX);
    fixture.get(0..LEN as u64, None).1.unwrap_err();
    block_on(fixture.client.first_bytes(&key("k"), 1 << 20)).unwrap_err();
}

const CHECKSUM_MODE: &str = "x-amz-checksum-mode";
