//! The request to store a file.

use std::sync::Arc;

use mountpoint_client::types::{ChecksumAlgorithm, Key, ObjectHeaders, WriteToken};

use super::early::{EarlyStore, SentChanges};
use super::feed::{Feed, copied_min};
use super::stop::StoreStop;
use crate::file::contents::Snapshot;
use crate::file::context::StagingContext;
use crate::file::sources::ByteSources;
use crate::write::{Adopts, Replaced, Stored, UploadCheckpoint, UploadTarget};

/// An object to be made.
#[derive(Clone, Debug)]
pub(in crate::file) struct StoreRequest {
    pub(in crate::file) key: Key,
    pub(in crate::file) snapshot: Arc<Snapshot>,
    pub(in crate::file) sources: ByteSources,
    pub(in crate::file) replaced: Replaced,
    pub(in crate::file) headers: ObjectHeaders,
    /// The objects of other hosts that may stand for a new file without bytes.
    pub(in crate::file) adopts: Adopts,
    /// The copy beside the object that a store of an older version has made, if there is one: a
    /// further one replaces it.
    pub(in crate::file) beside: Option<(Key, Stored)>,
    /// The upload that an attempt before has begun, and that this one continues.
    pub(in crate::file) checkpoint: Arc<UploadCheckpoint>,
    /// The store that was begun while the file was still written, and what has changed of its bytes
    /// since.
    pub(in crate::file) early: Option<(Arc<EarlyStore>, SentChanges)>,
    /// The version behind whose end the server puts the rest of the bytes, which are a part at
    /// most, and the algorithm of its checksum; `None` if the object is made anew.
    pub(in crate::file) grows: Option<(Stored, Option<ChecksumAlgorithm>)>,
    /// Ends the store before its object is made.
    pub(in crate::file) stop: Arc<StoreStop>,
    pub(in crate::file) identity: StoreIdentity,
}

/// By what a file knows its own objects: they carry the token of its stores, and a number.
#[derive(Clone, Debug)]
pub(in crate::file) struct StoreIdentity {
    /// The token. With write-back, the journal has it before anything is sent.
    pub(in crate::file) series: WriteToken,
    /// The number of the version to store. An upload that a later version goes on with keeps the
    /// number of the version that began it.
    pub(in crate::file) number: u64,
    /// The number of the version that this process has found in the journal; 0 without one.
    pub(in crate::file) recovered: u64,
    /// The number of the last version that the bucket had for certain: another object with it is
    /// another client's, which has kept the metadata.
    pub(in crate::file) known: u64,
    /// Whether a version behind that may have been sent before.
    pub(in crate::file) may_be_sent: bool,
}

impl StoreIdentity {
    /// The first number of the process that finds the version `number` in the journal. The process
    /// before may have stored versions behind that one: a full disk keeps them out of the journal.
    pub(in crate::file) fn first_behind(number: u64) -> u64 {
        (number | NUMBERS_OF_PROCESS).saturating_add(1)
    }

    /// Whether the file as it is has all changes of its version `number`.
    pub(super) fn has(&self, number: u64) -> bool {
        let is_of_process = number > (self.number & !NUMBERS_OF_PROCESS);
        number <= self.number && (is_of_process || number <= self.recovered)
    }

    /// The token of the version to store.
    pub(super) fn token(&self) -> WriteToken {
        self.series.numbered(self.number)
    }
}

/// The part of a number that counts the changes of one process.
const NUMBERS_OF_PROCESS: u64 = u32::MAX as u64;

impl StoreRequest {
    /// The object to make.
    pub(super) fn target(&self) -> UploadTarget {
        UploadTarget {
            key: self.key.clone(),
            replaced: self.replaced.clone(),
            headers: self.headers.clone(),
        }
    }

    /// Brings the bytes. With `copies` the server copies what it can.
    pub(in crate::file) fn feed(&self, copies: bool) -> Feed {
        Feed {
            snapshot: Arc::clone(&self.snapshot),
            sources: self.sources.clone(),
            copies,
        }
    }

    /// Begins the store. Sends nothing.
    pub(in crate::file) fn begin(
        &self,
        context: &StagingContext,
        has_copies: bool,
    ) -> Arc<EarlyStore> {
        let object = (self.target(), self.identity.token());
        // An upload of bytes that are in memory alone ends with them.
        let has_disk = !self.sources.files.have_no_disk();
        let checkpoint = has_disk.then_some(&self.checkpoint);
        EarlyStore::begin(context, object, self.adopts, checkpoint, has_copies)
    }

    /// Whether one request makes the object of all bytes, and no part was sent.
    pub(in crate::file) fn is_one_request(&self, context: &StagingContext) -> bool {
        self.early.is_none() && self.feed(false).is_one_request(context)
    }

    /// Whether the object was made with headers from before a change: those of the file are to
    /// follow.
    pub(in crate::file) fn has_made_old_headers(&self) -> bool {
        let early = self.early.as_ref();
        early.is_some_and(|(early, _)| early.has_old_headers(&self.target()))
    }

    /// Whether a range of the base is long enough for a copy.
    pub(in crate::file) fn has_copies(&self) -> bool {
        let size = self.snapshot.size();
        let copied = self
            .snapshot
            .next_copied(0, size, copied_min(&self.snapshot));
        copied.is_some()
    }
}
