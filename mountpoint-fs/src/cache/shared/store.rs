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
use super::read::is_there;
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
    /// Stores the extent, if no other node does.
    pub(super) async fn run(self) {
        let Self {
            tier,
            extent,
            memory,
            assembly,
            presence,
            storing,
        } = self;
        let stored = match tier.may_store(&extent, presence).await {
            true => {
                let pieces = (assembly, &*memory, storing);
                tier.store(&extent, pieces, presence).await
            }
            false => None,
        };
        extent.stored(stored);
    }
}

impl Tier {
    /// Whether this node is to store an extent: all by itself, or first of several.
    async fn may_store(&self, extent: &SharedExtent, presence: Presence) -> bool {
        let is_shared = self.policy(|policy, now| policy.fleet.is_active(now));
        if matches!(presence, Presence::Owned(_) | Presence::Damaged) || !is_shared {
            return true;
        }
        let is_won = self.claim(extent).await;
        if is_won == Some(false) {
            self.counters.left_to_others.add(1);
            self.policy(|policy, now| policy.fleet.saw_others(now));
        }
        is_won == Some(true)
    }

    /// Stores an extent. Returns what is known of it now.
    async fn store(
        &self,
        extent: &SharedExtent,
        (assembly, memory, storing): (Assembly, &dyn BlockSource, Storing),
        presence: Presence,
    ) -> Option<Presence> {
        let place = &extent.place;
        let Some(mut body) = memory.block(place.stored_len()) else {
            self.counters.dropped.add(1);
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
                self.counters.stored.add(1);
                self.counters.stored_bytes.add(place.len());
                if let Presence::Owned(since) = presence {
                    self.policy(|policy, now| {
                        policy.fleet.filled_within(now.saturating_sub(since));
                    });
                }
                Some(Presence::Stored)
            }
            Err(error) if is_there(&error) => {
                self.stored();
                self.counters.left_to_others.add(1);
                self.policy(|policy, now| policy.fleet.saw_others(now));
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
    pub(super) async fn put_in_time(&self, request: PutRequest) -> Result<(), ClientError> {
        let put = tokio::time::timeout(STORE_MAX, self.client.put(request)).await;
        put.map_or_else(|_| Err(late()), |outcome| outcome.map(drop))
    }
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
