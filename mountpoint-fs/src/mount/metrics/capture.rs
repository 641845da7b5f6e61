//! Hands the records of a mount to one command, over the mount's socket: lines of JSON.
//!
//! The command's first line is its request; a connection without one gets the document of
//! numbers. The command ends a capture early by closing its side for writing. A command that reads
//! too slowly loses records, which are counted; it never slows the mount down.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::metrics::capture::{CaptureBusy, CaptureRecord, LevelRecord, RunningCapture};
use crate::metrics::{MetricsRegistry, SeriesValue, names};

/// The request of a command.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaptureRequest {
    /// Version of these lines: [`CAPTURE_FORMAT`].
    pub format: u32,
    /// For how long.
    pub seconds: f64,
}

/// A line of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureLine {
    /// The mount records from now on.
    Began,
    /// The mount does not record, for this reason.
    Refused(String),
    /// Something happened.
    Record(CaptureRecord),
    /// The end. So many records are missing, because the command did not take them in time.
    Ended {
        /// How many.
        dropped: u64,
    },
}

/// Version of [`CaptureRequest`] and [`CaptureLine`].
pub const CAPTURE_FORMAT: u32 = 1;
/// Longest capture, in seconds: a day.
pub const CAPTURE_SECONDS_MAX: f64 = 86_400.0;

/// The first line of a connection; nothing if the connection has none.
pub(super) async fn first_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let mut bytes = [0; 512];
        let count = timeout(REQUEST_TIME_MAX, stream.read(&mut bytes)).await??;
        line.extend_from_slice(&bytes[..count]);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok(line);
        }
        if count == 0 {
            return Ok(line);
        }
        if line.len() > REQUEST_MAX {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
    }
}

/// Records for the command at the other end of `stream`, which asked by `request`.
pub(super) async fn serve(mut stream: UnixStream, request: &[u8], registry: &MetricsRegistry) {
    let asked: Option<CaptureRequest> = serde_json::from_slice(request).ok();
    let begun = match asked.filter(CaptureRequest::is_understood) {
        None => Err("this mount is of another version than the command".to_owned()),
        Some(request) => {
            let begun = RunningCapture::begin();
            let begun = begun.map(|capture| (request, capture));
            begun.map_err(|CaptureBusy| "another trace of this mount runs".to_owned())
        }
    };
    let sent = match begun {
        Ok((request, capture)) => send(&mut stream, request, capture, registry).await,
        Err(reason) => send_lines(&mut stream, [CaptureLine::Refused(reason)]).await,
    };
    if let Err(error) = sent {
        tracing::debug!("a recording ended early: {error}");
    }
}

impl CaptureRequest {
    fn is_understood(&self) -> bool {
        self.format == CAPTURE_FORMAT && (0.0..=CAPTURE_SECONDS_MAX).contains(&self.seconds)
    }
}

async fn send(
    stream: &mut UnixStream,
    request: CaptureRequest,
    capture: RunningCapture,
    registry: &MetricsRegistry,
) -> io::Result<()> {
    send_lines(stream, [CaptureLine::Began]).await?;
    let end = Instant::now() + Duration::from_secs_f64(request.seconds);
    let mut fetch = interval(FETCH_INTERVAL);
    fetch.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut levels = interval(LEVELS_INTERVAL);
    levels.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut more = [0; 16];
    loop {
        tokio::select! {
            biased;
            // The command has no more to say than that it has enough.
            _ = stream.read(&mut more) => break,
            () = tokio::time::sleep_until(end) => break,
            _ = levels.tick() => {
                send_lines(stream, levels_of(registry, capture.elapsed())).await?;
            }
            _ = fetch.tick() => {
                let records = capture.take().into_iter().map(CaptureLine::Record);
                send_lines(stream, records).await?;
            }
        }
    }
    let (rest, dropped) = capture.finish();
    let rest = rest.into_iter().map(CaptureLine::Record);
    send_lines(stream, rest.chain([CaptureLine::Ended { dropped }])).await
}

async fn send_lines(
    stream: &mut UnixStream,
    lines: impl IntoIterator<Item = CaptureLine>,
) -> io::Result<()> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, &line).map_err(io::Error::other)?;
        text.push(b'\n');
        if text.len() >= SEND_SIZE {
            timeout(SEND_MAX, stream.write_all(&text)).await??;
            text.clear();
        }
    }
    timeout(SEND_MAX, stream.write_all(&text)).await??;
    Ok(())
}

/// The values of [`LEVELS`].
fn levels_of(registry: &MetricsRegistry, at: Duration) -> impl Iterator<Item = CaptureLine> {
    let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    let series = registry.snapshot().series.into_iter();
    let wanted = series.filter(|series| LEVELS.contains(&series.definition.name));
    wanted.filter_map(move |series| {
        let SeriesValue::Gauge(value) = series.value else {
            return None;
        };
        let labels = series.labels.iter().map(|(_, label)| label.as_str());
        let name: Vec<_> = [series.definition.name].into_iter().chain(labels).collect();
        Some(CaptureLine::Record(CaptureRecord::Level(LevelRecord {
            at,
            name: name.join(" "),
            value,
        })))
    })
}

/// Gauges that explain waits.
const LEVELS: [&str; 5] = [
    names::KERNEL_QUEUE,
    names::FUSE_WAITING,
    mountpoint_client::metrics::S3_IN_FLIGHT,
    names::MEMORY_RESERVED,
    names::WRITE_HELD,
];
/// Time between two fetches: the queue has room for 300,000 records a second.
const FETCH_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two looks at the levels.
const LEVELS_INTERVAL: Duration = Duration::from_secs(1);
/// Longest first line.
const REQUEST_MAX: usize = 4096;
/// Longest wait for it. A command sends it at once.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes from which on lines are sent.
const SEND_SIZE: usize = 64 << 10;
/// Longest wait for a command that does not read.
const SEND_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    async fn line_of(sent: &[u8]) -> Option<Vec<u8>> {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        there.write_all(sent).await.unwrap();
        there.shutdown().await.unwrap();
        first_line(&mut here).await.ok()
    }

    #[tokio::test]
    async fn the_first_line_ends_with_its_end_or_that_of_the_connection() {
        assert_eq!(line_of(b"").await.unwrap(), b"");
        assert_eq!(line_of(b"abc\ndef").await.unwrap(), b"abc");
        assert_eq!(line_of(b"abc").await.unwrap(), b"abc");
        assert_eq!(line_of(&[b'a'; 2 * REQUEST_MAX]).await, None);
    }

    #[tokio::test]
    async fn what_is_not_understood_is_refused() {
        for request in ["", "{}", r#"{"format":2,"seconds":1}"#] {
            let (here, mut there) = UnixStream::pair().unwrap();
            serve(here, request.as_bytes(), &MetricsRegistry::default()).await;
            let mut answer = String::new();
            there.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(r#"{"refused":"#), "{request}: {answer}");
        }
    }
}
