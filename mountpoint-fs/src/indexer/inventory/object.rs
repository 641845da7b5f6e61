//! The object that a row names, whatever the format of the row.

use std::time::SystemTime;

use mountpoint_client::types::{ETag, Key};

use crate::index::IndexEntry;

/// The key and the ETag of a row, which S3 may have left empty.
pub(super) struct RowObject<'a> {
    key: String,
    etag: &'a str,
}

impl<'a> RowObject<'a> {
    /// # Errors
    /// The error of the row.
    pub(super) fn parse(mut key: String, etag: &'a str) -> Result<Self, &'static str> {
        if etag.is_empty() {
            key.push_str(Key::NO_ETAG);
        }
        if Key::parse(&key).is_none() {
            return Err("its key is empty, or longer than S3 stores");
        }
        Ok(Self { key, etag })
    }

    /// The entry of the object. A row without a storage `class` is of none that is archived.
    pub(super) fn entry(self, size: u64, time: SystemTime, class: Option<&[u8]>) -> IndexEntry {
        let etag = ETag::from_header(self.etag);
        let is_archived = matches!(class, Some(b"GLACIER" | b"DEEP_ARCHIVE"));
        IndexEntry::new(self.key, size, time, &etag, is_archived)
    }
}
