//! A ranged GET: its body lands in the unfilled rest of a block and is published as it arrives.
//!
//! Invariant: the right to fill goes back to the handler exactly once: when the block is full,
//! since no writer is left, or else when C has let go of the block's memory.
//!
//! Lock: the state's, held while the handler's `head` and `progressed` run, not while its
//! `finished` runs.

use std::ptr::NonNull;

use parking_lot::Mutex;

use super::exchange::Exchange;
use super::types::{ERROR_BODY_MAX, Failure, GetHandler, ResponseHead, within_error_body};
use crate::CrtError;
use crate::block::{BlockFill, Unfilled};
use crate::error::OwnError;

pub(crate) struct Get(Mutex<GetState>);

struct GetState {
    /// None when it has been told the end.
    open: Option<Open>,
    head: Option<ResponseHead>,
    error: Option<CrtError>,
    error_body: Vec<u8>,
}

struct Open {
    handler: Box<dyn GetHandler>,
    fill: BlockFill,
    /// Where the body begins in the block.
    base: usize,
}

impl Get {
    pub(crate) fn new(fill: BlockFill, handler: Box<dyn GetHandler>) -> Self {
        let base = fill.filled();
        let open = Some(Open {
            handler,
            fill,
            base,
        });
        Self(Mutex::new(GetState {
            open,
            head: None,
            error: None,
            error_body: Vec::new(),
        }))
    }
}

impl Exchange for Get {
    fn reserve(&self) -> Option<Unfilled> {
        Some(self.0.lock().open.as_mut()?.fill.unfilled())
    }

    fn head(&self, head: ResponseHead) -> Result<(), OwnError> {
        let state = &mut *self.0.lock();
        let Some(open) = state.open.as_mut().filter(|_| state.head.is_none()) else {
            return Ok(());
        };
        let answer = if head.is_success() {
            open.handler.head(&head)
        } else {
            Ok(())
        };
        if head.is_success() && open.handler.withholds() {
            open.fill.withhold();
        }
        state.head = Some(head);
        answer.map_err(|_| OwnError::Refused)
    }

    fn body(&self, body: &[u8]) -> Result<(), OwnError> {
        let mut state = self.0.lock();
        if !state.head.as_ref().is_some_and(ResponseHead::is_success) {
            state.error_body = body[..body.len().min(ERROR_BODY_MAX)].to_vec();
            return within_error_body(body);
        }
        let Some(open) = &mut state.open else {
            return Ok(());
        };
        if !open.publish(body) {
            return Ok(());
        }
        if !open.fill.is_withheld() {
            open.handler.progressed();
        }
        if open.fill.filled() == open.fill.capacity() {
            let end = state.end(None);
            drop(state);
            end();
        }
        Ok(())
    }

    fn finished(&self, error: Option<CrtError>) {
        self.0.lock().error = error;
    }

    fn shutdown(self: Box<Self>) {
        let mut state = self.0.into_inner();
        let error = state
            .error
            .take()
            .unwrap_or_else(|| OwnError::ShortBody.into());
        state.end(Some(error))();
    }
}

impl GetState {
    /// Takes everything that tells the handler the end; the caller calls it without the lock.
    fn end(&mut self, error: Option<CrtError>) -> impl FnOnce() + use<> {
        let open = self.open.take();
        let head = self.head.take();
        let body = std::mem::take(&mut self.error_body);
        move || {
            let Some(open) = open else {
                return;
            };
            let outcome = match (error, head) {
                (None, Some(head)) => Ok(head),
                (error, head) => Err(Failure {
                    error: error.unwrap_or_else(|| OwnError::ShortBody.into()),
                    head,
                    body,
                }),
            };
            open.handler.finished(open.fill, outcome);
        }
    }
}

impl Open {
    /// Publishes the body so far. False when there is nothing new in it.
    fn publish(&mut self, body: &[u8]) -> bool {
        let filled = self.fill.filled();
        let end = self.base + body.len();
        if end <= filled {
            return false;
        }
        if NonNull::from(body).cast() == self.fill.unfilled_from(self.base) {
            // SAFETY: the body lies in the block itself: C has written these bytes, and it only
            // ever appends.
            unsafe { self.fill.publish(end) };
        } else {
            // C has put the body elsewhere. It keeps to the length that was reserved only in our
            // memory.
            let fresh = &body[filled - self.base..];
            let room = self.fill.capacity() - filled;
            self.fill.append(&fresh[..fresh.len().min(room)]);
        }
        true
    }
}
