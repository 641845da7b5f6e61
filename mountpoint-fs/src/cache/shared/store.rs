//! Whole extents on their way to the shared bucket, behind the reader.
//!
//! Nobody waits for it: what comes while there is too much to do is not stored.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use mountpoint_client::types::{ObjectHeaders, PutCondition, PutRequest};
use mountpoint_client::{ClientError, ErrorKind};
use mountpoint_crt_sys::block::Block;

use super::extent::{Presence, SharedExtent};
use super::format::Assembly;
use super::tier::{BlockSource, Storing, Tier};

/// A whole extent that is to be stored.
pub(super) struct SharedStore {
    pub(super) tier: Arc<Tier>,
    pub(super) extent: Arc<SharedExtent>,
    pub(super) memory: Arc<dyn BlockSource>,
    pub(super) assembly: Assembly,
    /// Knowledge of the extent in the bucket when it became whole.
    pub(super) presence: Presence,
    pub(super) storing: Storing,
}

impl SharedStore {
    /// Stores the extent, if no other node has.
    pub(super) async fn run(self) {
        let pieces = (self.assembly, &*self.memory, self.storing);
        let stored = self.tier.store(&self.extent, pieces, self.presence).await;
        self.extent.stored(stored);
    }
}

impl Tier {
    /// Stores an extent. Returns what is known of it now.
    async fn store(
        &self,
        extent: &SharedExtent,
        (assembly, memory, storing): (Assembly, &dyn BlockSource, Storing),
        presence: Presence,
    ) -> Option<Presence> {
        let place = &extent.place;
        let Some(mut body) = memory.block(place.stored_len()) else {
            self.stats.lock().dropped += 1;
            return None;
        };
        assembly.seal_into(place, &extent.name.seed, &mut body);
        drop(assembly);
        let body = Bytes::from_owner(StoredForm {
            block: body.block(),
            _storing: storing,
        });
        match self.put(extent, &body, presence).await? {
            Ok(()) => {
                self.stored();
                self.stats.lock().stored += 1;
                Some(Presence::Stored)
            }
            Err(error) if is_there(&error) => {
                self.stored();
                Some(Presence::Stored)
            }
            Err(error) => {
                self.store_failed(&error);
                None
            }
        }
    }

    /// Sends the stored form, where there is nothing yet; in the place of something else only if
    /// that was found to be damaged.
    async fn put(
        &self,
        extent: &SharedExtent,
        body: &Bytes,
        presence: Presence,
    ) -> Option<Result<(), ClientError>> {
        let replaces = presence == Presence::Damaged;
        let request = |condition| {
            Some(PutRequest {
                key: extent.name.key(&self.prefix)?,
                body: body.clone(),
                condition,
                checksum: None,
                headers: ObjectHeaders::default(),
            })
        };
        let send = |request| self.put_in_time(request);
        if !replaces && self.has_conditions.load(Ordering::Relaxed) {
            let outcome = send(request(PutCondition::Absent)?).await;
            if !matches!(&outcome, Err(error) if error.kind == ErrorKind::Unsupported) {
                return Some(outcome);
            }
            // The same bytes under the same name, at worst twice.
            self.has_conditions.store(false, Ordering::Relaxed);
        }
        Some(send(request(PutCondition::None)?).await)
    }

    /// Sends a PUT, whose answer is waited for within [`STORE_MAX`].
    async fn put_in_time(&self, request: PutRequest) -> Result<(), ClientError> {
        let put = tokio::time::timeout(STORE_MAX, self.client.put(request)).await;
        put.map_or_else(|_| Err(late()), |outcome| outcome.map(drop))
    }
}

/// Whether a conditional PUT found an object.
fn is_there(error: &ClientError) -> bool {
    matches!(
        error.kind,
        ErrorKind::PreconditionFailed | ErrorKind::Conflict
    )
}

fn late() -> ClientError {
    let what = format!("PutObject took longer than {STORE_MAX:?}");
    ClientError::new(ErrorKind::Transient, what)
}

/// The bytes of a PUT, in a block of the mount's memory. They count as being stored until the
/// client has given them back, also where nobody waits for their PUT.
struct StoredForm {
    block: Block,
    _storing: Storing,
}

impl AsRef<[u8]> for StoredForm {
    fn as_ref(&self) -> &[u8] {
        self.block.bytes(0..self.block.valid())
    }
}

/// Time for storing an extent. A bucket that takes longer is of no use to a fleet.
const STORE_MAX: Duration = Duration::from_secs(10);
