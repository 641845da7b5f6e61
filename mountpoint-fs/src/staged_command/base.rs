//! Bytes of the version that a kept one is based on, from the bucket.

use std::ops::Range;

use mountpoint_client::types::{ETag, Key};
use tokio::runtime::Runtime;

use super::arguments::ExportArguments;
use crate::cache::Caches;
use crate::cli::BucketArg;
use crate::clock::Clock;
use crate::config::ReadConfig;
use crate::file::kept::Description;
use crate::mount::{Environment, connect_helper, store_options};
use crate::operation::FsError;
use crate::read::{ReadContext, Reader};

/// The base of a kept version.
#[derive(Debug)]
pub(super) struct BaseBytes {
    runtime: Runtime,
    reader: Reader,
}

impl BaseBytes {
    /// Connects to the bucket of the version, by the flags and the environment.
    ///
    /// # Errors
    /// A text for the user.
    pub(super) fn connect(
        arguments: &ExportArguments,
        description: &Description,
    ) -> Result<Self, String> {
        let base = description
            .base
            .as_ref()
            .ok_or("the version has bytes of no base: its description is damaged")?;
        let key = Key::parse(&description.key).ok_or("its key is no key of S3")?;
        let bucket: BucketArg = description
            .bucket
            .parse()
            .map_err(|error| format!("{error}"))?;
        let environment = Environment::read()?;
        let mut flags = arguments.store.clone();
        if flags.bucket.endpoint_url.is_none() && !description.endpoint.is_empty() {
            flags.bucket.endpoint_url = Some(description.endpoint.clone());
        }
        let options = store_options(&bucket, &flags, &environment)?;
        let prefix = flags.bucket.prefix.as_deref().unwrap_or_default();
        let (runtime, connected) = connect_helper(&environment, &options, prefix, None)?;
        let config = ReadConfig::default();
        let context = ReadContext::new(
            connected.client,
            config,
            Caches::default(),
            Clock::monotonic(),
        );
        let etag = ETag::from_header(&base.etag);
        let reader = Reader::new(&context, key, etag, base.size);
        Ok(Self { runtime, reader })
    }

    /// The bytes of `range`.
    ///
    /// # Errors
    /// A text for the user.
    pub(super) fn fetch(&self, range: &Range<u64>) -> Result<Vec<u8>, String> {
        let len = u32::try_from(range.end - range.start).map_err(|error| error.to_string())?;
        let data = self.runtime.block_on(self.reader.read(range.start, len));
        match data {
            Ok(data) if data.len() as u64 == range.end - range.start => Ok(data.to_vec()),
            Ok(_) => Err(gone(range, "it is shorter")),
            Err(FsError::Stale(error)) => Err(gone(range, &error)),
            Err(FsError::NotFound) => Err(gone(range, "there is no object of the key")),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn gone(range: &Range<u64>, why: &str) -> String {
    format!(
        "bytes {}..{} were never fetched, and the bucket does not have that version any more ({why}); --local-only writes \
         the bytes that are here",
        range.start, range.end
    )
}
