//! PutObject.

use bytes::Bytes;
use crc_fast::CrcAlgorithm;

use super::super::bucket::{ensure, refused, same};
use super::super::{Bucket, Capability, Case, Failure};
use crate::ErrorKind;
use crate::testing::sim::pattern_bytes;
use crate::types::{Checksum, ETag, ObjectHeaders, PutCondition};

pub(super) const CASES: &[Case] = &[
    Case::new("put_empty", |bucket| sizes(bucket, &[0])),
    Case::new("put_one_byte", |bucket| sizes(bucket, &[1])),
    Case::new("put_odd_sizes", |bucket| {
        sizes(bucket, &[4095, 4096, 65_537, 1_000_003])
    }),
    Case::new("put_5_mib_and_one", |bucket| {
        sizes(bucket, &[(5 << 20) + 1])
    }),
    Case::new("put_all_byte_values", put_all_byte_values),
    Case::new("put_overwrites", put_overwrites),
    Case::new("put_in_parallel", put_in_parallel),
    Case::new("put_absent", put_absent).needs(&[Capability::ConditionalPut]),
    Case::new("put_absent_race", put_absent_race).needs(&[Capability::ConditionalPut]),
    Case::new("put_match", put_match).needs(&[Capability::ConditionalPut]),
    Case::new("put_match_on_nothing", put_match_on_nothing).needs(&[Capability::ConditionalPut]),
    Case::new("put_right_crc32c", |bucket| right_checksum(bucket, crc32c))
        .needs(&[Capability::Crc32c]),
    Case::new("put_wrong_crc32c", |bucket| wrong_checksum(bucket, crc32c))
        .needs(&[Capability::Crc32c]),
    Case::new("put_right_crc64nvme", |bucket| {
        right_checksum(bucket, crc64nvme)
    })
    .needs(&[Capability::Crc64Nvme]),
    Case::new("put_wrong_crc64nvme", |bucket| {
        wrong_checksum(bucket, crc64nvme)
    })
    .needs(&[Capability::Crc64Nvme]),
    Case::new("put_checksum_of_nothing", put_checksum_of_nothing)
        .needs(&[Capability::Crc32c, Capability::Crc64Nvme]),
    Case::new("put_headers", put_headers),
];

pub(super) fn crc32c(bytes: &[u8]) -> Checksum {
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes);
    Checksum::Crc32c(u32::try_from(sum).unwrap_or_default())
}

pub(super) fn crc64nvme(bytes: &[u8]) -> Checksum {
    Checksum::Crc64Nvme(crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes))
}

fn sizes(bucket: &Bucket, sizes: &[u64]) -> Result<(), Failure> {
    for size in sizes {
        let bytes = pattern_bytes(*size, 0..*size);
        let etag = bucket.put("object", bytes.clone())?;
        bucket.holds("object", &bytes)?;
        ensure(
            bucket.head("object")??.etag.matches(&etag),
            "HEAD tells another ETag than PUT",
        )?;
    }
    Ok(())
}

fn put_all_byte_values(bucket: &Bucket) -> Result<(), Failure> {
    let bytes: Vec<u8> = (0..=u8::MAX).chain((0..=u8::MAX).rev()).collect();
    bucket.put("object", bytes.clone())?;
    bucket.holds("object", &bytes)
}

fn put_overwrites(bucket: &Bucket) -> Result<(), Failure> {
    let first = bucket.put("object", "a longer text")?;
    let second = bucket.put("object", "text")?;
    ensure(!first.matches(&second), "other bytes with the same ETag")?;
    bucket.holds("object", b"text")
}

fn put_in_parallel(bucket: &Bucket) -> Result<(), Failure> {
    let names: Vec<String> = (0..32).map(|n| format!("object-{n}")).collect();
    bucket.put_many(&names)?;
    names
        .iter()
        .try_for_each(|name| bucket.holds(name, name.as_bytes()))
}

fn put_absent(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_if("object", "first", PutCondition::Absent)??;
    let again = bucket.put_if("object", "second", PutCondition::Absent)?;
    refused(again, &[ErrorKind::PreconditionFailed])?;
    bucket.holds("object", b"first")?;
    bucket.delete("object", None)??;
    bucket.put_if("object", "third", PutCondition::Absent)??;
    bucket.holds("object", b"third")
}

fn put_absent_race(bucket: &Bucket) -> Result<(), Failure> {
    let mut racers = Vec::new();
    for n in 0..8 {
        let mut request = bucket.put_request("object", format!("racer {n}"))?;
        request.condition = PutCondition::Absent;
        racers.push(bucket.client.put(request));
    }
    let mut winners = 0;
    for racer in racers {
        match bucket.wait(racer) {
            Ok(_) => winners += 1,
            // S3 answers 409 to some of the losers; how a client reports that is not our question.
            Err(_) => continue,
        }
    }
    same("winners", winners, 1)
}

fn put_match(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "first")?;
    let etag = bucket.head("object")??.etag;
    let put = bucket.put_if("object", "second", PutCondition::Match(etag.clone()))??;
    bucket.holds("object", b"second")?;
    let stale = bucket.put_if("object", "third", PutCondition::Match(etag))?;
    refused(stale, &[ErrorKind::PreconditionFailed])?;
    bucket.holds("object", b"second")?;
    bucket.put_if("object", "fourth", PutCondition::Match(put.etag))??;
    bucket.holds("object", b"fourth")
}

fn put_match_on_nothing(bucket: &Bucket) -> Result<(), Failure> {
    let etag = ETag::from_header("\"00000000000000000000000000000000\"");
    let put = bucket.put_if("object", "bytes", PutCondition::Match(etag))?;
    refused(put, &[ErrorKind::NotFound, ErrorKind::PreconditionFailed])?;
    bucket.is_gone("object")
}

fn right_checksum(bucket: &Bucket, sum: fn(&[u8]) -> Checksum) -> Result<(), Failure> {
    let bytes = Bytes::from(pattern_bytes(3, 0..100_000));
    let mut request = bucket.put_request("object", bytes.clone())?;
    request.checksum = Some(sum(&bytes));
    bucket.wait(bucket.client.put(request))?;
    bucket.holds("object", &bytes)
}

fn wrong_checksum(bucket: &Bucket, sum: fn(&[u8]) -> Checksum) -> Result<(), Failure> {
    let mut request = bucket.put_request("object", "bytes")?;
    request.checksum = Some(sum(b"other bytes"));
    refused(
        bucket.wait(bucket.client.put(request)),
        &[ErrorKind::InvalidRequest],
    )?;
    bucket.is_gone("object")
}

fn put_checksum_of_nothing(bucket: &Bucket) -> Result<(), Failure> {
    for sum in [crc32c(b""), crc64nvme(b"")] {
        let mut request = bucket.put_request("object", "")?;
        request.checksum = Some(sum);
        bucket.wait(bucket.client.put(request))?;
        bucket.holds("object", b"")?;
    }
    Ok(())
}

fn put_headers(bucket: &Bucket) -> Result<(), Failure> {
    let mut request = bucket.put_request("object", "bytes")?;
    request.headers = ObjectHeaders {
        content_type: Some("text/plain".to_owned()),
        storage_class: Some("STANDARD".to_owned()),
        metadata: vec![
            ("owner".to_owned(), "nobody".to_owned()),
            ("note".to_owned(), "a b, c; d=e".to_owned()),
        ],
        cache_control: Some("no-store".to_owned()),
        content_language: Some("en".to_owned()),
        ..ObjectHeaders::default()
    };
    let mut sent = request.headers.clone();
    let key = request.key.clone();
    bucket.wait(bucket.client.put(request))?;
    bucket.holds("object", b"bytes")?;
    let mut told = bucket.wait(bucket.client.head_details(&key))?;
    told.headers.metadata.sort_unstable();
    same("size", told.info.size, 5)?;
    // S3 does not tell the standard class.
    sent.storage_class = told.headers.storage_class.clone();
    sent.metadata.sort_unstable();
    same("headers", told.headers, sent)
}
