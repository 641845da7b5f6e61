//! The parts of a mount, as its start makes them.

use std::path::Path;
use std::sync::{Arc, Weak};

use mountpoint_client::crt_client::{CrtClientOptions, SseCustomerKey};
use tokio::runtime::Runtime;

use super::FuseTuning;
use super::config::cores;
use super::start_error::StartError;
use crate::cache::{Cache, SharedCache, StoreId};
use crate::clock::Clock;
use crate::config::{CacheConfig, FsConfig, StagingConfig, limits, scale};
use crate::fs::FileSystem;
use crate::fuse::{Mount, MountOptions, SessionError, SessionOptions};

/// The clock of a mount. A cache has listings from before this process.
pub(super) fn clock_for(has_cache: bool) -> Clock {
    match has_cache {
        true => Clock::since_boot(),
        false => Clock::monotonic(),
    }
}

/// The parts of a mount, besides its client.
pub(super) struct MountParts<'a> {
    pub(super) cache: Option<CacheSource<'a>>,
    pub(super) shared: Option<Arc<SharedCache>>,
    pub(super) staging: Option<&'a StagingConfig>,
    pub(super) fs: &'a FsConfig,
    pub(super) access: &'a MountOptions,
    pub(super) tuning: FuseTuning,
}

/// A cache that is to be opened.
pub(super) struct CacheSource<'a> {
    pub(super) config: &'a CacheConfig,
    pub(super) store: StoreId,
}

impl CacheSource<'_> {
    /// Opens it. The mount exists already, so that a directory inside is recognised.
    pub(super) fn open(
        self,
        mount: &Mount,
        memory_max: u64,
        clock: &Clock,
    ) -> Result<Arc<Cache>, StartError> {
        let coverage = mount.coverage();
        let is_inside = |path: &Path| coverage.as_ref().is_some_and(|it| it.covers(path));
        Cache::open(
            self.config,
            self.store,
            memory_max,
            &is_inside,
            clock.clone(),
        )
        .map_err(|error| StartError::new(format!("--cache: {error}")))
    }
}

/// Opens the directory of staged files, or ends the mount. It exists already, so that a directory
/// inside is recognised.
pub(super) fn stage(
    fs: &mut FileSystem,
    config: &StagingConfig,
    mount: &Mount,
) -> Result<(), StartError> {
    let coverage = mount.coverage();
    let is_inside = |path: &Path| coverage.as_ref().is_some_and(|it| it.covers(path));
    fs.stage(config, &is_inside).map_err(|error| {
        // Best effort: the user must see why the start failed.
        mount.unmount(true).ok();
        StartError::new(format!("--staging: {error}"))
    })
}

/// The store that a client reads. The bucket of one name is the same at all endpoints of AWS.
///
/// A command that fills a cache for a mount needs the mount's options; a region that was found
/// later, or one of an index, makes no difference.
#[must_use]
pub fn store_id(client: &CrtClientOptions) -> StoreId {
    let key = client.sse_customer_key.as_ref();
    StoreId {
        endpoint: client.endpoint_url.clone().unwrap_or_default(),
        bucket: client.bucket.clone(),
        encryption: key.map(SseCustomerKey::fingerprint).unwrap_or_default(),
    }
}

/// The runtime of timers and control requests.
pub(super) fn new_runtime() -> Result<Runtime, StartError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(scale::runtime_threads(cores()))
        .thread_name("mountpoint-rt")
        .enable_all()
        .build()
        .map_err(|error| StartError::new(format!("cannot start a thread: {error}")))
}

/// The settings of a session.
pub(super) fn session_options(
    tuning: FuseTuning,
    read_only: bool,
    runtime: &Runtime,
) -> SessionOptions {
    SessionOptions {
        threads: tuning.threads,
        transport: tuning.transport,
        clone_descriptors: tuning.clone_descriptors,
        max_background: tuning.max_background,
        congestion_threshold: tuning.congestion_threshold,
        write_max: tuning.write_max,
        passthrough: tuning.passthrough,
        read_only,
        runtime: runtime.handle().clone(),
    }
}

/// The error for a kernel that does not serve the connection.
pub(super) fn not_served(error: &SessionError, is_passed: bool) -> StartError {
    let hint = match error {
        SessionError::Device(_) if is_passed => {
            "; the process that passed the descriptor must have mounted with it, and not unmounted since"
        }
        SessionError::Device(_) | SessionError::Ended | SessionError::TooOld { .. } => "",
    };
    StartError::new(format!("the mount cannot be served: {error}{hint}"))
}

/// Starts the journal and takes over the journals of killed mounts.
///
/// The journal never writes into the mount itself, where a write would wait for itself.
pub(super) fn remember(
    fs: &Arc<FileSystem>,
    mount: &Mount,
    runtime: &Runtime,
) -> Result<(), StartError> {
    let coverage = mount.coverage();
    let is_inside = move |path: &Path| coverage.as_ref().is_some_and(|it| it.covers(path));
    fs.start_journal(is_inside)
        .map_err(|error| StartError::new(format!("cannot start a thread: {error}")))?;
    runtime.spawn(fs.watch_journal());
    let fs = Arc::clone(fs);
    runtime.spawn(async move { fs.recover_uploads().await });
    Ok(())
}

/// Gives back unused memory, for as long as the file system lives.
pub(super) async fn give_back_idle(fs: Weak<FileSystem>) {
    let mut tick = tokio::time::interval(limits::READER_IDLE);
    loop {
        tick.tick().await;
        let Some(fs) = fs.upgrade() else { return };
        fs.give_back_idle();
    }
}
