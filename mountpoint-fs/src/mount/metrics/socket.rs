//! The mount's own socket, for `mount-s3 stats`: each connection gets one JSON document, or what it
//! asks for.
//!
//! The socket is in the state directory. If that cannot be used, or its path is too long, the
//! socket has a name of Linux's abstract namespace instead, which is seen in the same container
//! only. Either way only the user of the mount and root get an answer.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;

use super::capture;
use super::http::{CONNECTIONS_MAX, accepted};
use super::unix_socket::{BoundSocket, is_dead, is_permitted};
use crate::metrics::MetricsRegistry;

/// Begin of the names of these sockets, by which they are found.
pub const SOCKET_PREFIX: &str = "mount-s3.stats.";

/// Takes a name for this process, in `directory` if possible.
pub(super) fn bind(directory: Option<&Path>, now: SystemTime) -> io::Result<BoundSocket> {
    // Processes in containers may have the same number.
    let nanos = now
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let name = format!("{SOCKET_PREFIX}{}.{nanos:x}", std::process::id());
    let bound = directory.map(|directory| {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        remove_dead(directory, now);
        BoundSocket::bind(&directory.join(&name))
    });
    match bound {
        Some(Ok(bound)) => return Ok(bound),
        Some(Err(error)) => {
            tracing::debug!(?directory, "no socket in the state directory: {error}");
        }
        None => {}
    }
    BoundSocket::bind_abstract(&name)
}

/// Removes sockets of processes that were killed.
fn remove_dead(directory: &Path, now: SystemTime) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.take(DEAD_MAX) {
        let name = entry.file_name();
        let is_ours = name
            .to_str()
            .is_some_and(|name| name.starts_with(SOCKET_PREFIX));
        let path = entry.path();
        if !is_ours {
            continue;
        }
        // A new one may not listen yet.
        let made = entry.metadata().and_then(|it| it.modified());
        let age = made.ok().and_then(|made| now.duration_since(made).ok());
        if age.is_some_and(|age| age > NEW_FOR) && is_dead(&path) {
            // Another mount may have removed it.
            fs::remove_file(&path).ok();
        }
    }
}

/// Sends what `document` returns to each permitted connection that asks for nothing else, until the
/// future is dropped.
pub(super) async fn serve(
    socket: BoundSocket,
    registry: Arc<MetricsRegistry>,
    document: impl Fn() -> Vec<u8> + Send + Sync + 'static,
) -> io::Result<()> {
    let listener = UnixListener::from_std(socket.listener()?)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let document = Arc::new(document);
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let Some((mut stream, _)) = accepted(listener.accept().await).await else {
            continue;
        };
        if !is_permitted(&stream) {
            continue;
        }
        let (document, registry) = (Arc::clone(&document), Arc::clone(&registry));
        tokio::spawn(async move {
            match capture::first_line(&mut stream).await {
                Ok(request) if request.is_empty() => {
                    let text = document();
                    // A reader that stalls or leaves asks again.
                    drop(tokio::time::timeout(SEND_MAX, stream.write_all(&text)).await);
                }
                Ok(request) => capture::serve(stream, &request, &registry).await,
                Err(error) => tracing::debug!("a connection asked for nothing: {error}"),
            }
            drop(place);
        });
    }
}

/// Longest time to hand out a document, so that a stopped reader takes no place for ever.
const SEND_MAX: Duration = Duration::from_secs(10);
/// Names of a state directory that are looked at, so that a start does not take long.
const DEAD_MAX: usize = 1000;
/// Time for which a socket that refuses connections may be about to listen.
const NEW_FOR: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener as StdUnixListener;

    use super::*;
    use crate::clock::Clock;

    #[test]
    fn sockets_are_private_and_dead_ones_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let now = Clock::monotonic().wall();
        let bound = bind(Some(&state), now).unwrap();
        let names = || {
            let entries = fs::read_dir(&state).unwrap();
            let names = entries.map(|entry| entry.unwrap().path());
            let mut names: Vec<_> = names.collect();
            names.sort();
            names
        };
        let [path] = names().try_into().unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let dead = state.join(format!("{SOCKET_PREFIX}1.2"));
        drop(StdUnixListener::bind(&dead).unwrap());
        fs::write(state.join("uploads"), "").unwrap();
        remove_dead(&state, now);
        assert!(dead.exists(), "it is new");
        remove_dead(&state, now + 2 * NEW_FOR);
        assert!(!dead.exists());
        drop(bound);
        assert_eq!(names(), [state.join("uploads")]);
    }

    #[test]
    fn without_a_usable_directory_the_socket_has_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let long = directory.path().join("d".repeat(120));
        let now = Clock::monotonic().wall();
        for place in [None, Some(file.as_path()), Some(long.as_path())] {
            let bound = bind(place, now).unwrap();
            let address = bound.listener().unwrap().local_addr().unwrap();
            let name = std::os::linux::net::SocketAddrExt::as_abstract_name(&address);
            let name = name.unwrap();
            assert!(name.starts_with(SOCKET_PREFIX.as_bytes()), "{place:?}");
        }
    }
}
