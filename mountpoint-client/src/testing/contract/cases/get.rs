//! GetObject into a block.

use std::ops::Range;

use super::super::bucket::{ensure, refused, same, same_bytes};
use super::super::{Bucket, Case, Failure};
use crate::ErrorKind;
use crate::testing::sim::pattern_bytes;
use crate::types::ETag;

pub(super) const CASES: &[Case] = &[
    Case::new("get_whole", |bucket| one_range(bucket, 100_000, 0..100_000)),
    Case::new("get_first_byte", |bucket| one_range(bucket, 100_000, 0..1)),
    Case::new("get_last_byte", |bucket| {
        one_range(bucket, 100_000, 99_999..100_000)
    }),
    Case::new("get_middle", |bucket| {
        ranges(bucket, 100_000, &[1..2, 4_095..8_193, 50_000..70_001])
    }),
    Case::new("get_object_of_one_byte", |bucket| {
        one_range(bucket, 1, 0..1)
    }),
    Case::new("get_8_mib", |bucket| {
        ranges(bucket, 9 << 20, &[0..8 << 20, 1 << 20..9 << 20])
    }),
    Case::new("get_tells_etag_and_size", get_tells_etag_and_size),
    Case::new("get_with_right_etag", get_with_right_etag),
    Case::new("get_with_wrong_etag", get_with_wrong_etag),
    Case::new("get_of_replaced_object", get_of_replaced_object),
    Case::new("get_of_missing_key", get_of_missing_key),
    Case::new("get_of_missing_key_with_etag", get_of_missing_key_with_etag),
    Case::new("get_beyond_the_end", get_beyond_the_end),
    Case::new("get_across_the_end", get_across_the_end),
    Case::new("get_of_empty_object", get_of_empty_object),
    Case::new("first_bytes_of_objects", first_bytes_of_objects),
    Case::new("first_bytes_of_missing_key", first_bytes_of_missing_key),
    Case::new("get_32_in_parallel", get_32_in_parallel),
    Case::new("get_same_range_twice_at_once", get_same_range_twice_at_once),
    Case::new("get_handle_dropped", get_handle_dropped),
    Case::new("get_cancelled", get_cancelled),
    Case::new("get_cancelled_after_the_end", get_cancelled_after_the_end),
    Case::new("get_after_cancels", get_after_cancels),
];

fn one_range(bucket: &Bucket, size: u64, range: Range<u64>) -> Result<(), Failure> {
    ranges(bucket, size, &[range])
}

/// Each range of an object of `size` bytes, byte for byte.
fn ranges(bucket: &Bucket, size: u64, ranges: &[Range<u64>]) -> Result<(), Failure> {
    bucket.put("object", pattern_bytes(1, 0..size))?;
    for range in ranges {
        let (bytes, output) = bucket.get_all("object", range.clone())?;
        same_bytes(&bytes, &pattern_bytes(1, range.clone()))?;
        same("size of the object", output.object_size, size)?;
    }
    Ok(())
}

fn get_tells_etag_and_size(bucket: &Bucket) -> Result<(), Failure> {
    let etag = bucket.put("object", "0123456789")?;
    let (_, output) = bucket.get_all("object", 3..5)?;
    same("size", output.object_size, 10)?;
    ensure(
        output.etag.matches(&etag),
        "GET tells another ETag than PUT",
    )
}

fn first_bytes_of_objects(bucket: &Bucket) -> Result<(), Failure> {
    for (size, len_max) in [
        (0, 1),
        (1, 1),
        (10, 4),
        (10, 10),
        (10, 100_000),
        (70_000, 65_536),
    ] {
        let bytes = pattern_bytes(1, 0..size);
        bucket.put("object", bytes.clone())?;
        let first_bytes =
            bucket.wait(bucket.client.first_bytes(&bucket.key("object")?, len_max))?;
        same("info", &first_bytes.info, &bucket.head("object")??)?;
        let len = bytes
            .len()
            .min(usize::try_from(len_max).unwrap_or(usize::MAX));
        same_bytes(&first_bytes.bytes, &bytes[..len])?;
    }
    Ok(())
}

fn first_bytes_of_missing_key(bucket: &Bucket) -> Result<(), Failure> {
    let first_bytes = bucket.wait(bucket.client.first_bytes(&bucket.key("object")?, 10));
    refused(first_bytes, &[ErrorKind::NotFound])
}

fn get_with_right_etag(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "0123456789")?;
    let etag = bucket.head("object")??.etag;
    let (bytes, output) = bucket.start_get("object", 2..7, Some(&etag))?.bytes()?;
    same_bytes(&bytes, b"23456")?;
    ensure(
        output.etag.matches(&etag),
        "GET tells another ETag than HEAD",
    )
}

/// Refused, and not a byte of the wrong version was published.
fn is_refused_unpublished(
    bucket: &Bucket,
    range: Range<u64>,
    if_match: Option<&ETag>,
    kinds: &[ErrorKind],
) -> Result<(), Failure> {
    let get = bucket.start_get("object", range, if_match)?;
    refused(get.watch.outcome(), kinds)?;
    same("bytes published", get.watch.block().valid(), 0)?;
    same("observer", get.watch.wrong(), None)
}

fn get_with_wrong_etag(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "0123456789")?;
    let other = ETag::from_header("\"00000000000000000000000000000000\"");
    is_refused_unpublished(
        bucket,
        0..10,
        Some(&other),
        &[ErrorKind::PreconditionFailed],
    )
}

fn get_of_replaced_object(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", vec![b'a'; 1 << 20])?;
    let etag = bucket.head("object")??.etag;
    bucket.put("object", vec![b'b'; 1 << 20])?;
    let kinds = [ErrorKind::PreconditionFailed];
    is_refused_unpublished(bucket, 0..1 << 20, Some(&etag), &kinds)?;
    is_refused_unpublished(bucket, 5..6, Some(&etag), &kinds)
}

fn get_of_missing_key(bucket: &Bucket) -> Result<(), Failure> {
    is_refused_unpublished(bucket, 0..10, None, &[ErrorKind::NotFound])
}

fn get_of_missing_key_with_etag(bucket: &Bucket) -> Result<(), Failure> {
    let etag = bucket.put("object", "bytes")?;
    bucket.delete("object", None)??;
    is_refused_unpublished(bucket, 0..5, Some(&etag), &[ErrorKind::NotFound])
}

fn get_beyond_the_end(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "0123456789")?;
    for range in [10..11, 10..20, 1 << 40..(1 << 40) + 1] {
        is_refused_unpublished(bucket, range, None, &[ErrorKind::InvalidRequest])?;
    }
    Ok(())
}

fn get_across_the_end(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "0123456789")?;
    let get = bucket.start_get("object", 5..15, None)?;
    refused(
        get.watch.outcome(),
        &[ErrorKind::InvalidRequest, ErrorKind::InvalidResponse],
    )?;
    let valid = get.watch.block().valid();
    ensure(valid <= 5, format!("{valid} bytes of 5"))?;
    same_bytes(get.watch.block().bytes(0..valid), &b"56789"[..valid])?;
    same("observer", get.watch.wrong(), None)
}

fn get_of_empty_object(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "")?;
    let kinds = [ErrorKind::InvalidRequest, ErrorKind::InvalidResponse];
    is_refused_unpublished(bucket, 0..1, None, &kinds)
}

fn get_32_in_parallel(bucket: &Bucket) -> Result<(), Failure> {
    const LEN: u64 = 100_000;
    bucket.put("object", pattern_bytes(1, 0..32 * LEN))?;
    let mut gets = Vec::new();
    for at in 0..32 {
        gets.push(bucket.start_get("object", at * LEN..(at + 1) * LEN, None)?);
    }
    for (get, at) in gets.iter().zip(0..) {
        same_bytes(&get.bytes()?.0, &pattern_bytes(1, at * LEN..(at + 1) * LEN))?;
    }
    Ok(())
}

fn get_same_range_twice_at_once(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "0123456789")?;
    let first = bucket.start_get("object", 2..8, None)?;
    let second = bucket.start_get("object", 2..8, None)?;
    same_bytes(&second.bytes()?.0, b"234567")?;
    same_bytes(&first.bytes()?.0, b"234567")
}

fn get_handle_dropped(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", pattern_bytes(1, 0..1 << 20))?;
    let mut get = bucket.start_get("object", 0..1 << 20, None)?;
    get.handle = bucket.start_get("object", 0..1, None)?.handle;
    same_bytes(&get.bytes()?.0, &pattern_bytes(1, 0..1 << 20))
}

fn get_cancelled(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", pattern_bytes(1, 0..8 << 20))?;
    let get = bucket.start_get("object", 0..8 << 20, None)?;
    get.handle.cancel();
    if get.watch.outcome().is_ok() {
        // It was faster than we were: then all of it is there.
        let block = get.watch.block();
        same_bytes(block.bytes(0..block.valid()), &pattern_bytes(1, 0..8 << 20))?;
    } else {
        refused(get.watch.outcome(), &[ErrorKind::Cancelled])?;
        let valid = get.watch.block().valid();
        same_bytes(
            get.watch.block().bytes(0..valid),
            &pattern_bytes(1, 0..valid as u64),
        )?;
    }
    // A later request goes all the way, so a second call of the first observer would be seen now.
    bucket.get_all("object", 0..1 << 20)?;
    same("observer", get.watch.wrong(), None)
}

fn get_cancelled_after_the_end(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "0123456789")?;
    let get = bucket.start_get("object", 0..10, None)?;
    let (bytes, _) = get.bytes()?;
    same_bytes(&bytes, b"0123456789")?;
    get.handle.cancel();
    bucket.get_all("object", 0..1)?;
    same("observer", get.watch.wrong(), None)
}

fn get_after_cancels(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", pattern_bytes(1, 0..1 << 20))?;
    for _ in 0..20 {
        bucket
            .start_get("object", 0..1 << 20, None)?
            .handle
            .cancel();
    }
    same_bytes(
        &bucket.get_all("object", 0..1 << 20)?.0,
        &pattern_bytes(1, 0..1 << 20),
    )
}
