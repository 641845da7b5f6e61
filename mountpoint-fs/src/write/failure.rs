//! The first failure of an upload, which is final, and the errors that applications see.

use mountpoint_client::types::{Key, PutCondition};
use mountpoint_client::{ClientError, ErrorKind};

use crate::operation::FsError;
use crate::sync::Mutex;

/// The first failure of an upload. A leaf.
#[derive(Debug, Default)]
pub(in crate::write) struct Failure(Mutex<Option<FsError>>);

impl Failure {
    /// Remembers `error` if it is the first.
    pub(in crate::write) fn set(&self, error: &FsError) {
        self.0.lock().get_or_insert_with(|| error.clone());
    }

    pub(in crate::write) fn get(&self) -> Option<FsError> {
        self.0.lock().clone()
    }
}

/// The application's error for an object that was not made under `condition`.
pub(in crate::write) fn not_made(
    error: ClientError,
    condition: &PutCondition,
    key: &Key,
) -> FsError {
    match (condition, &error.kind) {
        (PutCondition::Match(_), ErrorKind::PreconditionFailed | ErrorKind::NotFound) => {
            FsError::Stale(format!(
                "{key} was changed by another client while it was written: {error}"
            ))
        }
        // A new object needs none that is there: whoever says so tells of no other client.
        (PutCondition::Absent | PutCondition::None, ErrorKind::NotFound) => FsError::Client(error),
        _ => failed(error),
    }
}

/// The application's error for a failed upload, with the permissions that would help.
pub(in crate::write) fn failed(error: ClientError) -> FsError {
    match error.kind {
        ErrorKind::PreconditionFailed => FsError::Exists,
        ErrorKind::NotFound => FsError::Stale(error.to_string()),
        ErrorKind::Denied => FsError::Denied(format!(
            "{error}; writing needs s3:PutObject and s3:AbortMultipartUpload on the bucket's objects, and \
             kms:GenerateDataKey where they are encrypted with a KMS key"
        )),
        _ => FsError::from(error),
    }
}
