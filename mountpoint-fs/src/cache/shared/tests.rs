//! The start of mounts: permissions, and what they see of each other.

use std::sync::Arc;
use std::time::Duration;

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
    fn new(bucket: &Arc<SimClient>, seed: u64) -> Self {
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
            seed,
        };
        let cache = SharedCache::new(parts, Clock::manual());
        Self { runtime, cache }
    }

    fn check(&self, name: &str) -> Result<(), (CheckedStep, ErrorKind)> {
        let checked = self.runtime.block_on(self.cache.check(name));
        checked.map_err(|(step, error)| (step, error.kind))
    }

    fn sees_others(&self) -> bool {
        let tier = &self.cache.tier();
        tier.policy(|policy, now| policy.fleet.is_active(now))
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
        let checked = Node::new(&bucket, 1).check("a");
        let expected = expected.map_or(Ok(()), |step| Err((step, kind)));
        assert_eq!(checked, expected, "{operation:?}");
    }
}

#[test]
fn a_lone_node_sees_nobody_also_when_it_mounts_again() {
    let bucket = bucket();
    for seed in 0..3 {
        let node = Node::new(&bucket, seed);
        node.check("a").unwrap();
        assert!(!node.sees_others());
    }
    assert_eq!(bucket.keys(), ["p/mount-s3-cache/last-start"]);
}

#[test]
fn nodes_that_start_after_each_other_see_each_other() {
    let bucket = bucket();
    let (first, second) = (Node::new(&bucket, 1), Node::new(&bucket, 2));
    first.check("a").unwrap();
    second.check("b").unwrap();
    assert!(second.sees_others());
    assert!(!first.sees_others());
    first.runtime.block_on(first.cache.watch());
    assert!(first.sees_others(), "its object of the start is another's");
}

#[test]
fn the_end_of_the_cache_ends_the_watch() {
    let node = Node::new(&bucket(), 1);
    node.check("a").unwrap();
    let watch = node.cache.watch();
    drop(node.cache);
    let ended = async { tokio::time::timeout(Duration::from_secs(60), watch).await };
    assert!(node.runtime.block_on(ended).is_ok());
}
