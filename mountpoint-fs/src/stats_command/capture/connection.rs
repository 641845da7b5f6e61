//! The lines that a mount sends while it records.
//!
//! The mount may be another user's, and this process root's: nothing that comes is trusted to be
//! short.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::mount::{CAPTURE_FORMAT, CaptureLine, CaptureRequest};
use crate::stats_command::sockets::AnsweringMount;

/// A connection to a mount that records.
#[derive(Debug)]
pub(super) struct CaptureConnection {
    stream: UnixStream,
    /// What came and is no line yet.
    rest: Vec<u8>,
    /// Bytes of `rest` that are lines already handed out.
    taken: usize,
}

/// What a look at the connection gives.
#[derive(Debug, PartialEq)]
pub(super) enum Received {
    /// A line.
    Line(CaptureLine),
    /// Nothing, for [`LOOK`].
    Nothing,
    /// The mount has gone.
    Gone,
}

impl CaptureConnection {
    /// Asks `mount` to record for `time`. Returns when it does.
    ///
    /// # Errors
    /// A text for the user: it does not.
    pub(super) fn begin(
        mount: &AnsweringMount,
        time: Duration,
        is_whole: bool,
    ) -> Result<Self, String> {
        let request = CaptureRequest {
            format: CAPTURE_FORMAT,
            seconds: time.as_secs_f64(),
            is_whole,
        };
        let asked = mount.connect().and_then(|mut stream| {
            let mut text = serde_json::to_vec(&request).map_err(io::Error::other)?;
            text.push(b'\n');
            stream.write_all(&text)?;
            Ok(stream)
        });
        let no_answer = |error: io::Error| format!("the mount does not answer: {error}");
        let stream = asked.map_err(no_answer)?;
        stream
            .set_read_timeout(Some(BEGIN_MAX))
            .map_err(no_answer)?;
        let mut connection = Self::of(stream);
        match connection.receive().map_err(no_answer)? {
            Received::Line(CaptureLine::Began) => {}
            Received::Line(CaptureLine::Refused(reason)) => return Err(reason),
            Received::Line(_) | Received::Nothing | Received::Gone => {
                return Err("the mount does not answer".to_owned());
            }
        }
        let stream = &connection.stream;
        stream.set_read_timeout(Some(LOOK)).map_err(no_answer)?;
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

    /// The next line.
    ///
    /// # Errors
    /// What came is no line of this format, or the connection failed.
    pub(super) fn receive(&mut self) -> io::Result<Received> {
        let mut searched = self.taken;
        loop {
            let new = self.rest[searched..].iter().position(|it| *it == b'\n');
            if let Some(end) = new.map(|at| searched + at) {
                let line = serde_json::from_slice(&self.rest[self.taken..end]);
                self.taken = end + 1;
                return Ok(Received::Line(line.map_err(io::Error::from)?));
            }
            self.rest.drain(..self.taken);
            (self.taken, searched) = (0, self.rest.len());
            if self.rest.len() > LINE_MAX {
                return Err(io::Error::other("the mount sends lines without end"));
            }
            let mut bytes = vec![0; READ_SIZE];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(Received::Gone),
                Ok(count) => self.rest.extend_from_slice(&bytes[..count]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        return Ok(Received::Nothing);
                    }
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset => return Ok(Received::Gone),
                    _ => return Err(error),
                },
            }
        }
    }
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
    fn what_is_no_line_is_an_error() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut connection = CaptureConnection::of(here);
        there.write_all(b"{\"format\":1}\n").unwrap();
        connection.receive().unwrap_err();
    }
}
