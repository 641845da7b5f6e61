//! The start of a mount with a shared cache: permissions, and signs of other mounts.
//!
//! Each mount writes one small object at its start. It proves the permission to write; and a mount
//! that finds it young, of another machine, or changed, knows of others that start too.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use mountpoint_client::types::{ETag, ObjectDetails, ObjectHeaders, PutCondition, PutRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::format::{absent_key, start_key};
use super::policy::SEEN_FOR;
use super::tier::Tier;

/// The step of a check that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckedStep {
    /// HeadObject of an object that is not there.
    Look,
    /// PutObject.
    Store,
}

/// Why a step failed.
pub type CheckFailure = ClientError;

/// Proves that the bucket can be read and written.
pub(super) async fn run(tier: &Arc<Tier>, node: &str) -> Result<(), (CheckedStep, CheckFailure)> {
    let start = start_key(&tier.prefix).ok_or_else(too_long)?;
    let looks = futures::future::join(look(tier), tier.client.head_details(&start));
    let (looked, before) = looks.await;
    looked?;
    if before.is_ok_and(|before| is_of_another(&before, node, tier.clock.wall())) {
        tier.policy(|policy, now| policy.fleet.saw_others(now));
    }
    let put = PutRequest {
        key: start,
        body: format!("{START}{}\n", tier.seed).into(),
        condition: PutCondition::None,
        checksum: None,
        headers: ObjectHeaders {
            content_type: Some("text/plain".to_owned()),
            metadata: vec![(NODE.to_owned(), node.to_owned())],
            ..ObjectHeaders::default()
        },
    };
    let put = tier.client.put(put).await;
    if let Ok(output) = &put {
        *tier.started_as.lock() = Some(output.etag.clone());
    }
    bearable(put.map(drop)).map_err(|error| (CheckedStep::Store, error))
}

/// Whether the client `other` sees the same bucket: under another name it has the same start.
pub(super) async fn is_seen_by(tier: &Tier, other: &dyn ObjectClient) -> bool {
    let Some(start) = start_key(&tier.prefix) else {
        return false;
    };
    for _ in 0..LOOKS_MAX {
        let looks = futures::future::join(tier.client.head(&start), other.head(&start));
        let (Ok(here), Ok(there)) = looks.await else {
            return false;
        };
        if here.etag.matches(&there.etag) && here.last_modified == there.last_modified {
            return true;
        }
        // Another mount may have started between the two answers.
    }
    false
}

/// Proves that the bucket tells what it does not have.
pub(super) async fn look(tier: &Tier) -> Result<(), (CheckedStep, CheckFailure)> {
    let absent = absent_key(&tier.prefix).ok_or_else(too_long)?;
    let looked = tier.client.head(&absent).await;
    bearable(looked.map(drop)).map_err(|error| (CheckedStep::Look, error))
}

fn too_long() -> (CheckedStep, CheckFailure) {
    let what = "the prefix of the cache is too long";
    let error = ClientError::new(ErrorKind::InvalidRequest, what);
    (CheckedStep::Look, error)
}

/// A server that is busy now may be better soon: that is not worth a mount.
fn bearable(outcome: Result<(), ClientError>) -> Result<(), ClientError> {
    match outcome {
        Err(error) if matches!(error.kind, ErrorKind::Throttled | ErrorKind::Transient) => {
            tracing::warn!("the shared cache was not checked: {error}");
            Ok(())
        }
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Whether another machine has mounted of late.
fn is_of_another(start: &ObjectDetails, node: &str, now: SystemTime) -> bool {
    let age = now.duration_since(start.info.last_modified);
    let is_ours = |(name, value): &(String, String)| name == NODE && value == node;
    age.unwrap_or_default() < SEEN_FOR && !start.headers.metadata.iter().any(is_ours)
}

/// Looks a few times whether the object of the start is still ours.
pub(super) async fn watch(tier: Weak<Tier>) {
    for wait in WATCH {
        tokio::time::sleep(wait).await;
        let Some(tier) = tier.upgrade() else { return };
        let Some(ours) = tier.started_as.lock().clone() else {
            return;
        };
        if tier.is_start_of_another(&ours).await {
            tier.policy(|policy, now| policy.fleet.saw_others(now));
            return;
        }
    }
}

impl Tier {
    async fn is_start_of_another(&self, ours: &ETag) -> bool {
        let Some(key) = start_key(&self.prefix) else {
            return false;
        };
        let now = self.client.head(&key).await;
        now.is_ok_and(|now| !now.etag.matches(ours))
    }
}

/// Looks at two starts that differ. Mounts that start at the same time are done by then.
const LOOKS_MAX: u32 = 3;

/// Metadata that names the machine.
const NODE: &str = "node";

const START: &str = "Mounts with --cache-bucket or --cache-xz keep contents of another bucket beside this object.\n";

/// Times between looks for other mounts: a job that starts everywhere does so within seconds.
const WATCH: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(25),
];
