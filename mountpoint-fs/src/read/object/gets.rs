//! The GETs of one version: prepared with the object's lock held, sent without it.
//!
//! A prepared GET is in the map of blocks already, so that no other read asks for its bytes. Memory
//! is taken first: a GET without memory is not prepared.

use std::ops::Range;
use std::sync::Arc;

use mountpoint_client::{ClientError, ErrorKind};
use mountpoint_crt_sys::block::BlockFill;
use smallvec::{SmallVec, smallvec};

use super::state::{Blocks, Piece};
use crate::cache::CachedCopies;
use crate::memory::{Purpose, Reservation};
use crate::operation::FsError;
use crate::read::fetch::{Fetch, Sources};
use crate::read::object_version::ObjectVersion;
use crate::read::resources::ReadResources;

/// GETs that are prepared and not sent yet.
pub(super) type PreparedGets = Vec<(Arc<Fetch>, BlockFill)>;

/// Asks S3 for ranges of one version.
#[derive(Debug)]
pub(super) struct ObjectGets {
    pub(super) version: Arc<ObjectVersion>,
    pub(super) resources: Arc<ReadResources>,
    /// The version in the caches.
    pub(super) copies: CachedCopies,
}

impl ObjectGets {
    /// Prepares a GET of `range`. Returns what fills its block.
    pub(super) fn prepare(
        &self,
        blocks: &mut Blocks,
        range: Range<u64>,
        memory: Reservation,
        purpose: Purpose,
    ) -> (Arc<Fetch>, BlockFill) {
        let fetcher = &self.resources.fetcher;
        let copies = &self.copies;
        let (fetch, fill) = fetcher.prepare(&self.version, range.clone(), memory, purpose, copies);
        blocks.insert(range, Arc::clone(&fetch));
        (fetch, fill)
    }

    /// Prepares what a read waits for: all of `ranges`, or nothing and `false` if memory is short.
    pub(super) fn prepare_demand(
        &self,
        blocks: &mut Blocks,
        ranges: &[Range<u64>],
        gets: &mut PreparedGets,
    ) -> bool {
        let total = ranges.iter().map(|get| get.end - get.start).sum();
        if total == 0 {
            return true;
        }
        let budget = &self.resources.memory.budget;
        let Some(mut memory) = budget.try_reserve(total, Purpose::Demand) else {
            return false;
        };
        for range in ranges {
            for part in self.divide(range) {
                let share = memory.split(part.end - part.start);
                gets.push(self.prepare(blocks, part, share, Purpose::Demand));
            }
        }
        true
    }

    /// Prepares what is to be read ahead. Returns the number of the range at which memory ended.
    pub(super) fn prepare_ahead<'a>(
        &self,
        blocks: &mut Blocks,
        ranges: impl Iterator<Item = &'a Range<u64>>,
        gets: &mut PreparedGets,
    ) -> Option<usize> {
        let budget = &self.resources.memory.budget;
        for (number, range) in ranges.enumerate() {
            let len = range.end - range.start;
            let Some(mut memory) = budget.try_reserve(len, Purpose::ReadAhead) else {
                return Some(number);
            };
            for part in self.divide(range) {
                let share = memory.split(part.end - part.start);
                gets.push(self.prepare(blocks, part, share, Purpose::ReadAhead));
            }
        }
        None
    }

    /// `range`, divided where bytes that the disk has meet bytes that it does not have, and where
    /// extents of the shared bucket meet.
    fn divide(&self, range: &Range<u64>) -> SmallVec<[Range<u64>; 1]> {
        let CachedCopies { disk, shared } = &self.copies;
        let divided = disk.as_ref().and_then(|cached| cached.divide(range));
        let parts = divided.map_or_else(|| smallvec![range.clone()], SmallVec::from);
        match shared {
            None => parts,
            Some(shared) => parts.iter().flat_map(|part| shared.divide(part)).collect(),
        }
    }

    /// Has the blocks of `gets` filled. Called with no lock held: a client may deliver bytes before
    /// it returns.
    pub(super) fn send(&self, gets: PreparedGets, sources: Sources) {
        for (fetch, fill) in gets {
            self.resources.fetcher.launch(fetch, fill, sources);
        }
    }

    /// Waits for all pieces. The first error comes with what its GET was for.
    pub(super) async fn wait(&self, pieces: &[Piece]) -> Result<(), (ClientError, Purpose)> {
        for Piece { fetch, bytes } in pieces {
            let arrival = self.resources.fetcher.wait(fetch, bytes.end);
            arrival.await.map_err(|error| (error, fetch.purpose()))?;
        }
        Ok(())
    }

    /// The error of a GET, as a reader is told.
    pub(super) fn fs_error(&self, error: ClientError) -> FsError {
        match error.kind {
            ErrorKind::PreconditionFailed | ErrorKind::NotFound => FsError::Stale(format!(
                "{} is not the version that was opened: it was replaced or deleted since, or the server \
                 contradicts itself and lists another ETag than it reads by: {error}",
                self.version.key
            )),
            _ => FsError::from(error),
        }
    }
}
