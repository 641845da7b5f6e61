//! The state of a staged file, under its lock.

use std::sync::Arc;

use mountpoint_client::types::{ETag, Key, ObjectHeaders};

use crate::operation::{FsError, PosixAttributes};
use crate::read::{ReadContext, Reader};
use crate::staging::contents::Contents;
use crate::staging::local::DataFiles;
use crate::staging::sources::ByteSources;
use crate::staging::upload::StoreRequest;
use crate::write::{Adopts, Replaced, Stored};

/// The object that a staged file begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagedBase {
    /// None.
    None,
    /// Probably none: S3 was not asked.
    Unasked,
    /// This version.
    Version(Stored),
}

/// The version that the file's changes are based on.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) version: Stored,
    pub(super) reader: Reader,
}

impl Base {
    /// A base, with a reader that sends nothing yet.
    pub(super) fn new(reading: &ReadContext, key: &Key, version: Stored) -> Self {
        let reader = Reader::shared(reading, key, &version.etag, version.size);
        Self { version, reader }
    }
}

/// The reason why a staged file is never stored again, which is no failure of a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NeverStored {
    /// Its name was removed, or is another file's.
    Removed,
    /// The bucket has its changes, or there were none, although the file has ended.
    Settled,
}

/// The state of a staged file.
#[derive(Debug)]
pub(super) struct FileState {
    pub(super) key: Key,
    pub(super) base: Option<Base>,
    pub(super) contents: Contents,
    /// How often local bytes that the bucket has were given back to the disk.
    pub(super) given_back: u64,
    pub(super) headers: ObjectHeaders,
    /// The failure that ended the file.
    pub(super) failure: Option<FsError>,
    /// The reason why no store is to come.
    pub(super) never_stored: Option<NeverStored>,
    pub(super) adopts: Adopts,
    /// S3 was not asked for an object of the key.
    is_unasked: bool,
    /// The headers may hold a time, which the next write makes void.
    is_timed: bool,
}

impl FileState {
    pub(super) fn new(
        key: Key,
        headers: ObjectHeaders,
        base: Option<Base>,
        is_unasked: bool,
    ) -> Self {
        let size = base.as_ref().map(|base| base.version.size);
        let is_timed = base.is_some();
        Self {
            key,
            base,
            contents: size.map_or_else(Contents::new, Contents::over),
            given_back: 0,
            headers,
            failure: None,
            never_stored: None,
            adopts: Adopts::Nothing,
            is_unasked,
            is_timed,
        }
    }

    /// The failure that ended the file, if there was one.
    pub(super) fn check(&self) -> Result<(), FsError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// The bytes change now: an object of another host does not stand for them, and a time that was
    /// set is void.
    pub(super) fn changes(&mut self) {
        self.adopts = Adopts::Nothing;
        if std::mem::take(&mut self.is_timed) {
            PosixAttributes::forget_time(&mut self.headers.metadata);
        }
    }

    /// Changes the headers. Returns whether a store is to come, which sends them.
    pub(super) fn change_headers(
        &mut self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError>,
    ) -> Result<bool, FsError> {
        self.check()?;
        let before = self.headers.metadata.clone();
        change(&mut self.headers)?;
        if PosixAttributes::says_more(&self.headers.metadata, &before) {
            // The other host's object does not have the attributes.
            self.adopts = Adopts::Nothing;
        }
        self.is_timed = true;
        let is_changed = self.contents.is_changed();
        if is_changed {
            self.contents.touch();
        }
        Ok(is_changed)
    }

    /// The places of the file's bytes.
    pub(super) fn sources(&self, files: &Arc<DataFiles>) -> ByteSources {
        ByteSources {
            files: Arc::clone(files),
            base: self.base.as_ref().map(|base| base.reader.clone()),
        }
    }

    /// Whether the bucket lacks something.
    pub(super) fn needs_store(&self) -> Result<bool, FsError> {
        if self.never_stored.is_some() {
            return Ok(false);
        }
        self.check()?;
        Ok(self.contents.is_changed())
    }

    /// Begins a store of the file as it is.
    pub(super) fn begin_store(&mut self, files: &Arc<DataFiles>) -> StoreRequest {
        let replaced = match &self.base {
            Some(base) => Replaced::Version(base.version.etag.clone()),
            None if self.is_unasked => Replaced::NothingUnasked,
            None => Replaced::Nothing,
        };
        StoreRequest {
            key: self.key.clone(),
            snapshot: self.contents.begin_store(),
            sources: self.sources(files),
            replaced,
            headers: self.headers.clone(),
            adopts: self.adopts,
        }
    }

    /// The bucket has what the store sent: `base`.
    pub(super) fn stored(&mut self, base: Base) {
        self.contents.end_store(true);
        self.base = Some(base);
        self.adopts = Adopts::Nothing;
    }

    /// The version `old` was replaced by one with equal bytes.
    pub(super) fn base_replaced(&mut self, reading: &ReadContext, old: &ETag, etag: &ETag) {
        let Some(base) = self.base.as_mut() else {
            return;
        };
        if base.version.etag.matches(old) {
            let version = Stored {
                etag: etag.clone(),
                size: base.version.size,
            };
            *base = Base::new(reading, &self.key, version);
        }
    }
}
