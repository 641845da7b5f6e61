//! A request with a body in memory, whose answer's body is collected.
//!
//! Invariant: the request's body stays where it is until C has let go of it; the answer is told
//! once, before that.

use bytes::Bytes;
use parking_lot::Mutex;

use super::exchange::Exchange;
use super::types::{
    ERROR_BODY_MAX, Failure, RESPONSE_BODY_MAX, Response, ResponseHead, SendHandler,
    within_error_body,
};
use crate::CrtError;
use crate::error::OwnError;

pub(crate) struct Send {
    state: Mutex<SendState>,
    /// Whether the answer has no body, whatever its head says.
    is_head: bool,
    /// Borrowed by C until the shutdown.
    outgoing: Bytes,
}

struct SendState {
    handler: Option<SendHandler>,
    head: Option<ResponseHead>,
    body: Vec<u8>,
}

impl Send {
    pub(crate) fn new(method: &str, body: Bytes, handler: SendHandler) -> Self {
        let state = SendState {
            handler: Some(handler),
            head: None,
            body: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            is_head: method == "HEAD",
            outgoing: body,
        }
    }
}

impl Exchange for Send {
    fn outgoing(&self) -> Option<Bytes> {
        Some(self.outgoing.clone())
    }

    fn head(&self, head: ResponseHead) -> Result<(), OwnError> {
        let length = head
            .header("content-length")
            .and_then(|length| length.parse().ok());
        let is_large = length.is_some_and(|length: u64| length > RESPONSE_BODY_MAX as u64);
        // An answer to HEAD tells the length of a body that it does not have.
        if is_large && !self.is_head && head.is_success() {
            return Err(OwnError::LargeBody);
        }
        self.state.lock().head.get_or_insert(head);
        Ok(())
    }

    fn body(&self, body: &[u8]) -> Result<(), OwnError> {
        let mut state = self.state.lock();
        let is_success = state.head.as_ref().is_some_and(ResponseHead::is_success);
        if is_success && body.len() > RESPONSE_BODY_MAX {
            return Err(OwnError::LargeBody);
        }
        let max = if is_success {
            RESPONSE_BODY_MAX
        } else {
            ERROR_BODY_MAX
        };
        let have = state.body.len();
        let end = body.len().min(max);
        if have < end {
            state.body.extend_from_slice(&body[have..end]);
        }
        if is_success {
            Ok(())
        } else {
            within_error_body(body)
        }
    }

    fn finished(&self, error: Option<CrtError>) {
        let mut state = self.state.lock();
        let Some(handler) = state.handler.take() else {
            return;
        };
        let head = state.head.take();
        let mut body = std::mem::take(&mut state.body);
        drop(state);
        let outcome = match (error, head) {
            (None, Some(head)) => Ok(Response { head, body }),
            (error, head) => {
                body.truncate(ERROR_BODY_MAX);
                Err(Failure {
                    error: error.unwrap_or_else(|| OwnError::ShortBody.into()),
                    head,
                    body,
                })
            }
        };
        handler(outcome);
    }

    fn shutdown(self: Box<Self>) {}
}
