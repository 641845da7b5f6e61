//! The request to store a file.

use std::sync::Arc;

use mountpoint_client::types::{Key, ObjectHeaders};

use super::early::{EarlyStore, StoreTarget};
use super::feed::copied_min;
use crate::staging::contents::Snapshot;
use crate::staging::context::StagingContext;
use crate::staging::record::{SentVersion, marker_sum};
use crate::staging::sources::ByteSources;
use crate::write::{Adopts, Replaced, UploadCheckpoint};

/// An object to be made.
#[derive(Clone, Debug)]
pub(in crate::staging) struct StoreRequest {
    pub(in crate::staging) key: Key,
    pub(in crate::staging) snapshot: Arc<Snapshot>,
    pub(in crate::staging) sources: ByteSources,
    pub(in crate::staging) replaced: Replaced,
    pub(in crate::staging) headers: ObjectHeaders,
    /// The objects of other hosts that may stand for a new file without bytes.
    pub(in crate::staging) adopts: Adopts,
    /// The upload that an attempt before has begun, and that this one continues.
    pub(in crate::staging) checkpoint: Arc<UploadCheckpoint>,
    /// The store that was begun while the file was still written.
    pub(in crate::staging) early: Option<Arc<EarlyStore>>,
    /// The file is of an earlier process, which may have sent it.
    pub(in crate::staging) recovered: Option<RecoveredFrom>,
    /// The file was changed since, or its headers were.
    pub(in crate::staging) is_newer: bool,
}

/// Versions of a file that an earlier process may have sent.
#[derive(Clone, Debug, Default)]
pub(in crate::staging) struct RecoveredFrom {
    /// Versions before the one that it committed last.
    pub(in crate::staging) sent: Vec<SentVersion>,
    /// That version; `None` once it is in `sent`.
    pub(in crate::staging) whole: Option<Arc<Snapshot>>,
    /// The sum of its metadata, if it marks a directory.
    pub(in crate::staging) marker_sum: Option<u64>,
    /// Changes in the newest version that may have been sent.
    pub(in crate::staging) edits: u64,
}

impl StoreRequest {
    /// The sum of the metadata, if the object marks a directory.
    pub(in crate::staging) fn marker_sum(&self) -> Option<u64> {
        marker_sum(&self.key, &self.headers.metadata)
    }

    /// The object to make.
    pub(super) fn target(&self) -> StoreTarget {
        StoreTarget {
            key: self.key.clone(),
            replaced: self.replaced.clone(),
            headers: self.headers.clone(),
        }
    }

    /// Begins the store. Sends nothing.
    pub(in crate::staging) fn begin(
        &self,
        context: &StagingContext,
        has_copies: bool,
    ) -> Arc<EarlyStore> {
        let target = self.target();
        EarlyStore::begin(context, target, self.adopts, &self.checkpoint, has_copies)
    }

    /// Whether a range of the base is long enough for a copy.
    pub(super) fn has_copies(&self) -> bool {
        let size = self.snapshot.size();
        let copied = self
            .snapshot
            .next_in_base(0, size, copied_min(&self.snapshot));
        self.sources.base.is_some() && copied.is_some()
    }
}
