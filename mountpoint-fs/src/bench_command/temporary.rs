//! Temporary objects: made for the measurement, and removed whatever happens.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mountpoint_client::ObjectClient;
use mountpoint_client::types::{Key, ObjectHeaders, PutCondition, PutRequest};
use tokio::task::JoinSet;

use super::figures::Figures;
use super::machine::CpuTicks;
use super::objects::{Target, Targets};
use crate::clock::Clock;

/// Temporary objects below one folder.
pub(super) struct TemporaryObjects {
    client: Arc<dyn ObjectClient>,
    clock: Clock,
    folder: String,
    made: Vec<Key>,
}

impl TemporaryObjects {
    /// None yet. Their folder is below `prefix`.
    ///
    /// # Errors
    /// A text for the user: the prefix is too long.
    pub(super) fn new(
        client: &Arc<dyn ObjectClient>,
        clock: &Clock,
        prefix: &str,
    ) -> Result<Self, String> {
        let random = RandomState::new().hash_one(prefix);
        let folder = format!("{prefix}.mountpoint-bench-{random:016x}/");
        if folder.len() + NAME_MAX > Key::LEN_MAX {
            return Err("the prefix is too long for names below it: name a shorter one".to_owned());
        }
        Ok(Self {
            client: Arc::clone(client),
            clock: clock.clone(),
            folder,
            made: Vec::new(),
        })
    }

    /// The folder of the objects.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// Makes the objects. Returns the figures of the large ones, those of the small ones, and what
    /// can be read.
    pub(super) async fn make(&mut self) -> (Figures, Figures, Targets) {
        let (large, large_targets) = self.put("large", LARGE_COUNT, LARGE_BYTES).await;
        let (small, small_targets) = self.put("small", SMALL_COUNT, SMALL_BYTES).await;
        let targets = Targets {
            large: large_targets,
            small: small_targets,
        };
        (large, small, targets)
    }

    async fn put(&mut self, name: &str, count: usize, len: usize) -> (Figures, Vec<Target>) {
        let body = Bytes::from(noise(len));
        let (begun, ticks) = (self.clock.now(), CpuTicks::now());
        let (mut figures, mut targets) = (Figures::default(), Vec::new());
        let mut puts = JoinSet::new();
        let mut next = 0;
        while next < count || !puts.is_empty() {
            while next < count && puts.len() < PUTS_AT_ONCE && figures.failures == 0 {
                let Some(key) = Key::parse(&format!("{}{name}-{next:04}", self.folder)) else {
                    break;
                };
                // Noted before the request: an answer may be lost.
                self.made.push(key.clone());
                let (client, clock, body) =
                    (Arc::clone(&self.client), self.clock.clone(), body.clone());
                puts.spawn(async move {
                    let sent = clock.now();
                    let request = PutRequest {
                        key: key.clone(),
                        body,
                        condition: PutCondition::None,
                        checksum: None,
                        headers: ObjectHeaders::default(),
                    };
                    let outcome = client.put(request).await;
                    (key, outcome, clock.now().saturating_sub(sent))
                });
                next += 1;
            }
            match puts.join_next().await {
                Some(Ok((key, Ok(put), latency))) => {
                    figures.succeeded(len as u64, latency);
                    let (etag, size) = (put.etag, len as u64);
                    targets.push(Target { key, etag, size });
                }
                Some(Ok((_, Err(error), _))) => figures.failed(error.to_string()),
                Some(Err(error)) => figures.failed(error.to_string()),
                None => break,
            }
        }
        figures.elapsed = self.clock.now().saturating_sub(begun);
        let after = CpuTicks::now();
        figures.busy = ticks.zip(after).and_then(|(a, b)| b.busy_since(a));
        (figures, targets)
    }

    /// Removes all objects, in a bounded time.
    ///
    /// # Errors
    /// A text for the user that says what is left, and where.
    pub(super) async fn remove(self) -> Result<(), String> {
        let keys: Vec<_> = self.made.iter().map(|key| (key.clone(), None)).collect();
        let removal = async {
            let mut left = 0;
            for batch in keys.chunks(DELETED_AT_ONCE) {
                left += match self.client.delete_many(batch.to_vec()).await {
                    Ok(failures) => failures.len(),
                    // Some servers have no DeleteObjects.
                    Err(_) => self.remove_each(batch).await,
                };
            }
            left
        };
        let left = match tokio::time::timeout(REMOVAL_MAX, removal).await {
            Ok(0) => return Ok(()),
            Ok(left) => left.to_string(),
            Err(_) => "some".to_owned(),
        };
        Err(format!(
            "{left} temporary objects below {} could not be removed: remove them by hand",
            self.folder
        ))
    }

    /// Removes one object after the other. Returns how many are left.
    async fn remove_each(&self, batch: &[(Key, Option<mountpoint_client::types::ETag>)]) -> usize {
        let mut left = 0;
        for (key, _) in batch {
            left += usize::from(self.client.delete(key, None).await.is_err());
        }
        left
    }
}

/// Bytes that no server and no network compresses: the generator of Steele and others, "Fast
/// splittable pseudorandom number generators" (2014).
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0_u64;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend((word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

const LARGE_COUNT: usize = 16;
const LARGE_BYTES: usize = 8 << 20;
const SMALL_COUNT: usize = 256;
const SMALL_BYTES: usize = 16 << 10;

/// PUTs in flight.
pub(super) const PUTS_AT_ONCE: usize = 16;

/// Objects of one DeleteObjects; the limit of S3.
const DELETED_AT_ONCE: usize = 1000;

/// Time of the whole removal.
const REMOVAL_MAX: Duration = Duration::from_secs(60);

/// Longest name below the folder.
const NAME_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::SimOptions;

    use super::*;

    #[test]
    fn what_was_made_is_removed() {
        let sim = Arc::new(SimClient::new(SimOptions::default()));
        let client = Arc::clone(&sim) as Arc<dyn ObjectClient>;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut objects =
                TemporaryObjects::new(&client, &Clock::monotonic(), "some/prefix/").unwrap();
            let (large, small, targets) = objects.make().await;
            assert_eq!(large.bytes, 128 << 20);
            assert_eq!((small.operations, small.failures), (256, 0));
            assert_eq!((targets.large.len(), targets.small.len()), (16, 256));
            let keys = sim.keys();
            assert_eq!(keys.len(), 272);
            let below = "some/prefix/.mountpoint-bench-";
            assert!(keys.iter().all(|key| key.starts_with(below)), "{keys:?}");
            objects.remove().await.unwrap();
        });
        assert_eq!(sim.keys(), Vec::<String>::new());
        let too_long = format!("{}/", "p".repeat(1000));
        let refused = TemporaryObjects::new(&client, &Clock::monotonic(), &too_long);
        assert!(refused.is_err_and(|reason| reason.contains("shorter")));
    }
}
