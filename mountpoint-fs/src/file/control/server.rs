//! The mount's side: answers one request at a time.
//!
//! The thread `staged-control` ends with the value.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};

use super::messages::{ControlRequest, DamagedFiles, PendingReport};
use crate::file::queue::{PendingUploads, UploadQueue};
use crate::local_disk::{Disk as _, Folder};

/// Answers as long as it lives.
#[derive(Debug)]
pub(in crate::file) struct ControlServer {
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Answers for `queue` at the socket of `folder`, which this process has locked; without a
    /// queue nothing is pending. All that an earlier process has left is in both.
    pub(in crate::file) fn start(
        folder: &Folder,
        queue: Option<Arc<UploadQueue>>,
        damaged: DamagedFiles,
    ) -> io::Result<Self> {
        folder.remove(SOCKET)?;
        let listener = Arc::new(UnixListener::bind(socket_path(folder, SOCKET))?);
        let serving = Arc::clone(&listener);
        let thread = thread::Builder::new()
            .name("staged-control".to_owned())
            .spawn(move || {
                for stream in serving.incoming() {
                    match stream.and_then(|stream| answer(&stream, queue.as_deref(), &damaged)) {
                        Ok(()) => {}
                        // The end has shut the socket down.
                        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                        Err(error) => {
                            tracing::debug!("`mount-s3 staged` got no answer: {error}");
                            // Descriptors may be short.
                            thread::sleep(FAILURE_PAUSE);
                        }
                    }
                }
            })?;
        Ok(Self {
            listener,
            thread: Some(thread),
        })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let ended = shutdown(self.listener.as_fd().as_raw_fd(), Shutdown::Both);
        if let Some(thread) = self.thread.take().filter(|_| ended.is_ok())
            && thread.join().is_err()
        {
            tracing::warn!("the thread that answers `mount-s3 staged` has panicked");
        }
    }
}

fn answer(
    stream: &UnixStream,
    queue: Option<&UploadQueue>,
    damaged: &DamagedFiles,
) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIME_MAX))?;
    stream.set_write_timeout(Some(REQUEST_TIME_MAX))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_LEN_MAX)).read_line(&mut line)?;
    let request = line.parse();
    let answer = request.map(|request| {
        let Some(queue) = queue else {
            return PendingReport::new(PendingUploads::default(), damaged, 0);
        };
        let mark = queue.mark();
        let pending = match request {
            ControlRequest::Pending => queue.pending(),
            ControlRequest::Flush => {
                queue.flush();
                queue.pending()
            }
            ControlRequest::Left(mark) => queue.pending_since(mark),
        };
        PendingReport::new(pending, damaged, mark)
    });
    let mut text = serde_json::to_vec::<Result<_, String>>(&answer)?;
    text.push(b'\n');
    let mut stream = stream;
    stream.write_all(&text)
}

/// The path of a socket in `folder`, by its open descriptor: paths of sockets are short.
pub(super) fn socket_path(folder: &Folder, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    if path.as_os_str().len() <= PATH_LEN_MAX {
        return path;
    }
    let fd = folder.as_fd().as_raw_fd();
    PathBuf::from(format!("/proc/self/fd/{fd}/{name}"))
}

/// Pause after a failure, which may last.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// The socket's name.
pub(super) const SOCKET: &str = "control";

/// Linux takes 108 bytes, with a zero at the end.
const PATH_LEN_MAX: usize = 107;

/// More than any request has.
const REQUEST_LEN_MAX: u64 = 256;

/// How long a client may take to send its request, and to take the answer: others wait for it.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(2);

/// How long a client waits for an answer, behind a few other clients.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
