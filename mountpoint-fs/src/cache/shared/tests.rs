//! The start of mounts: permissions, and memory.

use std::sync::Arc;

use mountpoint_client::testing::sim::{Operation, SimClient, SimOptions};
use mountpoint_client::{ErrorKind, ObjectClient};
use tokio::runtime::Runtime;

use super::tier::storing_max;
use super::{CheckedStep, SharedCache, SharedCacheParts};
use crate::cache::StoreId;
use crate::clock::Clock;

/// A mount of a bucket of its own, on some machine.
struct Node {
    runtime: Runtime,
    cache: Arc<SharedCache>,
}

impl Node {
    fn new(bucket: &Arc<SimClient>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let parts = SharedCacheParts {
            client: Arc::clone(bucket) as Arc<dyn ObjectClient>,
            prefix: "p/".to_owned(),
            store: StoreId::default(),
            held_max: 1 << 20,
            runtime: runtime.handle().clone(),
            seed: 1,
        };
        let cache = SharedCache::new(parts, Clock::manual());
        Self { runtime, cache }
    }

    fn check(&self) -> Result<(), (CheckedStep, ErrorKind)> {
        let checked = self.runtime.block_on(self.cache.check());
        checked.map_err(|(step, error)| (step, error.kind))
    }
}

fn bucket() -> Arc<SimClient> {
    Arc::new(SimClient::new(SimOptions::default()))
}

#[test]
fn what_is_stored_at_once_keeps_to_the_memory_of_the_cache() {
    for (held_max, expected) in [(0, 1), (20 << 20, 1), (64 << 20, 6), (1 << 30, 8)] {
        assert_eq!(storing_max(held_max), expected, "{held_max}");
    }
}

#[test]
fn a_bucket_that_cannot_be_used_is_told_with_the_step() {
    for (operation, kind, expected) in [
        (
            Operation::HeadObject,
            ErrorKind::Denied,
            Some(CheckedStep::Look),
        ),
        (
            Operation::HeadObject,
            ErrorKind::NoSuchBucket,
            Some(CheckedStep::Look),
        ),
        (
            Operation::PutObject,
            ErrorKind::Denied,
            Some(CheckedStep::Store),
        ),
        (Operation::PutObject, ErrorKind::Throttled, None),
        (Operation::HeadObject, ErrorKind::Transient, None),
    ] {
        let bucket = bucket();
        bucket.fail_next(operation, 2, kind.clone());
        let checked = Node::new(&bucket).check();
        let expected = expected.map_or(Ok(()), |step| Err((step, kind)));
        assert_eq!(checked, expected, "{operation:?}");
    }
}
