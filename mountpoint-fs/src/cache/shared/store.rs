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
    /// What was known of the extent when it became whole.
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
            true => tier.store(&extent, (assembly, &*memory), presence).await,
            false => None,
        };
        extent.stored(stored);
        drop(storing);
    }
}

impl Tier {
    /// Whether this node is to store an extent: all by itself, or first of several.
    async fn may_store(&self, extent: &SharedExtent, presence: Presence) -> bool {
        let is_on = self.policy(|policy, now| policy.health.is_on(now));
        let is_shared = self.policy(|policy, now| policy.fleet.is_active(now));
        if !is_on {
            self.counters.dropped.add(1);
            return false;
        }
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
        (assembly, memory): (Assembly, &dyn BlockSource),
        presence: Presence,
    ) -> Option<Presence> {
        let place = &extent.place;
        let Some(mut body) = memory.block(place.stored_len()) else {
            self.counters.dropped.add(1);
            return None;
        };
        assembly.seal_into(place, &extent.name.seed, &mut body);
        drop(assembly);
        let body = Bytes::from_owner(StoredForm(body.block()));
        let sent_at = self.clock.now();
        match self.put(extent, &body, presence).await? {
            Ok(()) => {
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
                self.counters.left_to_others.add(1);
                self.policy(|policy, now| policy.fleet.saw_others(now));
                Some(Presence::Stored)
            }
            Err(error) => {
                let took = self.clock.now().saturating_sub(sent_at);
                self.failed(&format!("be written ({took:?})"), &error);
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
        let send = async |request: PutRequest| {
            let put = tokio::time::timeout(STORE_MAX, self.client.put(request)).await;
            put.map_or_else(|_| Err(late()), |outcome| outcome.map(drop))
        };
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
}

fn late() -> ClientError {
    let what = format!("PutObject took longer than {STORE_MAX:?}");
    ClientError::new(ErrorKind::Transient, what)
}

/// The bytes of a PUT, in a block of the mount's memory.
struct StoredForm(Block);

impl AsRef<[u8]> for StoredForm {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes(0..self.0.valid())
    }
}

/// Time for storing an extent. A bucket that takes longer is of no use to a fleet.
const STORE_MAX: Duration = Duration::from_secs(10);
