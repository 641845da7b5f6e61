//! The first bytes of an object of unknown size: one GetObject, whose head has all that HeadObject
//! tells.
//!
//! A GET into a block has to know its length beforehand. This answer has memory of its own, so it
//! is for few bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use mountpoint_crt_sys::{Message, ResponseHead};

use super::read_checksum;
use crate::crt_client::control::answer::{content_length, header, invalid};
use crate::crt_client::control::exchange::{self, Exchange};
use crate::crt_client::control::object_head::{head, object_info};
use crate::crt_client::core::{Call, Core, reading};
use crate::crt_client::fault::{Fault, Operation};
use crate::types::{FirstBytes, Key, ObjectInfo};
use crate::{ClientError, ErrorKind, Pending};

pub(in crate::crt_client) fn first_bytes(
    core: &Arc<Core>,
    key: &Key,
    len_max: u32,
) -> Pending<FirstBytes> {
    assert!(len_max > 0, "at least one byte is asked for");
    let got = get(core, key, len_max);
    let (core, key) = (Arc::clone(core), key.clone());
    Box::pin(async move {
        match got.await {
            // An empty object has no first byte.
            Err(error) if error.status == Some(RANGE_NOT_SATISFIABLE) => {
                let info = head(&core, &key).await?;
                if info.size == 0 {
                    return Ok(FirstBytes {
                        info,
                        bytes: Bytes::new(),
                    });
                }
                let what = format!("{key} was replaced while its first bytes were asked for");
                Err(ClientError::new(ErrorKind::Transient, what))
            }
            outcome => outcome,
        }
    })
}

fn get(core: &Arc<Core>, key: &Key, len_max: u32) -> Pending<FirstBytes> {
    let (core_of_task, key) = (Arc::clone(core), key.clone());
    reading(core, async move {
        let core = core_of_task;
        let send = |checksum_mode| get_with(&core, &key, len_max, checksum_mode);
        match core.checksum_mode.checks_reads {
            true => core.checksum_mode.ask(send).await,
            false => send(None).await,
        }
    })
}

async fn get_with(
    core: &Core,
    key: &Key,
    len_max: u32,
    checksum_mode: Option<(String, String)>,
) -> Result<FirstBytes, ClientError> {
    let operation = core.on_key("GetObject", key);
    let mut headers = core.headers_of("GetObject");
    headers.push(("Range".to_owned(), format!("bytes=0-{}", len_max - 1)));
    headers.extend(checksum_mode);
    let message = Message {
        operation: "GetObject",
        method: "GET",
        path: core.endpoint.path(key),
        headers,
    };
    let exchange = Exchange::control(core, &operation, message);
    let corrupt = AtomicU32::new(0);
    let attempt = || async {
        let answer = exchange.send().await?;
        let info = info_of(&operation, key, &answer.head)?;
        let wanted = info.size.min(u64::from(len_max));
        if content_length(&answer.head) != Some(wanted) {
            let what = "the answer is not as long as the range that was asked for";
            return Err(invalid(&operation, what));
        }
        if answer.body.len() as u64 != wanted {
            let what = "the body is not as long as its head says";
            return Err(operation.error(ErrorKind::Transient, what).into());
        }
        let expected = read_checksum::expected(&answer.head);
        if let Some(expected) = expected.filter(|_| wanted == info.size)
            && let Err(what) = expected.check(&answer.body)
        {
            let nth = corrupt.fetch_add(1, Ordering::Relaxed) + 1;
            return Err(super::operation::corrupt(&operation, &what, nth));
        }
        let bytes = Bytes::from(answer.body);
        Ok(FirstBytes { info, bytes })
    };
    exchange::retry(core, Call::quick(operation.clone()), attempt).await
}

/// Size, version and times of the object. A server that ignores the range sends the whole object.
fn info_of(operation: &Operation, key: &Key, head: &ResponseHead) -> Result<ObjectInfo, Fault> {
    let size = match header(head, "content-range") {
        Some(range) => range
            .rsplit_once('/')
            .filter(|(range, _)| range.starts_with("bytes 0-"))
            .and_then(|(_, size)| size.parse().ok()),
        None => content_length(head),
    };
    match size {
        Some(size) => object_info(operation, key, size, head),
        None => Err(invalid(
            operation,
            "the answer does not say how large the object is",
        )),
    }
}

const RANGE_NOT_SATISFIABLE: u16 = 416;
