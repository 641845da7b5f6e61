//! The log of requests, so that tests assert requests and bytes exactly.
//!
//! Invariant: bounded; requests beyond the bound are counted, not kept.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::types::Priority;

/// Records kept between two calls of [`RequestLog::take`]: more than a test can look at.
const RECORDS_MAX: usize = 1 << 20;

/// An operation of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are S3's own")]
pub enum Operation {
    GetObject,
    HeadObject,
    ListObjectsV2,
    HeadBucket,
    PutObject,
    CreateMultipartUpload,
    UploadPart,
    UploadPartCopy,
    CompleteMultipartUpload,
    AbortMultipartUpload,
    ListParts,
    ListMultipartUploads,
    DeleteObject,
    DeleteObjects,
    CopyObject,
    RenameObject,
    CreateSession,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// The operation of S3's API.
    pub operation: Operation,
    /// The key, a listing's prefix, or a copy's destination; empty where there is none.
    pub key: String,
    /// Bytes of the object that a GET or a part copy asked for, or that a PUT appended.
    pub range: Option<Range<u64>>,
    /// Bytes of the body: of a GET, those published so far; of an upload, all of it.
    pub bytes: u64,
    /// The priority of a GET.
    pub priority: Option<Priority>,
}

impl RequestRecord {
    pub(super) fn new(operation: Operation, key: &str) -> Self {
        Self {
            operation,
            key: key.to_owned(),
            range: None,
            bytes: 0,
            priority: None,
        }
    }

    pub(super) fn with_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes as u64;
        self
    }

    pub(super) fn with_range(mut self, range: Range<u64>) -> Self {
        self.range = Some(range);
        self
    }
}

/// The requests so far, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct RequestLog {
    records: Vec<RequestRecord>,
    first: u64,
    dropped: u64,
}

impl RequestLog {
    /// The records, oldest first.
    #[must_use]
    pub fn records(&self) -> &[RequestRecord] {
        &self.records
    }

    /// How many requests of each operation there were.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Operation, usize> {
        let mut counts = BTreeMap::new();
        for record in &self.records {
            *counts.entry(record.operation).or_insert(0) += 1;
        }
        counts
    }

    /// How many requests of `operation` there were.
    #[must_use]
    pub fn count(&self, operation: Operation) -> usize {
        self.records
            .iter()
            .filter(|record| record.operation == operation)
            .count()
    }

    /// Bytes that GETs have published.
    #[must_use]
    pub fn get_bytes(&self) -> u64 {
        let gets = self
            .records
            .iter()
            .filter(|record| record.operation == Operation::GetObject);
        gets.map(|record| record.bytes).sum()
    }

    /// Ranges of `key` that GETs asked for, in order.
    #[must_use]
    pub fn get_ranges(&self, key: &str) -> Vec<Range<u64>> {
        let gets = self
            .records
            .iter()
            .filter(|record| record.operation == Operation::GetObject);
        gets.filter(|record| record.key == key)
            .filter_map(|record| record.range.clone())
            .collect()
    }

    /// Requests that found the log full and were only counted.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The log so far; the next record begins an empty one.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let empty = Self {
            first: self.next(),
            ..Self::default()
        };
        std::mem::replace(self, empty)
    }

    /// Records a request; the number names it in [`RequestLog::add_bytes`].
    pub(super) fn push(&mut self, record: RequestRecord) -> u64 {
        let number = self.next();
        if self.records.len() < RECORDS_MAX {
            self.records.push(record);
        } else {
            self.dropped += 1;
        }
        number
    }

    /// More bytes of a request; nothing happens if its record was taken.
    pub(super) fn add_bytes(&mut self, number: u64, bytes: u64) {
        let Some(at) = number.checked_sub(self.first) else {
            return;
        };
        if let Some(record) = self.records.get_mut(super::store::content::index(at)) {
            record.bytes += bytes;
        }
    }

    fn next(&self) -> u64 {
        self.first + self.records.len() as u64 + self.dropped
    }
}
