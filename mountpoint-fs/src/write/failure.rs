//! The first failure of a file, which is final.

use std::fmt;
use std::sync::Arc;

use crate::operation::FsError;
use crate::sync::Mutex;
use crate::write::types::WriteObserver;

/// The first failure of a file. The lock is a leaf; the observer is told with it free.
pub(in crate::write) struct Failure {
    first: Mutex<Option<FsError>>,
    observer: Arc<dyn WriteObserver>,
}

impl Failure {
    pub(in crate::write) fn new(observer: &Arc<dyn WriteObserver>) -> Self {
        Self {
            first: Mutex::default(),
            observer: Arc::clone(observer),
        }
    }

    /// Remembers `error`, and tells of it, if it is the first.
    pub(in crate::write) fn set(&self, error: &FsError) {
        let is_first = {
            let mut first = self.first.lock();
            let is_first = first.is_none();
            first.get_or_insert_with(|| error.clone());
            is_first
        };
        if is_first {
            self.observer.failed(error);
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
