//! The start of a mount with a shared cache: permissions, and the place of the cache.
//!
//! Each mount writes one small object at its start. It proves the permission to write, and shows
//! under which names a bucket is seen.

use mountpoint_client::types::{ObjectHeaders, PutCondition, PutRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::format::{absent_key, start_key};
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
pub(super) async fn run(tier: &Tier) -> Result<(), (CheckedStep, CheckFailure)> {
    look(tier).await?;
    let put = PutRequest {
        key: start_key(&tier.prefix).ok_or_else(too_long)?,
        body: format!("{START}{}\n", tier.seed).into(),
        condition: PutCondition::None,
        checksum: None,
        headers: ObjectHeaders {
            content_type: Some("text/plain".to_owned()),
            ..ObjectHeaders::default()
        },
    };
    let put = tier.client.put(put).await;
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

/// Looks at two starts that differ. Mounts that start at the same time are done by then.
const LOOKS_MAX: u32 = 3;

const START: &str = "Mounts with --cache-bucket or --cache-xz keep contents of another bucket beside this object.\n";
