//! Puts a local file into the bucket. A process of its own, because it needs the environment of a
//! mount.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::store_client::{StoreClient, put};

/// A file to put; the benchmark starts this itself.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PutFile {
    /// Address of the server
    url: String,
    /// The bucket
    bucket: String,
    /// Where it goes
    key: String,
    /// The bytes to store
    file: PathBuf,
}

pub(crate) fn run(options: &PutFile) -> Result<()> {
    let bytes = fs::read(&options.file).with_context(|| options.file.display().to_string())?;
    let store = StoreClient::connect(&options.url, &options.bucket)?;
    store.block_on(put(&store.client, &options.key, bytes.into()))
}
