//! The bytes of a connection, which stop in the middle of an answer's head if a fault says so.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Has a connection stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadStall(Arc<AtomicBool>);

impl HeadStall {
    /// Of the next head only the beginning is sent, and then nothing.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A connection that may stop.
pub(crate) struct Stalling<S> {
    stream: S,
    stall: HeadStall,
    /// Bytes that were sent since it was to stop.
    sent: usize,
}

impl<S> Stalling<S> {
    pub(crate) fn new(stream: S, stall: HeadStall) -> Self {
        Self {
            stream,
            stall,
            sent: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if !this.stall.0.load(Ordering::Acquire) {
            return Pin::new(&mut this.stream).poll_write(cx, bytes);
        }
        let left = HEAD_BYTES.saturating_sub(this.sent).min(bytes.len());
        if left == 0 {
            // Nobody wakes it: the client ends the connection.
            return Poll::Pending;
        }
        let written = Pin::new(&mut this.stream).poll_write(cx, &bytes[..left]);
        if let Poll::Ready(Ok(len)) = written {
            this.sent += len;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Less than any head: its status line and part of a header.
const HEAD_BYTES: usize = 40;
