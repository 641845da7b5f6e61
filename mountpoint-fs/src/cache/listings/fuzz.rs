//! Listings that were kept, of a disk that others can write.

use super::format::ListingFile;
use crate::local_disk::{CHECKSUM_LEN, checksum};

/// A listing: as it is, then with the checksum that it should have.
pub(crate) fn listing(data: &[u8]) {
    check(data);
    let mut right = data.to_vec();
    if let Some((covered, sum)) = right.split_last_chunk_mut::<CHECKSUM_LEN>() {
        *sum = checksum(&[covered]).to_le_bytes();
        check(&right);
    }
}

fn check(bytes: &[u8]) {
    let Ok(found) = ListingFile::decode(bytes) else {
        return;
    };
    assert!(found.names.len() <= bytes.len());
    for name in &found.names {
        let name = &*name.name;
        assert!(!matches!(name, "" | "." | "..") && !name.contains(['/', '\0']));
    }
    let again = found.encode().unwrap();
    assert_eq!(ListingFile::decode(&again), Ok(found));
}
