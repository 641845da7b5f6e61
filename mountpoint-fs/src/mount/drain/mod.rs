//! Written files at the end of a mount: closed ones are stored, or made durable and uploaded for a
//! while; what stays is told.
//!
//! Runs on the thread that ends the mount.

mod ends;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::HumanBytes;
use tokio::runtime::Runtime;
use tokio::time::timeout;

pub(super) use self::ends::{End, watch};
use crate::clock::Clock;
use crate::config::shutdown;
use crate::file::{PendingUploads, Staging};
use crate::fs::FileSystem;

/// The time that closed files have to be stored.
#[derive(Debug)]
pub(super) struct DrainTime {
    /// All of it; zero if another signal has ended the wait.
    pub(super) most: Duration,
    /// Begins with the end of the mount.
    pub(super) clock: Clock,
}

impl DrainTime {
    /// The rest of `most`.
    fn left(&self, most: Duration) -> Duration {
        most.saturating_sub(self.clock.now())
    }
}

/// Stores closed files, and gives up open ones.
pub(super) fn finish_writes(
    fs: &FileSystem,
    runtime: &Runtime,
    ends: &Receiver<End>,
    time: DrainTime,
) {
    let time_left = match fs.staging() {
        Some(staging) => finish_staged(fs, &staging, runtime, (ends, &time)),
        None => Some(time.left(time.most)),
    };
    runtime.block_on(async {
        if let Some(left) = time_left
            && timeout(left, fs.drained()).await.is_err()
        {
            tracing::error!(
                "files that were closed were not stored within {:?}: they are given up",
                time.most
            );
        }
        let given_up = async {
            tokio::join!(fs.keep_staged(), fs.abandon_uploads());
            if let Some(staging) = fs.staging() {
                staging.end_journal().await;
            }
        };
        if timeout(shutdown::UPLOAD_ABORT, given_up).await.is_err() {
            tracing::error!(
                "unfinished uploads were not aborted within {:?}: the next mount does that",
                shutdown::UPLOAD_ABORT
            );
        }
    });
}

/// Stores staged files, or makes them durable and uploads what waits for that. Returns the time
/// that work in progress has, if it is to be awaited.
fn finish_staged(
    fs: &FileSystem,
    staging: &Arc<Staging>,
    runtime: &Runtime,
    (ends, time): (&Receiver<End>, &DrainTime),
) -> Option<Duration> {
    let write_back = staging.config().write_back;
    let commit_max = match write_back {
        Some(_) => shutdown::SIGNAL_DRAIN,
        None => time.left(time.most),
    };
    let committed = runtime.block_on(async { timeout(commit_max, fs.commit_staged()).await });
    if committed.is_err() {
        tracing::error!("open files were not stored within {commit_max:?}");
    }
    let drain_max = match write_back {
        Some(write_back) if !time.most.is_zero() => write_back.drain_timeout,
        _ => time.most,
    };
    let is_drained = drain_staged(staging, runtime, ends, time.left(drain_max));
    staging.stop_uploads();
    is_drained.then(|| time.left(time.most).max(shutdown::UPLOAD_ABORT))
}

/// Uploads what waits, for at most `time`, or until another signal comes. Returns whether the
/// bucket has all of it.
fn drain_staged(
    staging: &Arc<Staging>,
    runtime: &Runtime,
    ends: &Receiver<End>,
    time: Duration,
) -> bool {
    let pending = staging.pending();
    if !pending.is_empty() && !time.is_zero() {
        tracing::warn!(
            "uploading {}, for at most {} s; another signal ends the wait",
            described(&pending),
            time.as_secs()
        );
        wait(staging, runtime, ends, time);
    }
    let left = staging.pending();
    if !left.is_empty() {
        let place = staging.config().directory.display();
        let bucket = &staging.config().bucket;
        tracing::warn!(
            "{} not uploaded: the next mount of {bucket} with --staging {place} goes on with that; \
             `mount-s3 staged list {place}` shows it",
            described(&left)
        );
    }
    left.is_empty()
}

/// Waits for uploads, and tells how far they are.
fn wait(staging: &Arc<Staging>, runtime: &Runtime, ends: &Receiver<End>, time: Duration) {
    let clock = Clock::monotonic();
    let drained = Arc::clone(staging);
    let draining = runtime.spawn(async move { drained.drain(time).await });
    let mut told_at = Duration::ZERO;
    while !draining.is_finished() {
        match ends.recv_timeout(POLL) {
            Ok(End::Signal(signal)) => {
                tracing::warn!(signal, "the wait for uploads is ended");
                draining.abort();
                return;
            }
            Ok(End::Unmounted) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL),
        }
        if clock.now() >= told_at + PROGRESS {
            told_at = clock.now();
            tracing::warn!("{} still to be uploaded", described(&staging.pending()));
        }
    }
}

/// Files and bytes.
fn described(pending: &PendingUploads) -> String {
    let files = match pending.count {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    format!("{files} ({})", HumanBytes(pending.bytes))
}

/// Interval of the looks whether the uploads are done, or a signal has come.
const POLL: Duration = Duration::from_millis(50);

/// Interval of lines that tell how far the uploads are.
const PROGRESS: Duration = Duration::from_secs(5);
