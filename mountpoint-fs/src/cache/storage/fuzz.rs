//! What all processes of a cache share, and names of files.

use std::time::{Duration, SystemTime};

use super::entry_name::{file_name, parse};
use super::usage::{LEN, Usage};

/// The estimate of what the cache occupies, with the checksum that it should have, and changes of
/// it.
pub(crate) fn usage(data: &[u8]) {
    let Some((bytes, changes)) = data.split_first_chunk::<LEN>() else {
        return;
    };
    let mut bytes = *bytes;
    assert!(Usage::decode(&bytes).is_none_or(|it| it.encode() == bytes));
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &bytes[..LEN - 8]);
    bytes[LEN - 8..].copy_from_slice(&sum.to_le_bytes());
    let Some(mut usage) = Usage::decode(&bytes) else {
        return;
    };
    assert_eq!(usage.encode(), bytes);
    for [kind, change @ ..] in changes.as_chunks::<9>().0 {
        let number = u64::from_le_bytes(*change);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(number % (1 << 40));
        match kind % 3 {
            0 => usage.store(number, u64::from(*kind), now),
            1 => usage.remove(number, u64::from(*kind)),
            _ => usage.count(number, u64::from(*kind), now),
        }
        usage.age(now);
        assert!(usage.turned_since() >= SystemTime::UNIX_EPOCH);
        assert_eq!(Usage::decode(&usage.encode()), Some(usage));
    }
}

/// The name of a file in the folder of a shard, which the first byte tells.
pub(crate) fn name(data: &[u8]) {
    let Some((shard, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    if let Some((name, kind)) = parse(*shard, text) {
        assert_eq!(name.shard(), *shard);
        assert_eq!(file_name(name, kind), text);
    }
}
