//! A request that is sent again until it succeeds or the policy gives up.

use std::pin::{Pin, pin};
use std::time::Duration;

use super::Core;
use super::attempts::Attempts;
use super::call::{Call, CallKind};
use crate::attempt_report::numbered;
use crate::crt_client::fault::Fault;
use crate::pauses::{CountedRequest, PauseReason};
use crate::retry::RetryPolicy;
use crate::{ClientError, ErrorKind};

/// Sends `call` by one `attempt` after the other. Runs in a task of the runtime.
pub(in crate::crt_client) async fn retry<T, A>(
    core: &Core,
    call: Call,
    attempt: impl Fn() -> A,
) -> Result<T, ClientError>
where
    A: Future<Output = Result<T, Fault>>,
{
    let mut attempts = Attempts::new(RetryPolicy {
        deadline: core.policy.deadline.max(call.kind.attempt_max()),
        silence_max: core.policy.silence_max * call.kind.silent_attempts_max(),
        ..core.policy
    });
    let request = CountedRequest::begins();
    loop {
        request.pause(PauseReason::Throttled, core.pacing()).await;
        let permit = tokio::select! {
            biased;
            permit = core.permits.acquire(call.kind) => Some(permit),
            () = core.breaker.opened() => None,
        };
        if let Some(refusal) = core.refusal(|| call.operation.clone()) {
            return Err(attempts.last_word(core, refusal.into()));
        }
        if permit.is_none() {
            continue;
        }
        attempts.starts(core);
        let outcome = {
            // Passed by value, it would be kept twice.
            let answer = pin!(numbered(attempts.made(), attempt()));
            outcome(core, &call, &mut attempts, answer).await
        };
        drop(permit);
        let fault = match outcome {
            Ok(output) => {
                let has_body = call.operation.is_answered_with_body();
                attempts.succeeded(core, has_body, || call.operation.clone());
                return Ok(output);
            }
            Err(fault) => core.explain(fault),
        };
        match attempts.failed(core, &fault) {
            Some(wait) => {
                let reason = PauseReason::of(&fault.error.kind);
                request.pause(reason, wait).await;
            }
            None => return Err(attempts.last_word(core, fault)),
        }
    }
}

/// The outcome of one attempt, which is given up when it takes too long.
async fn outcome<T>(
    core: &Core,
    call: &Call,
    attempts: &mut Attempts,
    mut answer: Pin<&mut impl Future<Output = Result<T, Fault>>>,
) -> Result<T, Fault> {
    let none_within = |time: Duration| {
        let what = format!("no answer within {} s", time.as_secs());
        call.operation.error(ErrorKind::Transient, &what)
    };
    let late = call.kind.is_late_after();
    if let Ok(outcome) = tokio::time::timeout(late, answer.as_mut()).await {
        return outcome;
    }
    attempts.waits(core);
    if call.kind == CallKind::Control {
        attempts.unanswered(core, &none_within(late));
    }
    let attempt_max = call.kind.attempt_max();
    let rest = attempt_max.saturating_sub(late);
    let error = tokio::select! {
        outcome = tokio::time::timeout(rest, answer) => match outcome {
            Ok(outcome) => return outcome,
            Err(_) => none_within(attempt_max),
        },
        () = core.breaker.opened() => none_within(attempts.current()),
    };
    Err(Fault {
        is_silence: true,
        ..error.into()
    })
}
