//! A mounted bucket, from the first request to the last.
//!
//! Start: check the bucket with one request, mount, answer the kernel. End: by `umount` from
//! outside, or by a signal; a signal ends the process in bounded time even with open files
//! ([`shutdown::SHUTDOWN_DRAIN`]).

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use mountpoint_client::ObjectClient;
use signal_hook::iterator::Signals;
use tokio::runtime::Runtime;

use super::connect::{Connected, connect};
use super::drain::{DrainTime, End, finish_writes, watch};
use super::metrics::MeasuredParts;
use super::parts::{
    CacheSource, MountParts, clock_for, give_back_idle, new_runtime, not_served, remember,
    session_options, stage, store_id,
};
use super::process::open_files;
use super::process::signals::ENDING;
use super::start_error::StartError;
use super::{FuseTuning, MountConfig, MountTarget, index};
use crate::cache::Caches;
use crate::clock::Clock;
use crate::config::{FsConfig, shutdown};
use crate::fs::FileSystem;
use crate::fuse::{Connection, Mount, MountOptions, Session};
use crate::metrics::trace::measure_by;

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
    ends: Receiver<End>,
    /// The last field, so that the others are dropped before the runtime.
    runtime: Runtime,
}

impl MountedBucket {
    /// Connects to S3, checks the bucket and mounts it; its requests end within `time_max`.
    ///
    /// From then on the signals [`ENDING`] to this process end the mount.
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
        let Connected { client, region } = match connected {
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
        if let (Some(source), Some(shared)) = (&config.shared_cache, &shared) {
            source.check_outside(&runtime, shared, (&*client, prefix), time_max)?;
        }
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
        Self::with(client, runtime, target, parts)
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
        let signals = Signals::new(ENDING)
            .map_err(|error| StartError::new(format!("cannot take signals: {error}")))?;
        let mount = match target {
            MountTarget::Passed(mount) => mount,
            MountTarget::Directory(directory) => crate::fuse::mount(&directory, access)
                .map_err(|error| StartError::new(error.to_string()))?,
        };
        let clock = clock_for(cache.is_some());
        measure_by(&clock);
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
        let options = session_options(tuning, access.read_only, &runtime);
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
        let connection = Connection::of(&mount);
        Ok(Self {
            mount,
            session,
            fs,
            caches,
            connection,
            ends,
            runtime,
        })
    }

    /// The parts that know numbers, for as long as they live.
    pub(super) fn measured_parts(&self) -> MeasuredParts {
        let session = Arc::downgrade(&self.session);
        let waiting = move || {
            let session = session.upgrade();
            session.map_or(0, |session| session.operations_in_progress())
        };
        let session = Arc::downgrade(&self.session);
        let waits = move || {
            let session = session.upgrade();
            session.map_or_else(Default::default, |session| session.count_waits())
        };
        MeasuredParts {
            fs: Arc::downgrade(&self.fs),
            cache: self.caches.disk.as_ref().map(Arc::downgrade),
            waiting: Arc::new(waiting),
            waits: Arc::new(waits),
            connection: self.connection.clone(),
            device: self.mount.device_name(),
            directory: self.mount.directory(),
        }
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
                self.close(shutdown::UPLOAD_DRAIN, Clock::monotonic());
            }
        }
    }

    /// Unmounts and ends.
    ///
    /// With open files the name disappears at once and the files work for
    /// [`shutdown::SHUTDOWN_DRAIN`] more; a second signal cuts that short.
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
        let mut drain = shutdown::SIGNAL_DRAIN;
        let ended = self.ends.recv_timeout(shutdown::SHUTDOWN_DRAIN);
        if ended != Ok(End::Unmounted) {
            if matches!(ended, Ok(End::Signal(_))) {
                drain = Duration::ZERO;
            }
            tracing::warn!("files were still open at the end; their users get errors from now on");
            self.session.abort_pending();
            let aborted = self.connection.as_ref().map(Connection::abort);
            let ended = self.ends.recv_timeout(shutdown::SHUTDOWN_ABORT);
            tracing::debug!(?aborted, ?ended, "connection aborted");
        }
        self.close(drain, clock);
    }

    /// Ends without unmounting, which is up to the process that mounted.
    ///
    /// Operations in progress finish, and programs may close the files that they write, for
    /// [`shutdown::SHUTDOWN_DRAIN`] at most. The kernel ends the connection when this process has
    /// ended.
    fn abandon(self, clock: Clock) {
        tracing::warn!(
            "the mount was passed to this process, which cannot unmount it: its users get errors soon"
        );
        let is_idle = || self.session.operations_in_progress() == 0 && !self.fs.is_writing();
        let ends = || self.ends.recv_timeout(DRAIN_POLL).is_ok();
        while !is_idle() && !ends() {
            if clock.now() >= shutdown::SHUTDOWN_DRAIN {
                tracing::warn!(
                    "files were still open at the end; their users get errors from now on"
                );
                break;
            }
        }
        self.session.abort_pending();
        self.close(shutdown::SIGNAL_DRAIN, clock);
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
            runtime.block_on(shared.drained(shutdown::CACHE_DRAIN));
            tracing::debug!("{shared:?}");
        }
        if let Some(cache) = caches.disk {
            cache.drain(shutdown::CACHE_DRAIN);
            tracing::debug!("{cache:?}");
            cache.close();
        }
        runtime.shutdown_timeout(shutdown::SHUTDOWN_RUNTIME);
    }
}

/// Polling interval of a passed mount that ends.
const DRAIN_POLL: Duration = Duration::from_millis(10);
