//! How long each step of the end of a mount may take.
//!
//! Kubernetes kills a process after 30 s, systemd after the time in our unit: tests check the sums.

use std::time::Duration;

/// How long SIGTERM waits for operations in progress before it unmounts lazily.
pub const SHUTDOWN_DRAIN: Duration = Duration::from_secs(5);

/// How long an unmount waits for the session's threads after the connection was aborted.
pub const SHUTDOWN_ABORT: Duration = Duration::from_secs(2);

/// How long an unmount after a signal continues to store files that were closed.
///
/// With [`UPLOAD_ABORT`], [`CACHE_DRAIN`], [`SHUTDOWN_RUNTIME`] and 5 s for the client's threads,
/// the process ends within 25 s, whatever S3 does: Kubernetes kills it after 30. Longer uploads
/// need an unmount instead of a signal, see [`UPLOAD_DRAIN`].
pub const SIGNAL_DRAIN: Duration = Duration::from_secs(15);

/// How long an unmount waits for uploads in progress. It aborts the rest.
pub const UPLOAD_DRAIN: Duration = Duration::from_secs(30);

/// How long the end of a mount with `--write-back` waits for uploads, from the signal or the
/// unmount on.
///
/// With [`UPLOAD_ABORT`], [`CACHE_DRAIN`], [`SHUTDOWN_RUNTIME`] and 5 s for the client's threads,
/// the process ends within 30 s, when Kubernetes kills it. A kill loses nothing.
pub const WRITE_BACK_DRAIN: Duration = Duration::from_secs(20);

/// How long an unmount then waits for the aborts.
pub const UPLOAD_ABORT: Duration = Duration::from_secs(3);

/// How long an unmount waits for the cache to store what was read last.
pub const CACHE_DRAIN: Duration = Duration::from_secs(1);

/// How long the process waits at its end for requests that are still in flight.
pub const SHUTDOWN_RUNTIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_waits_for_the_end_of_a_mount_that_is_told_to_end() {
        let files_end = SHUTDOWN_DRAIN + SHUTDOWN_ABORT;
        assert!(files_end < SIGNAL_DRAIN, "no time is left to store files");
        let threads_end = Duration::from_secs(5);
        let taken = SIGNAL_DRAIN + UPLOAD_ABORT + SHUTDOWN_RUNTIME + threads_end;
        assert!(taken < Duration::from_secs(25), "{taken:?}");
        let rest = UPLOAD_ABORT + CACHE_DRAIN + SHUTDOWN_RUNTIME + threads_end;
        let taken = WRITE_BACK_DRAIN + rest;
        assert!(taken <= Duration::from_secs(30), "{taken:?}");
    }

    #[test]
    fn systemd_waits_for_the_end_of_a_mount() {
        let unit = include_str!("../../packaging/mount-s3@.service");
        let mut lines = unit.lines();
        let seconds = lines.find_map(|line| line.strip_prefix("TimeoutStopSec="));
        let given = Duration::from_secs(seconds.unwrap().parse().unwrap());
        let taken = SHUTDOWN_DRAIN + SHUTDOWN_ABORT + UPLOAD_DRAIN + UPLOAD_ABORT;
        assert!(given > taken + SHUTDOWN_RUNTIME, "{given:?}");
    }
}
