//! One request over the CRT, its body in memory and its answer's too.
//!
//! Knows no operation: the caller interprets the answer. [`retry`] sends the request once for each
//! attempt, and avoids the network interface of the last failure.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use mountpoint_crt_sys::{Cancel, Client, Message, Response, ResponseHead};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::billing::{self, BilledAttempt};
use crate::crt_client::core::{self, Call, Core};
use crate::crt_client::fault::of_sdk;
use crate::crt_client::fault::{self, Fault, Operation};
use crate::crt_client::lanes::Lane;
use crate::crt_client::request_log::SentRequest;
use crate::network::DEAD_INTERFACE;
use crate::xml_root::is_page;
use crate::{ClientError, ErrorKind};

/// A request that can be sent again and again.
pub(in crate::crt_client) struct Exchange<'a> {
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
    pub(in crate::crt_client) fn control(
        core: &'a Core,
        operation: &'a Operation,
        message: Message,
    ) -> Self {
        Self {
            client: Lane::control,
            ..Self::upload(core, operation, message, Bytes::new())
        }
    }

    /// A request that brings data.
    pub(in crate::crt_client) fn upload(
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

    /// One attempt: a successful answer, or why there is none. Taken back when it is dropped before
    /// it ends.
    pub(in crate::crt_client) async fn send(&self) -> Result<Response, Fault> {
        let transient = |what| Fault::from(self.operation.error(ErrorKind::Transient, what));
        let (sender, mut receiver) = tokio::sync::oneshot::channel();
        let avoided = *self.avoided.lock();
        // A request without a body counts as work as well.
        let lane = self.core.data.lane(self.body.len().max(1) as u64, avoided);
        let answered = Box::new(move |outcome| drop(sender.send(outcome)));
        let client = (self.client)(&lane);
        let target = || self.operation.target.clone();
        let (name, len) = (self.operation.name, self.body.len() as u64);
        let billed = BilledAttempt::new(billing::current(), name, len);
        let logged = SentRequest::at(Instant::now(), name, len, billed, target)
            .with_headers(&self.message.headers);
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
        let (head, failure) = match &answer {
            Ok(response) => (Some(&response.head), None),
            Err(failure) => (failure.head.as_ref(), Some(failure)),
        };
        let received = answer.as_ref().map_or(0, |response| response.body.len());
        logged.ended(received as u64, head, failure);
        *self.avoided.lock() = lane.ended(failure);
        match answer {
            Ok(Response { head, body })
                if !self.operation.is_answered_with_body() && is_page(&body) =>
            {
                Err(fault::of_page(self.operation, &head, &body))
            }
            Ok(response) => Ok(response),
            Err(failure) => match failure.head {
                Some(head) if is_unknown_success(&head) && failure.body.is_empty() => {
                    Ok(Response {
                        head,
                        body: Vec::new(),
                    })
                }
                _ => Err(fault::of_crt(self.operation, &failure)),
            },
        }
    }
}

/// Repeats attempts over the CRT by [`core::retry`].
///
/// The CRT says little about a connection that cannot be made, and behind a proxy that speaks
/// TLS it tells of a failed negotiation only 10 to 30 s later. So until the server has answered
/// once, the SDK, whose resolver and TLS name the reason, greets it: behind such a proxy before the
/// request, otherwise after a failure.
pub(in crate::crt_client) async fn retry<T, A>(
    core: &Core,
    call: Call,
    attempt: impl Fn() -> A,
) -> Result<T, ClientError>
where
    A: Future<Output = Result<T, Fault>>,
{
    let operation = call.operation.clone();
    let is_strange = || !core.was_reached.load(Ordering::Relaxed);
    if is_strange() && core.is_proxy_tls {
        core::retry(core, call.clone(), || greet(core, &operation)).await?;
    }
    let error = match core::retry(core, call, attempt).await {
        Ok(output) => return Ok(output),
        Err(error) => error,
    };
    let is_mute = matches!(error.kind, ErrorKind::Unreachable | ErrorKind::Transient);
    if is_mute && is_strange() {
        let greeted = tokio::time::timeout(GREETING_MAX, greet(core, &operation)).await;
        return Err(greeted
            .ok()
            .and_then(Result::err)
            .map_or(error, |reason| reason.error));
    }
    Err(error)
}

/// Sends HeadBucket over the SDK. A fault if no answer comes.
async fn greet(core: &Core, operation: &Operation) -> Result<(), Fault> {
    let asked = core.sdk.head_bucket().bucket(&core.bucket).send().await;
    let fault = asked.err().map(|error| of_sdk(operation, &error));
    fault
        .filter(|fault| fault.error.status.is_none())
        .map_or(Ok(()), Err)
}

/// Whether a server says yes in a way that the CRT takes for an error: a gateway may answer a
/// DELETE with 202.
fn is_unknown_success(head: &ResponseHead) -> bool {
    head.is_success() && !matches!(head.status, 200 | 204 | 206)
}

/// Cancels a request when its future is dropped.
struct CancelOnDrop(Option<Cancel>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(sent) = &self.0 {
            sent.cancel();
        }
    }
}

/// Longest greeting: a connection that cannot be made fails sooner, and names the reason.
const GREETING_MAX: Duration = Duration::from_secs(3);
