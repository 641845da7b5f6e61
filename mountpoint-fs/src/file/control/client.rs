//! Asking the mount that uses a staging directory.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};

use super::messages::{ControlRequest, PendingReport};
use super::server::{ANSWER_TIME_MAX, SOCKET, socket_path};
use crate::local_disk::Folder;
use crate::unix_connect::connect_at_once;

/// Asks the mount that uses `folder`. `None` if no mount answers there.
pub(crate) fn ask(folder: &Folder, request: ControlRequest) -> io::Result<Option<PendingReport>> {
    let stream = match connect_at_once(&socket_path(folder, SOCKET)) {
        Ok(stream) => stream,
        Err(error) if is_no_mount(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    stream.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    (&stream).write_all(request.line().as_bytes())?;
    let mut line = String::new();
    BufReader::new((&stream).take(ANSWER_LEN_MAX)).read_line(&mut line)?;
    let answer: Result<PendingReport, String> = serde_json::from_str(&line)?;
    answer.map(Some).map_err(io::Error::other)
}

/// Whether a socket is what a mount has left, or is not there.
fn is_no_mount(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    [ConnectionRefused, NotFound].contains(&error.kind())
}

/// More than the names of the most files that an answer has.
const ANSWER_LEN_MAX: u64 = 64 << 20;
