//! A mounted bucket, from the first request to the last.
//!
//! Start: check the bucket with one request, mount, answer the kernel. End: by `umount` from outside, or by a
//! signal; a signal ends the process in bounded time even with open files ([`limits::SHUTDOWN_DRAIN`]).

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;

use mountpoint_client::crt_client::CrtClient;
use mountpoint_client::types::ListRequest;
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::runtime::Runtime;

use super::start_error::{StartError, explain};
use super::{FuseTuning, MountConfig};
use crate::clock::Clock;
use crate::config::{FsConfig, limits};
use crate::fs::FileSystem;
use crate::fuse::{Connection, Mount, MountOptions, Session, SessionOptions};

/// What ends a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Somebody unmounted the directory.
    Unmounted,
    /// This process was told to end.
    Signal(i32),
}

/// A bucket that is mounted.
#[derive(Debug)]
pub struct MountedBucket {
    mount: Mount,
    session: Arc<Session>,
    /// To end it when users keep files open; `None` if the mount ended while it began.
    connection: Option<Connection>,
    ends: Receiver<End>,
    /// Last, so that everything above is gone before the runtime is.
    runtime: Runtime,
}

impl MountedBucket {
    /// Connects to S3, checks the bucket and mounts it. The process's SIGINT, SIGTERM and SIGHUP end the mount.
    ///
    /// # Errors
    /// With a text for the user: what failed and what to do.
    pub fn start(config: &MountConfig) -> Result<Self, StartError> {
        check_directory(&config.directory)?;
        let runtime = new_runtime()?;
        let client = connect(&runtime, config)?;
        let mounted = Self::over(
            client,
            runtime,
            &config.directory,
            &config.fs,
            &config.access,
            config.fuse,
        )?;
        Ok(mounted)
    }

    /// Mounts the bucket of a client that is there already.
    ///
    /// # Errors
    /// With a text for the user: what failed and what to do.
    pub fn over(
        client: Arc<dyn ObjectClient>,
        runtime: Runtime,
        directory: &Path,
        fs: &FsConfig,
        access: &MountOptions,
        tuning: FuseTuning,
    ) -> Result<Self, StartError> {
        check_directory(directory)?;
        let fs = Arc::new(FileSystem::new(client, fs.clone(), Clock::monotonic()));
        let mount = crate::fuse::mount(directory, access)
            .map_err(|error| StartError::new(error.to_string()))?;
        runtime.spawn(give_back_idle(Arc::downgrade(&fs)));
        let options = SessionOptions {
            threads: tuning.threads,
            clone_descriptors: tuning.clone_descriptors,
            max_background: tuning.max_background,
            congestion_threshold: tuning.congestion_threshold,
            read_only: access.read_only,
            runtime: runtime.handle().clone(),
        };
        let session = match Session::start(fs, &mount, options) {
            Ok(session) => Arc::new(session),
            Err(error) => {
                // Best effort: the reason why it could not start is what the user must see.
                mount.unmount(true).ok();
                return Err(StartError::new(format!(
                    "the kernel refused the mount: {error}"
                )));
            }
        };
        let ends = watch(&session)
            .map_err(|error| StartError::new(format!("cannot start a thread: {error}")))?;
        let connection = Connection::of(directory).ok();
        Ok(Self {
            mount,
            session,
            connection,
            ends,
            runtime,
        })
    }

    /// Serves until the directory is unmounted or the process is told to end.
    pub fn serve(self) {
        match self.ends.recv() {
            Ok(End::Signal(signal)) => {
                tracing::info!(signal, "told to end, unmounting");
                self.end();
            }
            Ok(End::Unmounted) | Err(_) => {
                tracing::info!("unmounted");
                self.close();
            }
        }
    }

    /// Unmounts and ends. With open files the name disappears at once and the files work for
    /// [`limits::SHUTDOWN_DRAIN`] more; a second signal cuts that short.
    pub fn end(self) {
        if let Err(busy) = self.mount.unmount(false) {
            tracing::warn!(
                "files are still open ({busy}): unmounting lazily, they end in a moment"
            );
            if let Err(error) = self.mount.unmount(true) {
                tracing::error!("cannot unmount: {error}; unmount by hand with `umount -l`");
            }
        }
        if self.ends.recv_timeout(limits::SHUTDOWN_DRAIN) != Ok(End::Unmounted) {
            tracing::warn!("files were open to the end; their users get an error from now on");
            self.session.abort_pending();
            let aborted = self.connection.as_ref().map(Connection::abort);
            let ended = self.ends.recv_timeout(limits::SHUTDOWN_ABORT);
            tracing::debug!(?aborted, ?ended, "connection aborted");
        }
        self.close();
    }

    fn close(self) {
        let Self {
            mount,
            session,
            ends,
            runtime,
            ..
        } = self;
        drop((mount, ends));
        drop(session);
        runtime.shutdown_timeout(limits::SHUTDOWN_RUNTIME);
    }
}

/// The runtime of timers and control requests. Two workers: what they do is short.
fn new_runtime() -> Result<Runtime, StartError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("mountpoint-rt")
        .enable_all()
        .build()
        .map_err(|error| StartError::new(format!("cannot start a thread: {error}")))
}

/// A client of the bucket, after one request that proves that the bucket can be listed. A region that nobody named
/// is corrected once.
fn connect(runtime: &Runtime, config: &MountConfig) -> Result<Arc<dyn ObjectClient>, StartError> {
    let mut options = config.client.clone();
    let explained = |options: &_, error: &ClientError| explain(options, &config.fs.prefix, error);
    for _ in 0..2 {
        let client = runtime
            .block_on(CrtClient::connect(
                options.clone(),
                runtime.handle().clone(),
            ))
            .map_err(|error| explained(&options, &error))?;
        let list = ListRequest {
            prefix: config.fs.prefix.clone(),
            max_keys: Some(1),
            ..ListRequest::default()
        };
        match runtime.block_on(client.list(list)) {
            Ok(_) => return Ok(Arc::new(client)),
            Err(ClientError {
                kind: ErrorKind::WrongRegion(Some(region)),
                ..
            }) if options.region.is_none() => {
                tracing::warn!(
                    "the bucket is in {region}; give --region {region} to save a request at start"
                );
                options.region = Some(region);
            }
            Err(error) => return Err(explained(&options, &error)),
        }
    }
    Err(StartError::new(
        "the servers send us from region to region; name the bucket's with --region".to_owned(),
    ))
}

/// Gives back memory that nobody uses, for as long as the file system lives.
async fn give_back_idle(fs: Weak<FileSystem>) {
    let mut tick = tokio::time::interval(limits::READER_IDLE);
    loop {
        tick.tick().await;
        let Some(fs) = fs.upgrade() else { return };
        fs.give_back_idle();
    }
}

fn check_directory(directory: &Path) -> Result<(), StartError> {
    let shown = directory.display();
    match std::fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(StartError::new(format!(
            "the mount point {shown} is not a directory"
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(StartError::new(
            format!("the mount point {shown} does not exist; make it with `mkdir -p {shown}`"),
        )),
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {
            Err(StartError::new(format!(
                "the mount point {shown} holds a dead mount (its process is gone); clean up with `umount -l {shown}`"
            )))
        }
        Err(error) => Err(StartError::new(format!(
            "cannot use the mount point {shown}: {error}"
        ))),
    }
}

/// Watches for both ends of a mount, each on a thread of its own.
fn watch(session: &Arc<Session>) -> std::io::Result<Receiver<End>> {
    let (sender, ends) = sync_channel(ENDS_MAX);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let on_signal: SyncSender<End> = sender.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                // A full channel has a signal in it already.
                on_signal.try_send(End::Signal(signal)).ok();
            }
        })?;
    let session = Arc::clone(session);
    thread::Builder::new()
        .name("session-end".to_owned())
        .spawn(move || {
            session.wait();
            // Nobody listens when a signal ended the mount first.
            sender.send(End::Unmounted).ok();
        })?;
    Ok(ends)
}

/// Ends that may wait to be read: a few signals and the unmount.
const ENDS_MAX: usize = 4;
