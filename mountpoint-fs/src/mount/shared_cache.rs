//! The bucket of the shared cache: its client, and the check at the start of a mount.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::crt_client::{CrtClient, CrtClientOptions};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};
use tokio::runtime::{Handle, Runtime};

use super::start_error::{StartError, place};
use crate::cache::{CheckedStep, SharedCache, SharedCacheParts, StoreId};
use crate::clock::Clock;
use crate::config::SharedCacheConfig;

/// A shared cache that is to be opened.
#[derive(Clone, Debug)]
pub struct SharedCacheSource {
    /// The user's choice.
    pub config: SharedCacheConfig,
    /// Settings of the client of its bucket.
    pub client: CrtClientOptions,
}

impl SharedCacheSource {
    /// The shared cache of a mount of the keys below `mounted`, with the client settings `mount`:
    /// the same credentials, network and encryption, another place.
    ///
    /// # Errors
    /// A text for the user.
    pub(super) fn new(
        config: SharedCacheConfig,
        mount: &CrtClientOptions,
        mounted: &str,
    ) -> Result<Self, String> {
        let flag = config.flag;
        let endpoint_url = config.endpoint_url.clone();
        let client = CrtClientOptions {
            bucket: config.bucket.clone(),
            bucket_type: None,
            endpoint_url: endpoint_url.or_else(|| mount.endpoint_url.clone()),
            transfer_acceleration: false,
            requester_pays: false,
            max_attempts: mount.max_attempts.min(ATTEMPTS_MAX),
            request_deadline: mount.request_deadline.min(DEADLINE_MAX),
            part_size_max: mount.part_size_max.max(RANGE_MAX),
            ..mount.clone()
        };
        let is_same_bucket =
            client.bucket == mount.bucket && client.endpoint_url == mount.endpoint_url;
        if is_same_bucket && overlaps(&config, mounted) {
            return Err(format!(
                "{flag} lies within what is mounted: {}",
                remedy(&config)
            ));
        }
        if client.sse_customer_key.is_some() && client.is_directory_bucket() {
            return Err(format!(
                "{flag} cannot be a directory bucket with --sse-customer-key-file: S3 takes no keys of customers there; \
                 name a general purpose bucket with --cache-bucket"
            ));
        }
        Ok(Self { config, client })
    }

    /// Connects to the bucket within `time_max`, and checks it if it answers. `region` is that of
    /// the mounted bucket, where it was found; `store` is the store whose objects are kept, and
    /// `memory_max` the memory for reads.
    ///
    /// # Errors
    /// With a text for the user: the failure and its remedy.
    pub(super) fn open(
        &self,
        runtime: &Runtime,
        region: Option<String>,
        store: StoreId,
        memory_max: u64,
        time_max: Duration,
    ) -> Result<Arc<SharedCache>, StartError> {
        let mut options = self.client.clone();
        if self.config.endpoint_url.is_none() {
            options.region = options.region.or(region);
        }
        let held_max = (memory_max / HELD_MEMORY_SHARE).min(HELD_BYTES_MAX);
        let check_max = CHECK_MAX.min(time_max / 2);
        let purpose = Purpose::Mount {
            store,
            held_max,
            check_max,
        };
        let opening = self.connect(options, runtime.handle(), &purpose);
        runtime
            .block_on(async { tokio::time::timeout(time_max, opening).await })
            .unwrap_or_else(|_| Err(self.too_late(time_max)))
    }

    /// Checks that `cache` does not lie within the keys below `mounted` of the bucket of `mount`,
    /// which may be another name of its bucket: an alias or an ARN.
    ///
    /// # Errors
    /// With a text for the user.
    pub(super) fn check_outside(
        &self,
        runtime: &Runtime,
        cache: &SharedCache,
        (mount, mounted): (&dyn ObjectClient, &str),
        time_max: Duration,
    ) -> Result<(), StartError> {
        if !overlaps(&self.config, mounted) {
            return Ok(());
        }
        let time_max = CHECK_MAX.min(time_max / 2);
        let seen = async { tokio::time::timeout(time_max, cache.is_seen_by(mount)).await };
        // A bucket that does not answer now is not asked again.
        match runtime.block_on(seen) {
            Ok(true) => Err(self.is_inside()),
            Ok(false) | Err(_) => Ok(()),
        }
    }

    fn is_inside(&self) -> StartError {
        StartError::new(format!(
            "{}: bucket '{}' is the mounted one under another name, and lies within what is mounted: {}",
            self.config.flag,
            self.config.bucket,
            remedy(&self.config)
        ))
    }

    /// Whether the bucket can be used, as far as that can be told without a change in it, or with
    /// one. `region` is that of the mounted bucket, `mounted` its client and the prefix, if it
    /// answers.
    ///
    /// # Errors
    /// With a text for the user: the failure and its remedy.
    pub async fn examine(
        &self,
        region: Option<String>,
        mounted: Option<(&dyn ObjectClient, &str)>,
        writes: bool,
    ) -> Result<(), StartError> {
        let mut options = self.client.clone();
        options.region = options.region.or(region);
        let purpose = Purpose::Doctor { writes };
        let runtime = Handle::current();
        let cache = self.connect(options, &runtime, &purpose).await?;
        match mounted {
            Some((mount, prefix)) if overlaps(&self.config, prefix) => {
                // Without a change that is seen only behind the first mount with this cache.
                let is_inside = cache.is_seen_by(mount).await;
                is_inside.then(|| self.is_inside()).map_or(Ok(()), Err)
            }
            _ => Ok(()),
        }
    }

    async fn connect(
        &self,
        mut options: CrtClientOptions,
        runtime: &Handle,
        purpose: &Purpose,
    ) -> Result<Arc<SharedCache>, StartError> {
        let (store, held_max) = match purpose {
            Purpose::Mount {
                store, held_max, ..
            } => (store.clone(), *held_max),
            Purpose::Doctor { .. } => (StoreId::default(), 0),
        };
        for _ in 0..REGIONS_MAX {
            let client = CrtClient::connect(options.clone(), runtime.clone()).await;
            let client = client.map_err(|error| self.explain(&options, None, &error))?;
            let parts = SharedCacheParts {
                client: Arc::new(client) as Arc<dyn ObjectClient>,
                prefix: self.config.prefix.clone(),
                store: store.clone(),
                held_max,
                runtime: runtime.clone(),
                seed: seed(),
            };
            let cache = SharedCache::new(parts, Clock::monotonic());
            let checked = match purpose {
                Purpose::Mount { check_max, .. } => self.check(&cache, *check_max).await,
                Purpose::Doctor { writes: true } => cache.check().await,
                Purpose::Doctor { writes: false } => cache.look().await,
            };
            match checked {
                Ok(()) => return Ok(cache),
                Err((_, error)) if is_elsewhere(&error, &options) => {
                    if let ErrorKind::WrongRegion(region) = error.kind {
                        options.region = region;
                    }
                }
                Err((step, error)) => return Err(self.explain(&options, Some(step), &error)),
            }
        }
        Err(StartError::new(format!(
            "{}: the servers send us from region to region",
            self.config.flag
        )))
    }

    /// Checks the cache of a mount. One that does not answer may do so soon: it is no reason not to
    /// mount.
    async fn check(
        &self,
        cache: &SharedCache,
        time_max: Duration,
    ) -> Result<(), (CheckedStep, ClientError)> {
        let checked = tokio::time::timeout(time_max, cache.check()).await;
        checked.unwrap_or_else(|_| {
            tracing::warn!(
                "{}: bucket '{}'{} did not answer within {time_max:?}; reads go to S3 until it does",
                self.config.flag,
                self.config.bucket,
                place(&self.client),
            );
            Ok(())
        })
    }

    fn too_late(&self, time_max: Duration) -> StartError {
        StartError::new(format!(
            "{}: the S3 server of bucket '{}'{} did not answer within {time_max:?}; check --cache-endpoint-url and the \
             network in between",
            self.config.flag,
            self.config.bucket,
            place(&self.client),
        ))
    }

    fn explain(
        &self,
        options: &CrtClientOptions,
        step: Option<CheckedStep>,
        error: &ClientError,
    ) -> StartError {
        let SharedCacheConfig { flag, bucket, .. } = &self.config;
        let at = place(options);
        let needs = match options.is_directory_bucket() {
            true => "s3express:CreateSession in the mode ReadWrite on the bucket",
            false => "s3:ListBucket on the bucket, s3:GetObject and s3:PutObject on its objects",
        };
        let what = match step {
            Some(CheckedStep::Look) => "read",
            Some(CheckedStep::Store) => "write",
            None => "use",
        };
        StartError::new(match error.kind {
            ErrorKind::NoSuchBucket | ErrorKind::NotFound => format!(
                "{flag}: bucket '{bucket}' does not exist{at}: {error}. Create it, or check its name, --region and \
                 --cache-endpoint-url"
            ),
            ErrorKind::Denied => format!(
                "{flag}: no permission to {what} in bucket '{bucket}'{at}: {error}. The credentials need {needs}; \
                 without s3:ListBucket S3 does not tell what is missing"
            ),
            _ => format!(
                "{flag}: cannot {what} in bucket '{bucket}'{at}: {error}. The cache needs {needs}; check the bucket's \
                 name, --region and --cache-endpoint-url"
            ),
        })
    }
}

/// Whether the objects of the cache and the keys below `mounted` are the same in part, in one
/// bucket.
fn overlaps(config: &SharedCacheConfig, mounted: &str) -> bool {
    let folder = SharedCache::folder(&config.prefix);
    folder.starts_with(mounted) || mounted.starts_with(&folder)
}

fn remedy(config: &SharedCacheConfig) -> String {
    format!(
        "its files would show the cache; name another bucket, or, with --prefix, another prefix by --cache-bucket \
         s3://{}/PREFIX/",
        config.bucket
    )
}

/// Why the bucket is connected to.
enum Purpose {
    /// A mount of the objects of `store`.
    Mount {
        store: StoreId,
        held_max: u64,
        check_max: Duration,
    },
    /// An examination, which writes or not.
    Doctor { writes: bool },
}

/// Whether the bucket is in a region that is known now, and was not before.
fn is_elsewhere(error: &ClientError, options: &CrtClientOptions) -> bool {
    matches!(&error.kind, ErrorKind::WrongRegion(Some(region)) if options.region.as_ref() != Some(region))
}

/// A number that differs from process to process.
fn seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Time for the check at the start of a mount. A bucket that needs longer is too slow for a cache.
const CHECK_MAX: Duration = Duration::from_secs(5);

/// Attempts of a request to the cache: S3 has the bytes, too.
const ATTEMPTS_MAX: u32 = 2;

/// No retry begins later: by then S3 was asked.
const DEADLINE_MAX: Duration = Duration::from_secs(2);

/// Longest range of the cache, which is an extent with its checksums: 10 MiB and a little.
const RANGE_MAX: usize = 16 << 20;

/// Pieces that wait until they are an extent are at most this share of the memory for reads.
const HELD_MEMORY_SHARE: u64 = 8;

/// Most bytes of such pieces: some streams' extents, and eight that are on their way.
const HELD_BYTES_MAX: u64 = 256 << 20;

/// Regions to try: the mount's, and the one that an answer names.
const REGIONS_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::SimOptions;

    use super::*;

    #[track_caller]
    fn check(bucket: &str, prefix: &str, mounted: &str, is_refused: bool) {
        let config = SharedCacheConfig {
            flag: "--cache-bucket",
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            endpoint_url: None,
        };
        let mount = CrtClientOptions::new("data");
        let source = SharedCacheSource::new(config, &mount, mounted);
        assert_eq!(source.is_err(), is_refused, "{source:?}");
        if let Err(text) = source {
            assert!(text.contains("--cache-bucket s3://data/"), "{text}");
        }
    }

    /// The cache of `prefix` in a bucket that is mounted as another one, as `mounted`.
    #[track_caller]
    fn check_alias(prefix: &str, mounted: &str, is_same: bool, is_refused: bool) {
        let runtime = Runtime::new().unwrap();
        let bucket = || Arc::new(SimClient::new(SimOptions::default()));
        let here = bucket();
        let mount: Arc<dyn ObjectClient> = match is_same {
            true => Arc::clone(&here) as _,
            false => bucket(),
        };
        let config = SharedCacheConfig {
            flag: "--cache-bucket",
            bucket: "cache".to_owned(),
            prefix: prefix.to_owned(),
            endpoint_url: None,
        };
        let alias = CrtClientOptions::new("data-s3alias");
        let source = SharedCacheSource::new(config, &alias, mounted).unwrap();
        let parts = SharedCacheParts {
            client: here,
            prefix: prefix.to_owned(),
            store: StoreId::default(),
            held_max: 0,
            runtime: runtime.handle().clone(),
            seed: 1,
        };
        let cache = SharedCache::new(parts, Clock::monotonic());
        runtime.block_on(cache.check()).unwrap();
        let time_max = Duration::from_secs(60);
        let outside = source.check_outside(&runtime, &cache, (&*mount, mounted), time_max);
        assert_eq!(outside.is_err(), is_refused, "{outside:?}");
    }

    #[test]
    fn a_cache_within_what_is_mounted_under_another_name_is_refused() {
        check_alias("", "", true, true);
        check_alias("cache/", "cache/", true, true);
        check_alias("cache/", "train/", true, false);
        check_alias("", "", false, false);
    }

    #[test]
    fn a_cache_within_what_is_mounted_is_refused() {
        check("data", "", "", true);
        check("data", "cache/", "", true);
        check("data", "cache/", "cache/", true);
        check("data", "cache/", "cache/mount-s3-cache/v1/", true);
        check("data", "cache/", "train/", false);
        check("data", "", "train/", false);
        check("other", "", "", false);
    }
}
