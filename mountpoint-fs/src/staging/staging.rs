//! The staging of one mount.

use std::path::Path;
use std::sync::Arc;

use mountpoint_client::types::{Key, ObjectHeaders};

use super::context::StagingContext;
use super::directory::{Holder, StagingDirectory};
use super::file::{StagedBase, StagedFile};
use crate::clock::Clock;
use crate::config::StagingConfig;
use crate::operation::Progress;
use crate::read::ReadContext;
use crate::write::{WriteContext, WriteObserver};

/// Files that are written in place, on a local disk. Made once per mount.
#[derive(Debug)]
pub struct Staging {
    context: Arc<StagingContext>,
}

impl Staging {
    /// Opens the directory of `config`, which no other process may use. `is_inside` tells whether a
    /// path is in the mount itself. Blocks.
    ///
    /// # Errors
    /// A text for the user.
    pub fn open(
        config: &StagingConfig,
        reading: &Arc<ReadContext>,
        writing: &Arc<WriteContext>,
        is_inside: &dyn Fn(&Path) -> bool,
        clock: Clock,
    ) -> Result<Arc<Self>, String> {
        let holder = Holder {
            pid: std::process::id(),
            bucket: config.bucket.clone(),
            mount_point: config.mount_point.clone(),
        };
        let directory = StagingDirectory::open(&config.directory, &holder, is_inside)
            .map_err(|error| error.to_string())?;
        let context = StagingContext::new(config, directory, reading, writing, clock)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Arc::new(Self { context }))
    }

    /// A file at `key`. Nothing is sent or made before its first change.
    #[must_use]
    pub fn file(
        &self,
        key: Key,
        base: StagedBase,
        headers: ObjectHeaders,
        progress: Arc<Progress>,
        observer: Arc<dyn WriteObserver>,
    ) -> Arc<StagedFile> {
        StagedFile::new(&self.context, (key, base), headers, progress, observer)
    }

    /// The shared state of its files.
    #[cfg(test)]
    pub(super) fn context(&self) -> &StagingContext {
        &self.context
    }

    /// The headers of a new object at `key`.
    #[must_use]
    pub fn headers_of_new(&self, key: &Key) -> ObjectHeaders {
        self.context.writing.headers(key)
    }
}
