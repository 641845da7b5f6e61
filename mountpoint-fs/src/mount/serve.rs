//! A mounted bucket, from the first request to the last.
//!
//! Start: check the bucket with one request, mount, answer the kernel. End: by `umount` from
//! outside, or by a signal; a signal ends the process in bounded time even with open files
//! ([`limits::SHUTDOWN_DRAIN`]).

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use mountpoint_client::ObjectClient;
use mountpoint_client::crt_client::{CrtClientOptions, SseCustomerKey};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::runtime::Runtime;

use super::config::cores;
use super::connect::{Connected, connect};
use super::cost::CostMeter;
use super::drain::{DrainTime, End, finish_writes};
use super::metrics::MeasuredParts;
use super::process::open_files;
use super::start_error::StartError;
use super::{FuseTuning, MountConfig, MountTarget, index};
use crate::cache::{Cache, Caches, SharedCache, StoreId};
use crate::clock::Clock;
use crate::config::{CacheConfig, FsConfig, StagingConfig, limits, scale};
use crate::fs::FileSystem;
use crate::fuse::{Connection, Mount, MountOptions, Session, SessionError, SessionOptions};

/// A bucket that is mounted.
#[derive(Debug)]
pub struct MountedBucket {
    mount: Mount,
    session: Arc<Session>,
    fs: Arc<FileSystem>,
    caches: Caches,
    /// Ends the mount while files are open. `None` if the mount ended during the start, or was
    /// passed to this process.
    connection: Option<Connection>,
    /// The region of AWS whose prices requests have; `None` for other stores.
    billing_region: Option<String>,
    ends: Receiver<End>,
    /// The last field, so that the others are dropped before the runtime.
    runtime: Runtime,
}

impl MountedBucket {
    /// Connects to S3, checks the bucket and mounts it; its requests end within `time_max`.
    ///
    /// From then on SIGINT, SIGTERM and SIGHUP to this process end the mount.
    ///
    /// # Errors
    /// With a text for the user: the failure and its remedy.
    pub fn start(
        config: &MountConfig,
        target: MountTarget,
        time_max: Duration,
    ) -> Result<Self, StartError> {
        target.check()?;
        open_files::raise_limit();
        let mut options = config.client.clone();
        let index = index::open(config, &mut options)?;
        let runtime = new_runtime()?;
        let prefix = &config.fs.prefix;
        let connected = connect(&runtime, &options, prefix, index.as_ref(), time_max);
        let Connected {
            client,
            first_keys,
            region,
            billing_region,
        } = match connected {
            Ok(connected) => connected,
            Err(error) => {
                // No wait: a name lookup may still run, for as long as the resolver likes.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let store = store_id(&config.client);
        let memory_max = config.fs.read.memory_max;
        let shared = config.shared_cache.as_ref();
        let shared = shared
            .map(|shared| shared.open(&runtime, region, store.clone(), memory_max, time_max))
            .transpose()?;
        let cache = config.cache.as_ref().map(|cache| CacheSource {
            config: cache,
            store,
        });
        let parts = MountParts {
            cache,
            shared,
            staging: config.staging.as_ref(),
            fs: &config.fs,
            access: &config.access,
            tuning: config.fuse,
        };
        let mut mounted = Self::with(client, runtime, target, parts)?;
        mounted.billing_region = billing_region;
        mounted.fs.learn(&first_keys);
        Ok(mounted)
    }

    /// Mounts the bucket of an existing client.
    ///
    /// # Errors
    /// With a text for the user: the failure and its remedy.
    pub fn over(
        client: Arc<dyn ObjectClient>,
        runtime: Runtime,
        target: MountTarget,
        fs: &FsConfig,
        access: &MountOptions,
        tuning: FuseTuning,
    ) -> Result<Self, StartError> {
        let parts = MountParts {
            cache: None,
            shared: None,
            staging: None,
            fs,
            access,
            tuning,
        };
        Self::with(client, runtime, target, parts)
    }

    fn with(
        client: Arc<dyn ObjectClient>,
        runtime: Runtime,
        target: MountTarget,
        parts: MountParts<'_>,
    ) -> Result<Self, StartError> {
        let MountParts {
            cache,
            shared,
            staging,
            fs,
            access,
            tuning,
        } = parts;
        // Before the mount exists, so that no signal can leave it behind.
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|error| StartError::new(format!("cannot take signals: {error}")))?;
        let (mount, directory) = match target {
            MountTarget::Passed(mount) => (mount, None),
            MountTarget::Directory(directory) => {
                let mount = crate::fuse::mount(&directory, access)
                    .map_err(|error| StartError::new(error.to_string()))?;
                (mount, Some(directory))
            }
        };
        let clock = clock_for(cache.is_some());
        let cache = match cache {
            None => None,
            Some(source) => match source.open(&mount, fs.read.memory_max, &clock) {
                Ok(cache) => Some(cache),
                Err(error) => {
                    // Best effort: the user must see why the start failed.
                    mount.unmount(true).ok();
                    return Err(error);
                }
            },
        };
        if let Some(cache) = &cache {
            runtime.spawn(cache.watch());
        }
        let caches = Caches {
            disk: cache,
            shared,
        };
        let kept = caches.clone();
        let mut fs = FileSystem::with_caches(client, fs.clone(), kept, clock);
        if let Some(config) = staging {
            stage(&mut fs, config, &mount)?;
        }
        let fs = Arc::new(fs);
        runtime.spawn(give_back_idle(Arc::downgrade(&fs)));
        if !access.read_only {
            remember(&fs, &mount, &runtime)?;
        }
        runtime.spawn(fs.hedge());
        runtime.spawn(fs.relieve_writers());
        let options = SessionOptions {
            has_set_id: fs.has_set_id(),
            ..session_options(tuning, access.read_only, &runtime)
        };
        let session = match Session::start(Arc::clone(&fs), &mount, options) {
            Ok(session) => Arc::new(session),
            Err(error) => {
                // Best effort: the user must see why the start failed.
                mount.unmount(true).ok();
                return Err(not_served(&error, mount.is_passed()));
            }
        };
        let ends = watch(&session, signals)
            .map_err(|error| StartError::new(format!("cannot start a thread: {error}")))?;
        let connection = directory.and_then(|directory| Connection::of(&directory).ok());
        Ok(Self {
            mount,
            session,
            fs,
            caches,
            connection,
            billing_region: None,
            ends,
            runtime,
        })
    }

    /// The parts that know numbers, for as long as they live.
    pub(super) fn measured_parts(&self, costs: CostMeter) -> MeasuredParts {
        let session = Arc::downgrade(&self.session);
        let waiting = move || {
            let session = session.upgrade();
            session.map_or(0, |session| session.operations_in_progress())
        };
        MeasuredParts {
            fs: Arc::downgrade(&self.fs),
            cache: self.caches.disk.as_ref().map(Arc::downgrade),
            waiting: Arc::new(waiting),
            connection: self.connection.clone(),
            costs,
            device: self.mount.device_name(),
            passed_directory: self.mount.passed_directory(),
        }
    }

    /// The region of AWS whose prices requests have; `None` for other stores.
    pub(super) fn billing_region(&self) -> Option<&str> {
        self.billing_region.as_deref()
    }

    /// Whether `path` leads into the mount.
    pub(super) fn covers(&self, path: &Path) -> bool {
        let coverage = self.mount.coverage();
        coverage.is_some_and(|coverage| coverage.covers(path))
    }

    /// Serves until the directory is unmounted or a signal arrives, and ends the mount.
    pub fn serve(self) {
        let end = self.wait();
        self.finish(end);
    }

    /// Serves until the directory is unmounted or a signal arrives.
    pub(super) fn wait(&self) -> End {
        self.ends.recv().unwrap_or(End::Unmounted)
    }

    /// Ends the mount after that event.
    pub(super) fn finish(self, end: End) {
        match end {
            End::Signal(signal) => {
                tracing::info!(signal, "signal received, unmounting");
                self.end();
            }
            End::Unmounted => {
                tracing::info!("unmounted");
                self.close(limits::UPLOAD_DRAIN, Clock::monotonic());
            }
        }
    }

    /// Unmounts and ends.
    ///
    /// With open files the name disappears at once and the files work for
    /// [`limits::SHUTDOWN_DRAIN`] more; a second signal cuts that short.
    pub fn end(self) {
        let clock = Clock::monotonic();
        if let Some(staging) = self.fs.staging() {
            staging.flush();
        }
        if self.mount.is_passed() {
            return self.abandon(clock);
        }
        if let Err(busy) = self.mount.unmount(false) {
            tracing::warn!(
                "files are still open ({busy}): unmounting lazily, they stop working soon"
            );
            if let Err(error) = self.mount.unmount(true) {
                tracing::error!("cannot unmount: {error}; unmount by hand with `umount -l`");
            }
        }
        let mut drain = limits::SIGNAL_DRAIN;
        let ended = self.ends.recv_timeout(limits::SHUTDOWN_DRAIN);
        if ended != Ok(End::Unmounted) {
            if matches!(ended, Ok(End::Signal(_))) {
                drain = Duration::ZERO;
            }
            tracing::warn!("files were still open at the end; their users get errors from now on");
            self.session.abort_pending();
            let aborted = self.connection.as_ref().map(Connection::abort);
            let ended = self.ends.recv_timeout(limits::SHUTDOWN_ABORT);
            tracing::debug!(?aborted, ?ended, "connection aborted");
        }
        self.close(drain, clock);
    }

    /// Ends without unmounting, which is up to the process that mounted.
    ///
    /// Operations in progress finish, and programs may close the files that they write, for
    /// [`limits::SHUTDOWN_DRAIN`] at most. The kernel ends the connection when this process has
    /// ended.
    fn abandon(self, clock: Clock) {
        tracing::warn!(
            "the mount was passed to this process, which cannot unmount it: its users get errors soon"
        );
        let is_idle = || self.session.operations_in_progress() == 0 && !self.fs.is_writing();
        let ends = || self.ends.recv_timeout(DRAIN_POLL).is_ok();
        while !is_idle() && !ends() {
            if clock.now() >= limits::SHUTDOWN_DRAIN {
                tracing::warn!(
                    "files were still open at the end; their users get errors from now on"
                );
                break;
            }
        }
        self.session.abort_pending();
        self.close(limits::SIGNAL_DRAIN, clock);
    }

    /// Ends, after closed files had `drain` to be stored since `clock` began, or the time of
    /// `--drain-timeout`.
    fn close(self, drain: Duration, clock: Clock) {
        let Self {
            mount,
            session,
            fs,
            caches,
            ends,
            runtime,
            ..
        } = self;
        drop(mount);
        finish_writes(&fs, &runtime, &ends, DrainTime { most: drain, clock });
        drop(ends);
        drop((session, fs));
        if let Some(shared) = caches.shared {
            runtime.block_on(shared.drained(limits::CACHE_DRAIN));
            tracing::debug!("{shared:?}");
        }
        if let Some(cache) = caches.disk {
            cache.drain(limits::CACHE_DRAIN);
            tracing::debug!("{cache:?}");
            cache.close();
        }
        runtime.shutdown_timeout(limits::SHUTDOWN_RUNTIME);
    }
}

/// The clock of a mount. A cache has listings from before this process.
fn clock_for(has_cache: bool) -> Clock {
    match has_cache {
        true => Clock::since_boot(),
        false => Clock::monotonic(),
    }
}

/// What a mount is made of, besides its client.
struct MountParts<'a> {
    cache: Option<CacheSource<'a>>,
    shared: Option<Arc<SharedCache>>,
    staging: Option<&'a StagingConfig>,
    fs: &'a FsConfig,
    access: &'a MountOptions,
    tuning: FuseTuning,
}

/// A cache that is to be opened.
struct CacheSource<'a> {
    config: &'a CacheConfig,
    store: StoreId,
}

impl CacheSource<'_> {
    /// Opens it. The mount exists already, so that a directory inside is recognised.
    fn open(self, mount: &Mount, memory_max: u64, clock: &Clock) -> Result<Arc<Cache>, StartError> {
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
fn stage(fs: &mut FileSystem, config: &StagingConfig, mount: &Mount) -> Result<(), StartError> {
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
fn new_runtime() -> Result<Runtime, StartError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(scale::runtime_threads(cores()))
        .thread_name("mountpoint-rt")
        .enable_all()
        .build()
        .map_err(|error| StartError::new(format!("cannot start a thread: {error}")))
}

/// The error for a kernel that does not serve the connection.
fn session_options(tuning: FuseTuning, read_only: bool, runtime: &Runtime) -> SessionOptions {
    SessionOptions {
        threads: tuning.threads,
        transport: tuning.transport,
        ring_threads: tuning.ring_threads,
        clone_descriptors: tuning.clone_descriptors,
        max_background: tuning.max_background,
        congestion_threshold: tuning.congestion_threshold,
        write_max: tuning.write_max,
        passthrough: tuning.passthrough,
        read_only,
        has_set_id: true,
        runtime: runtime.handle().clone(),
    }
}

fn not_served(error: &SessionError, is_passed: bool) -> StartError {
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
fn remember(fs: &Arc<FileSystem>, mount: &Mount, runtime: &Runtime) -> Result<(), StartError> {
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
async fn give_back_idle(fs: Weak<FileSystem>) {
    let mut tick = tokio::time::interval(limits::READER_IDLE);
    loop {
        tick.tick().await;
        let Some(fs) = fs.upgrade() else { return };
        fs.give_back_idle();
    }
}

/// Watches for both events that end a mount, each on a thread of its own.
fn watch(session: &Arc<Session>, mut signals: Signals) -> std::io::Result<Receiver<End>> {
    let (sender, ends) = sync_channel(ENDS_MAX);
    let on_signal: SyncSender<End> = sender.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                // A full channel already holds a signal.
                on_signal.try_send(End::Signal(signal)).ok();
            }
        })?;
    let session = Arc::clone(session);
    thread::Builder::new()
        .name("session-end".to_owned())
        .spawn(move || {
            session.wait();
            // The receiver is gone if a signal ended the mount first.
            sender.send(End::Unmounted).ok();
        })?;
    Ok(ends)
}

/// Events that may wait to be read: a few signals and the unmount.
const ENDS_MAX: usize = 4;

/// Polling interval of a passed mount that ends.
const DRAIN_POLL: Duration = Duration::from_millis(10);
