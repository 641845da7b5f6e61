//! One request over the CRT, its body in memory and its answer's too.
//!
//! Knows no operation; what an answer means is its caller's to say. [`Core::retry`] calls it once for each attempt, and
//! each goes over another network interface than the one that failed the last.

use bytes::Bytes;
use mountpoint_crt_sys::{
    Cancel, Client, ErrorKind as CrtErrorKind, Failure, Message, Response, ResponseHead,
};
use parking_lot::Mutex;

use super::core::Core;
use super::data::Lane;
use super::fault::{self, Fault, Operation};
use super::sdk_fault::of_sdk;
use crate::ErrorKind;
use crate::network::DEAD_INTERFACE;

/// A request that can be sent again and again.
pub(super) struct Exchange<'a> {
    core: &'a Core,
    operation: &'a Operation,
    message: Message,
    body: Bytes,
    client: fn(&Lane) -> Client,
    /// The network interface that failed the last attempt. Held for an instruction.
    avoided: Mutex<Option<usize>>,
}

impl<'a> Exchange<'a> {
    /// A request without a body and with little to say.
    pub(super) fn control(core: &'a Core, operation: &'a Operation, message: Message) -> Self {
        Self {
            client: Lane::control,
            ..Self::upload(core, operation, message, Bytes::new())
        }
    }

    /// A request that brings data.
    pub(super) fn upload(
        core: &'a Core,
        operation: &'a Operation,
        message: Message,
        body: Bytes,
    ) -> Self {
        Self {
            core,
            operation,
            message,
            body,
            client: Lane::patient,
            avoided: Mutex::new(None),
        }
    }

    /// One attempt: a successful answer, or why there is none. Taken back when it is dropped before it ends.
    pub(super) async fn send(&self) -> Result<Response, Fault> {
        let transient = |what| Fault::from(self.operation.error(ErrorKind::Transient, what));
        let (sender, mut receiver) = tokio::sync::oneshot::channel();
        let avoided = *self.avoided.lock();
        // A request without a body is something to do as well.
        let lane = self.core.data.lane(self.body.len().max(1) as u64, avoided);
        let answered = Box::new(move |outcome| drop(sender.send(outcome)));
        let client = (self.client)(&lane);
        let sent = client.send(self.message.clone(), self.body.clone(), answered);
        let mut sent = CancelOnDrop(Some(sent));
        let Some(answer) = lane.unless_dead(&mut receiver).await else {
            *self.avoided.lock() = Some(lane.interface());
            return Err(transient(DEAD_INTERFACE));
        };
        sent.0 = None;
        let Ok(answer) = answer else {
            return Err(transient("the request was dropped"));
        };
        *self.avoided.lock() = lane.ended(answer.as_ref().err());
        match answer {
            Ok(response) => Ok(response),
            Err(failure) => Err(self.fault(&failure).await),
        }
    }

    async fn fault(&self, failure: &Failure) -> Fault {
        let is_tls = failure.error.kind() == CrtErrorKind::Tls && failure.head.is_none();
        let why = if is_tls {
            self.why_no_tls().await
        } else {
            None
        };
        why.unwrap_or_else(|| fault::of_crt(self.operation, failure))
    }

    /// What is wrong with the server's TLS. The CRT does not tell, the SDK's TLS does; so that is shown the server, too.
    async fn why_no_tls(&self) -> Option<Fault> {
        let shown = self.core.sdk.head_bucket().bucket(&self.core.bucket);
        let fault = of_sdk(self.operation, &shown.send().await.err()?);
        (fault.error.kind == ErrorKind::Unreachable).then_some(fault)
    }
}

/// Takes back a request that nobody waits for any more.
struct CancelOnDrop(Option<Cancel>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(sent) = &self.0 {
            sent.cancel();
        }
    }
}

/// A header that says something.
pub(super) fn header<'a>(head: &'a ResponseHead, name: &str) -> Option<&'a str> {
    head.header(name)
        .map(str::trim)
        .filter(|value| !value.is_empty())
}
