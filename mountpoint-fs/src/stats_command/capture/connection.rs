//! The lines that a mount sends while it records.
//!
//! The mount may be another user's, and this process root's: no line is trusted to be short.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::cli::VERSION;
use crate::clock::Clock;
use crate::mount::{CAPTURE_FORMAT, CaptureLine, CaptureRequest};
use crate::stats_command::sockets::AnsweringMount;

/// A connection to a mount that records.
#[derive(Debug)]
pub(super) struct CaptureConnection {
    stream: UnixStream,
    /// Bytes that came, from the last line that was handed out on.
    rest: Vec<u8>,
    /// Bytes of `rest` that are lines already handed out.
    taken: usize,
}

/// The result of a look at the connection.
#[derive(Debug, PartialEq)]
pub(super) enum Received {
    /// A line.
    Line(CaptureLine),
    /// No whole line, for [`LOOK`] at most.
    Nothing,
    /// The mount has gone.
    Gone,
}

impl CaptureConnection {
    /// Asks `mount` to record for `time`. Returns when it does.
    ///
    /// # Errors
    /// A text for the user: it does not.
    pub(super) fn begin(mount: &AnsweringMount, time: Duration) -> Result<Self, String> {
        let request = CaptureRequest {
            format: CAPTURE_FORMAT,
            seconds: time.as_secs_f64(),
        };
        let stream = mount.connect().map_err(no_answer)?;
        Self::begin_on(stream, &request, &mount.document.mount.version)
    }

    /// As [`Self::begin`], of a mount of this `version`.
    fn begin_on(
        mut stream: UnixStream,
        request: &CaptureRequest,
        version: &str,
    ) -> Result<Self, String> {
        let mut text = serde_json::to_vec(request).map_err(|error| error.to_string())?;
        text.push(b'\n');
        // A mount that does not know captures may have hung up already; its answer tells more.
        stream.write_all(&text).ok();
        let waits = |stream: &UnixStream, time| stream.set_read_timeout(Some(time));
        waits(&stream, LOOK).map_err(no_answer)?;
        let mut connection = Self::of(stream);
        let clock = Clock::monotonic();
        let answer = loop {
            match connection.receive() {
                Ok(Received::Nothing) if clock.now() < BEGIN_MAX => {}
                answer => break answer,
            }
        };
        match answer {
            Ok(Received::Line(CaptureLine::Began)) => {}
            Ok(Received::Line(CaptureLine::Refused(reason))) => return Err(reason),
            Ok(Received::Nothing) => return Err("the mount does not answer".to_owned()),
            // A mount that does not know captures tells its numbers.
            Ok(Received::Line(_) | Received::Gone) | Err(_) => {
                return Err(format!(
                    "this mount cannot be traced: it is of version {version}, and this \
                     command of {VERSION}"
                ));
            }
        }
        Ok(connection)
    }

    fn of(stream: UnixStream) -> Self {
        Self {
            stream,
            rest: Vec::new(),
            taken: 0,
        }
    }

    /// Tells the mount to record no more. Its last lines follow.
    pub(super) fn stop(&self) {
        // Without a connection there is nothing to end.
        self.stream.shutdown(Shutdown::Write).ok();
    }

    /// The next line. Reads once at most, so that a line in small pieces delays no signal.
    ///
    /// # Errors
    /// The next line is not of this format, or the connection failed.
    pub(super) fn receive(&mut self) -> io::Result<Received> {
        if let Some(line) = self.next_line()? {
            return Ok(Received::Line(line));
        }
        self.rest.drain(..self.taken);
        self.taken = 0;
        if self.rest.len() > LINE_MAX {
            return Err(io::Error::other("the mount sends lines without end"));
        }
        let mut bytes = vec![0; READ_SIZE];
        match self.stream.read(&mut bytes) {
            Ok(0) => Ok(Received::Gone),
            Ok(count) => {
                self.rest.extend_from_slice(&bytes[..count]);
                let line = self.next_line()?;
                Ok(line.map_or(Received::Nothing, Received::Line))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(Received::Nothing),
                io::ErrorKind::ConnectionReset => Ok(Received::Gone),
                _ => Err(error),
            },
        }
    }

    /// The next line among the bytes that came.
    fn next_line(&mut self) -> io::Result<Option<CaptureLine>> {
        let new = &self.rest[self.taken..];
        let Some(len) = new.iter().position(|it| *it == b'\n') else {
            return Ok(None);
        };
        let line = serde_json::from_slice(&new[..len]);
        self.taken += len + 1;
        Ok(Some(line.map_err(io::Error::from)?))
    }
}

fn no_answer(error: io::Error) -> String {
    format!("the mount does not answer: {error}")
}

/// Longest line: a key has at most 1,024 bytes, and a request 64 waits.
const LINE_MAX: usize = 1 << 20;
/// Bytes that are read at once.
const READ_SIZE: usize = 64 << 10;
/// Time between two looks at signals and the clock.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait for the begin. A mount answers within milliseconds.
const BEGIN_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_in_order() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut connection = CaptureConnection::of(here);
        there.write_all(b"\"began\"\n{\"ended\":{\"drop").unwrap();
        let began = Received::Line(CaptureLine::Began);
        assert_eq!(connection.receive().unwrap(), began);
        there.write_all(b"ped\":3}}\n\"began\"\n").unwrap();
        let ended = Received::Line(CaptureLine::Ended { dropped: 3 });
        assert_eq!(connection.receive().unwrap(), ended);
        assert_eq!(connection.receive().unwrap(), began);
        drop(there);
        assert_eq!(connection.receive().unwrap(), Received::Gone);
    }

    #[test]
    fn a_mount_that_does_not_know_captures_is_named_by_its_version() {
        for answer in ["{\"format\":1,\"metrics\":[]}", "{\"format\":1}\n", ""] {
            let (here, mut there) = UnixStream::pair().unwrap();
            there.write_all(answer.as_bytes()).unwrap();
            drop(there);
            let request = CaptureRequest {
                format: CAPTURE_FORMAT,
                seconds: 1.0,
            };
            let begun = CaptureConnection::begin_on(here, &request, "0.1.9");
            let error = begun.expect_err(answer);
            assert!(error.contains("it is of version 0.1.9"), "{error}");
        }
    }

    #[test]
    fn what_is_no_line_is_an_error() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut connection = CaptureConnection::of(here);
        there.write_all(b"{\"format\":1}\n").unwrap();
        connection.receive().unwrap_err();
    }
}
