//! FUSE with no store behind it: our own session and file system over a client that answers at
//! once.
//!
//! The network is left out. Each byte is still copied once into a block, as a socket would; the
//! bytes are not those of the benchmark's bucket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result};
use bytes::Bytes;
use mountpoint_client::SimClient;
use mountpoint_client::testing::server::synthetic_bytes;
use mountpoint_client::testing::sim::{Content, SimObject, SimOptions};
use mountpoint_client::types::{ETag, Key, ObjectHeaders, StoredChecksum};
use mountpoint_fs::mount::{MountTarget, MountedBucket};

use crate::dataset::{BUCKET, Dataset, FileSet, MIB};
use crate::store_client;

/// The file system alone; the benchmark starts it itself.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FuseLimit {
    /// Where to mount
    directory: PathBuf,
    /// As in the server's data set
    #[arg(long)]
    quick: bool,
}

/// Mounts and serves until the directory is unmounted.
pub(crate) fn run(options: FuseLimit) -> Result<()> {
    let directory = options.directory.to_string_lossy().into_owned();
    let config = store_client::settings(&[BUCKET, &directory, "--foreground"])?;
    let client = SimClient::new(SimOptions::default());
    let block = Bytes::from(synthetic_bytes(0, 0..BLOCK));
    for set in Dataset::new(options.quick).file_sets() {
        insert(&client, set, &block)?;
    }
    let mounted = MountedBucket::over(
        Arc::new(client),
        store_client::runtime()?,
        MountTarget::Directory(options.directory),
        &config.fs,
        &config.access,
        config.fuse,
    )?;
    mounted.serve();
    Ok(())
}

/// Every object repeats one block, small enough for the processor's caches, so that reading it
/// costs little.
const BLOCK: u64 = 4 * MIB;

fn insert(client: &SimClient, set: FileSet, block: &Bytes) -> Result<()> {
    let content = repeated(block, set.size);
    for index in 0..set.count {
        let key = Key::parse(&set.key(index)).context("a key that S3 can store")?;
        client.insert(SimObject {
            etag: ETag::from_header(&format!("\"{:032x}\"", set.seed(index))),
            key,
            content: content.clone(),
            last_modified: SystemTime::UNIX_EPOCH,
            headers: ObjectHeaders::default(),
            restored: false,
            checksum: StoredChecksum::None,
        });
    }
    Ok(())
}

fn repeated(block: &Bytes, size: u64) -> Content {
    let whole = Content::bytes(block.clone());
    let count = size / BLOCK;
    let rest = whole.slice(0..size % BLOCK);
    let blocks = (0..count).map(|_| &whole);
    Content::concat(blocks.chain([&rest]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_has_the_size_it_should() {
        let block = Bytes::from(synthetic_bytes(0, 0..BLOCK));
        for size in [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 5] {
            assert_eq!(repeated(&block, size).size(), size);
        }
    }
}
