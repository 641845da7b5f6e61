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
use crate::crt_client::control::answer::{content_length, header, invalid, parse_content_range};
use crate::crt_client::control::exchange::{self, Exchange};
use crate::crt_client::control::object_head::{head, object_info};
use crate::crt_client::core::{Call, Core, reading};
use crate::crt_client::fault::{Fault, Operation, is_signed, of_page};
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
    let range = ("Range".to_owned(), format!("bytes=0-{}", len_max - 1));
    let of_range = [Some(range), checksum_mode.clone()];
    let (first, head) = get_once(core, key, len_max, of_range.into_iter().flatten()).await?;
    let is_whole = first.bytes.len() as u64 == first.info.size && !first.bytes.is_empty();
    if checksum_mode.is_none() || !is_whole {
        return Ok(first);
    }
    let has_checksum = read_checksum::has_any(&head);
    core.checksum_mode.came(has_checksum, true);
    if has_checksum || !core.checksum_mode.asks_again(&head) {
        return Ok(first);
    }
    let etag = first.info.etag.as_str().to_owned();
    let of_whole = [Some(("If-Match".to_owned(), etag)), checksum_mode];
    match get_once(core, key, len_max, of_whole.into_iter().flatten()).await {
        Ok((whole, head)) => {
            core.checksum_mode
                .came(read_checksum::has_any(&head), false);
            Ok(whole)
        }
        // Wrong bytes came twice.
        Err(error) if error.kind == ErrorKind::InvalidResponse => Err(error),
        // The open asks again, for the version that there is then.
        Err(_) => Ok(FirstBytes {
            bytes: Bytes::new(),
            ..first
        }),
    }
}

/// The first bytes by one GET with the headers `more`, and the head of its answer. Bytes of a whole
/// object are compared with the checksum in it.
async fn get_once(
    core: &Core,
    key: &Key,
    len_max: u32,
    more: impl Iterator<Item = (String, String)>,
) -> Result<(FirstBytes, ResponseHead), ClientError> {
    let operation = core.on_key("GetObject", key);
    let mut headers = core.headers_of("GetObject");
    headers.extend(more);
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
        let info = info_of(&operation, key, len_max, &answer.head)?;
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
        Ok((FirstBytes { info, bytes }, answer.head))
    };
    exchange::retry(core, Call::quick(operation.clone()), attempt).await
}

/// Size, version and times of the object. A server that ignores the range sends the whole object;
/// so may a gateway seem to do, which sends a page.
pub(in crate::crt_client) fn info_of(
    operation: &Operation,
    key: &Key,
    len_max: u32,
    head: &ResponseHead,
) -> Result<ObjectInfo, Fault> {
    let size = match header(head, "content-range") {
        Some(range) => parse_content_range(range).and_then(|(range, size)| {
            // A range that ends early ends where the object does.
            let is_cut = range.end < len_max.into();
            let size = size.or_else(|| is_cut.then_some(range.end))?;
            (range == (0..size.min(len_max.into()))).then_some(size)
        }),
        None if !is_signed(|name| head.header(name)) => return Err(of_page(operation, head, b"")),
        // Some proxies drop the header. The answer may then be a part of the object.
        None if head.status == PARTIAL => None,
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

const PARTIAL: u16 = 206;
const RANGE_NOT_SATISFIABLE: u16 = 416;
