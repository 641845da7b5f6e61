//! RenameObject: the same object under another name, at once. Directory buckets only.
//!
//! A server without this operation takes the request for a PutObject of no bytes and empties the
//! destination. So it is sent only to a server that has opened a session, as S3 Express alone does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::object_headers::condition_headers;
use crate::crt_client::core::{Call, Core, refused, retry, writing};
use crate::crt_client::fault::of_sdk;
use crate::endpoint::encode_key;
use crate::types::{Key, PutCondition};
use crate::{ErrorKind, Pending};

pub(in crate::crt_client) fn rename(
    core: &Arc<Core>,
    source: &Key,
    destination: &Key,
    condition: PutCondition,
) -> Pending<()> {
    let operation = core.on_key("RenameObject", source);
    if core.sessions.is_none() {
        let what = "only directory buckets can rename an object";
        return refused(operation.error(ErrorKind::Unsupported, what));
    }
    let (core_of_task, source) = (Arc::clone(core), encode_key(source.as_str()));
    let destination = destination.clone();
    // By it S3 recognises a repetition of what it has done already.
    let token = format!("{:032x}", rand::random::<u128>());
    writing(core, async move {
        let core = core_of_task;
        let was_lost = AtomicBool::new(false);
        let attempt = || async {
            let (if_match, if_none_match) = condition_headers(&condition);
            let call = core
                .sdk
                .rename_object()
                .bucket(&core.bucket)
                .key(destination.as_str())
                .rename_source(&source)
                .client_token(&token)
                .set_destination_if_match(if_match)
                .set_destination_if_none_match(if_none_match);
            let output = call.send().await;
            output.map(drop).map_err(|error| {
                let fault = of_sdk(&operation, &error);
                was_lost.fetch_or(fault.may_be_done, Ordering::Relaxed);
                fault
            })
        };
        let outcome = retry(&core, Call::quick(operation.clone()), attempt).await;
        // Whatever the last answer says: an attempt whose answer was lost may have renamed.
        outcome.map_err(|mut error| {
            error.answer_was_lost |= was_lost.load(Ordering::Relaxed);
            error
        })
    })
}
