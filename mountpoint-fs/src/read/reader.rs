//! One open file's reads.

use std::sync::Arc;

use mountpoint_client::ObjectClient;
use mountpoint_client::types::{ETag, Key};

use crate::clock::Clock;
use crate::config::ReadConfig;
use crate::fs::{FsError, ReadData};

/// What all readers of a mount share: client, block pool, memory budget, settings.
#[derive(Debug)]
pub struct ReadContext {
    client: Arc<dyn ObjectClient>,
    config: ReadConfig,
    clock: Clock,
}

impl ReadContext {
    /// Made once per mount.
    #[must_use]
    pub fn new(client: Arc<dyn ObjectClient>, config: ReadConfig, clock: Clock) -> Arc<Self> {
        Arc::new(Self { client, config, clock })
    }
}

/// Reads one version of one object. Any number of reads may be in progress at once.
#[derive(Debug)]
pub struct Reader {
    context: Arc<ReadContext>,
    key: Key,
    etag: ETag,
    size: u64,
}

impl Reader {
    /// A reader of the version `etag` of `key`, which is `size` bytes long. Sends no request yet.
    #[must_use]
    pub fn new(context: Arc<ReadContext>, key: Key, etag: ETag, size: u64) -> Self {
        Self { context, key, etag, size }
    }

    /// Bytes `offset..offset + size`, cut at the end of the object.
    pub async fn read(&self, offset: u64, size: u32) -> Result<ReadData, FsError> {
        let _ = (offset, size, &self.context.client, &self.context.config, &self.context.clock);
        let _ = (&self.key, &self.etag, self.size);
        Err(FsError::BadHandle)
    }
}
