//! The first failure of a file, which is final, and the errors that applications see.

use std::fmt;
use std::sync::Arc;

use mountpoint_client::types::{Key, PutCondition};
use mountpoint_client::{ClientError, ErrorKind};

use crate::operation::FsError;
use crate::sync::Mutex;
use crate::write::types::WriteObserver;

/// The first failure of a file. The lock is a leaf; the observer is called without it.
pub(in crate::write) struct Failure {
    first: Mutex<Option<FsError>>,
    /// `None` if the caller of each step is told.
    observer: Option<Arc<dyn WriteObserver>>,
}

impl Failure {
    pub(in crate::write) fn new(observer: &Arc<dyn WriteObserver>) -> Self {
        Self {
            first: Mutex::default(),
            observer: Some(Arc::clone(observer)),
        }
    }

    /// A failure that only the caller of each step is told.
    pub(in crate::write) fn unobserved() -> Self {
        Self {
            first: Mutex::default(),
            observer: None,
        }
    }

    /// Remembers `error`, and reports it, if it is the first.
    pub(in crate::write) fn set(&self, error: &FsError) {
        let is_first = {
            let mut first = self.first.lock();
            let is_first = first.is_none();
            first.get_or_insert_with(|| error.clone());
            is_first
        };
        if let Some(observer) = self.observer.as_ref().filter(|_| is_first) {
            observer.failed(error);
        }
    }

    pub(in crate::write) fn get(&self) -> Option<FsError> {
        self.first.lock().clone()
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Failure").field(&self.first).finish()
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
