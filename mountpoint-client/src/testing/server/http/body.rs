//! The body of an answer: counts its bytes, and misbehaves if a fault says so.
//!
//! Without a fault it passes pieces through untouched. Polled by the connection on the server's
//! threads.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use s3s::StdError;
use tokio::time::Sleep;

use super::request_log::Ticket;
use crate::testing::server::clock;

/// The body of an answer.
pub(crate) struct AnswerBody {
    inner: s3s::Body,
    /// Given back to the log with the last byte.
    ticket: Option<Ticket>,
    mischief: Option<Box<Mischief>>,
}

/// A fault of a body.
#[derive(Debug, Default)]
pub(crate) struct BodyFault {
    /// Close the connection after this many bytes.
    pub(crate) cut_after: Option<u64>,
    /// Send no more after this many bytes, but keep the connection.
    pub(crate) stall_after: Option<u64>,
    /// Send no more after the half, which is known when the body is.
    pub(crate) stalls_at_half: bool,
    /// Flip a bit of the byte at this offset of the body.
    pub(crate) corrupt_at: Option<u64>,
    /// Send no faster than this, in bytes per second.
    pub(crate) bytes_per_second: Option<u64>,
    /// The head states another length than that of the body.
    pub(crate) length_is_wrong: bool,
}

impl BodyFault {
    pub(crate) fn is_none(&self) -> bool {
        let Self {
            cut_after,
            stall_after,
            stalls_at_half,
            corrupt_at,
            bytes_per_second,
            length_is_wrong,
        } = self;
        let untouched = cut_after.is_none() && stall_after.is_none() && corrupt_at.is_none();
        untouched && !stalls_at_half && bytes_per_second.is_none() && !length_is_wrong
    }
}

#[derive(Debug)]
struct Mischief {
    fault: BodyFault,
    /// Bytes taken from the inner body that may not be sent yet.
    held: Bytes,
    sent: u64,
    started: Instant,
    sleep: Pin<Box<Sleep>>,
    sleeping: bool,
}

/// Time between the last byte before a cut and the cut, so that the connection has sent that byte.
const CUT_DELAY: Duration = Duration::from_millis(20);

/// A paced body sends at least this much at a time: a timer fires every millisecond at most.
const PACED_PIECE_MIN: u64 = 1024;

/// How much of a paced second goes into one piece.
const PACED_PIECES_PER_SECOND: u64 = 200;

impl AnswerBody {
    pub(crate) fn new(inner: s3s::Body, ticket: Ticket, fault: BodyFault) -> Self {
        let mischief = (!fault.is_none()).then(|| Box::new(Mischief::new(fault)));
        let mut body = Self {
            inner,
            ticket: Some(ticket),
            mischief,
        };
        if body.inner.is_end_stream() {
            body.finish();
        }
        body
    }

    fn finish(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.finish();
        }
    }

    fn account(&mut self, bytes: &Bytes, is_last: bool) {
        if let Some(ticket) = &mut self.ticket {
            ticket.sent(bytes.len());
        }
        if is_last {
            self.finish();
        }
    }
}

impl Mischief {
    fn new(fault: BodyFault) -> Self {
        let sleep = Box::pin(tokio::time::sleep(CUT_DELAY));
        // A cut before the first byte still lets the head out.
        let sleeping = fault.cut_after == Some(0);
        Self {
            fault,
            held: Bytes::new(),
            sent: 0,
            started: clock::instant(),
            sleep,
            sleeping,
        }
    }

    fn limit(&self) -> Option<u64> {
        [self.fault.cut_after, self.fault.stall_after]
            .into_iter()
            .flatten()
            .min()
    }

    /// Waits until the next byte may be sent; pending for ever after a stall, an error after a cut.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        if self.sleeping {
            ready!(self.sleep.as_mut().poll(cx));
            self.sleeping = false;
        }
        if self
            .fault
            .stall_after
            .is_some_and(|after| self.sent >= after)
        {
            return Poll::Pending;
        }
        if self.fault.cut_after.is_some_and(|after| self.sent >= after) {
            return Poll::Ready(Err("cut by a fault rule".into()));
        }
        Poll::Ready(Ok(()))
    }

    /// Takes as much of `held` as may be sent at once, and sets the timer for what comes behind it.
    fn take(&mut self) -> Bytes {
        let mut len = self.held.len() as u64;
        if let Some(limit) = self.limit() {
            len = len.min(limit - self.sent);
        }
        if let Some(rate) = self.fault.bytes_per_second {
            len = len.min((rate / PACED_PIECES_PER_SECOND).max(PACED_PIECE_MIN));
        }
        let mut bytes = self
            .held
            .split_to(usize::try_from(len).unwrap_or(usize::MAX));
        if let Some(at) = self.fault.corrupt_at
            && (self.sent..self.sent + len).contains(&at)
        {
            let mut copy = Vec::from(bytes);
            copy[usize::try_from(at - self.sent).unwrap_or(0)] ^= 1;
            bytes = Bytes::from(copy);
        }
        self.sent += len;
        self.set_timer();
        bytes
    }

    fn set_timer(&mut self) {
        let until = if self.fault.cut_after.is_some_and(|after| self.sent >= after) {
            clock::instant() + CUT_DELAY
        } else if let Some(rate) = self.fault.bytes_per_second {
            self.started + Duration::from_secs_f64(self.sent as f64 / rate.max(1) as f64)
        } else {
            return;
        };
        self.sleep.as_mut().reset(until.into());
        self.sleeping = true;
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = &mut *self;
        let Some(mischief) = &mut this.mischief else {
            let polled = ready!(Pin::new(&mut this.inner).poll_frame(cx));
            if let Some(Ok(bytes)) = polled
                .as_ref()
                .map(|frame| frame.as_ref().map(|frame| frame.data_ref()))
            {
                let bytes = bytes.cloned().unwrap_or_default();
                this.account(&bytes, this.inner.is_end_stream());
            } else if polled.is_none() {
                this.finish();
            }
            return Poll::Ready(polled);
        };
        if let Err(error) = ready!(mischief.poll_turn(cx)) {
            return Poll::Ready(Some(Err(error)));
        }
        if mischief.held.is_empty() {
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(frame) => mischief.held = frame?.into_data().unwrap_or_default(),
                None => {
                    this.finish();
                    return Poll::Ready(None);
                }
            }
        }
        let bytes = mischief.take();
        let is_last = mischief.held.is_empty() && this.inner.is_end_stream();
        this.account(&bytes, is_last);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.mischief
            .as_ref()
            .is_none_or(|mischief| mischief.held.is_empty() && !mischief.sleeping)
            && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.mischief {
            Some(mischief) if mischief.fault.length_is_wrong => SizeHint::default(),
            _ => self.inner.size_hint(),
        }
    }
}
