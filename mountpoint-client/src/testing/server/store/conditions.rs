//! Conditional requests: which conditions hold for the object that is there.

use std::time::SystemTime;

use s3s::dto::{ETagCondition, Timestamp};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use super::object::Object;

/// Conditions on the version that is read or copied from.
#[derive(Debug, Default)]
pub(crate) struct ReadConditions {
    pub(crate) matches: Option<ETagCondition>,
    pub(crate) none_match: Option<ETagCondition>,
    pub(crate) modified_since: Option<Timestamp>,
    pub(crate) unmodified_since: Option<Timestamp>,
}

/// The verdict of the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Proceed,
    NotModified,
    Failed,
}

impl ReadConditions {
    /// A tag decides over a date: If-Match over If-Unmodified-Since, If-None-Match over
    /// If-Modified-Since.
    pub(crate) fn judge(&self, object: &Object) -> Verdict {
        match (&self.matches, &self.unmodified_since) {
            (Some(condition), _) if !names(condition, object) => return Verdict::Failed,
            (None, Some(since)) if is_after(object.modified, since) => return Verdict::Failed,
            _ => {}
        }
        match (&self.none_match, &self.modified_since) {
            (Some(condition), _) if names(condition, object) => Verdict::NotModified,
            (None, Some(since)) if !is_after(object.modified, since) => Verdict::NotModified,
            _ => Verdict::Proceed,
        }
    }

    /// For a copy: there is no "not modified", a condition that does not hold is an error.
    pub(crate) fn require(&self, object: &Object) -> S3Result<()> {
        match self.judge(object) {
            Verdict::Proceed => Ok(()),
            Verdict::NotModified | Verdict::Failed => Err(precondition_failed()),
        }
    }
}

/// Conditions on the object that a write replaces.
#[derive(Debug, Default)]
pub(crate) struct WriteConditions {
    pub(crate) matches: Option<ETagCondition>,
    pub(crate) none_match: Option<ETagCondition>,
}

impl WriteConditions {
    /// Whether a write may replace `current`.
    pub(crate) fn require(&self, current: Option<&Object>) -> S3Result<()> {
        match (&self.matches, current) {
            (Some(_), None) => {
                return Err(s3_error!(NoSuchKey, "The specified key does not exist."));
            }
            (Some(condition), Some(object)) if !names(condition, object) => {
                return Err(precondition_failed());
            }
            _ => {}
        }
        match (&self.none_match, current) {
            (Some(ETagCondition::ETag(_)), _) => Err(s3_error!(
                NotImplemented,
                "A header you provided implies functionality that is not implemented"
            )),
            (Some(ETagCondition::Any), Some(_)) => Err(precondition_failed()),
            _ => Ok(()),
        }
    }
}

fn names(condition: &ETagCondition, object: &Object) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(etag) => etag.value() == object.tag.text(),
    }
}

fn is_after(modified: SystemTime, since: &Timestamp) -> bool {
    Timestamp::from(modified) > *since
}

pub(crate) fn precondition_failed() -> S3Error {
    let message = "At least one of the pre-conditions you specified did not hold";
    S3Error::with_message(S3ErrorCode::PreconditionFailed, message)
}
