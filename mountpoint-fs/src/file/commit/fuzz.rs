//! Records of the journal, of a disk that others can write.

use mountpoint_client::types::ObjectHeaders;
use serde::de::IgnoredAny;

use super::HeadersRecord;
use super::format::{FORMAT, Payload, VersionRecord};
use super::sum_run::SumRun;
use crate::file::contents::Snapshot;

/// A record: as it is, then with the format, the length of its description, and as many bytes as
/// the description says.
pub(crate) fn record(data: &[u8]) {
    decode(data);
    let Some((head, rest)) = data.split_first_chunk::<12>() else {
        return;
    };
    let mut json = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
    let len = json.next().map_or(0, |_| json.byte_offset());
    let mut right = [&head[..], &rest[..len]].concat();
    right[..4].copy_from_slice(&FORMAT.to_le_bytes());
    right[8..12].copy_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
    decode(&right);
    for bytes in [1, 3, 100, 4096] {
        right.resize(12 + len + bytes, 7);
        decode(&right);
    }
}

fn decode(bytes: &[u8]) {
    let Ok(payload) = Payload::decode(bytes) else {
        return;
    };
    let mut again = payload.head().unwrap();
    if let Payload::Version(version, local) = &payload {
        again.extend(local);
        check_version(version, local);
    }
    assert_eq!(Payload::decode(&again).unwrap(), payload);
}

fn check_version(version: &VersionRecord, local: &[u8]) {
    let bytes = version.local_bytes();
    assert!(bytes <= version.size);
    assert!(!version.is_inline || bytes == local.len() as u64);
    let contents = version.contents();
    check_pieces(contents.now());
    assert!(contents.is_changed());
    let noted = version.noted_sums();
    let most: usize = version.sums.iter().map(SumRun::digits).sum();
    assert!(noted.iter().map(Vec::len).sum::<usize>() <= most);
    for (block, len, _) in noted.concat() {
        let end = block.checked_add(1).and_then(|it| it.checked_mul(1 << 20));
        assert!(len <= 1 << 20 && end.is_some());
    }
    let mut again = version.clone();
    again.describe(contents.now());
    assert_eq!(
        again.contents().pieces(0..u64::MAX),
        contents.pieces(0..u64::MAX)
    );
    let time = version.mtime();
    again.set_mtime(time);
    assert_eq!(again.mtime(), time);
    assert!(!crate::file::control::text_of(time).is_empty());
    drop(version.base());
    let headers = ObjectHeaders::from(version.headers.clone());
    assert_eq!(
        ObjectHeaders::from(HeadersRecord::from(headers.clone())),
        headers
    );
}

/// The pieces have all bytes, in order.
fn check_pieces(now: &Snapshot) {
    let mut at = 0;
    for piece in now.pieces(0..u64::MAX) {
        assert_eq!(piece.range.start, at);
        assert!(piece.len() > 0);
        at = piece.range.end;
    }
    assert_eq!(at, now.size());
}
