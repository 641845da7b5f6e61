//! ListObjectsV2, with keys URL-encoded in the answer because XML cannot hold every character a key
//! can.
//!
//! Servers are not believed: names must have the prefix asked for and appear once, and a page must
//! lead on. Some do not sort, so each page is put in order here; across pages the order is the
//! server's. A page without entries may continue: it is followed here, to the first page that has
//! some or is the last, so that no user of listings takes it for the end.

pub(in crate::crt_client) mod page;
pub(in crate::crt_client) mod xml;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mountpoint_crt_sys::Message;

use page::Page;

use super::exchange::{self, Exchange};
use crate::crt_client::core::{Call, Core, reading, refused};
use crate::crt_client::fault::{Fault, Operation};
use crate::endpoint::encode_query;
use crate::types::{ListOutput, ListRequest};
use crate::{ClientError, ErrorKind, PageCycle, Pending};

pub(in crate::crt_client) fn list(core: &Arc<Core>, request: ListRequest) -> Pending<ListOutput> {
    let operation = core.on_bucket("ListObjectsV2");
    let delimiter = request.delimiter.as_deref();
    if core.is_directory_bucket
        && let Err(what) = check_whole_directory(&request.prefix, delimiter)
    {
        return refused(operation.error(ErrorKind::InvalidRequest, what));
    }
    if core.is_directory_bucket && request.start_after.is_some() {
        let what = "a directory bucket lists in no order, so from no key on";
        return refused(operation.error(ErrorKind::InvalidRequest, what));
    }
    let core_of_task = Arc::clone(core);
    reading(core, async move {
        first_with_entries(&core_of_task, &operation, request).await
    })
}

/// The page that was asked for, or the next one that has entries or is the last.
async fn first_with_entries(
    core: &Arc<Core>,
    operation: &Operation,
    mut request: ListRequest,
) -> Result<ListOutput, ClientError> {
    let mut slow_downs = 0;
    let mut tokens = PageCycle::default();
    for _ in 0..EMPTY_PAGES_MAX {
        let mut page = one_page(core, operation, &request).await?;
        slow_downs += page.slow_downs;
        page.slow_downs = slow_downs;
        let is_empty = page.objects.is_empty() && page.common_prefixes.is_empty();
        let Some(token) = page.continuation_token.take_if(|_| is_empty) else {
            return Ok(page);
        };
        tracing::debug!(
            "a page of the listing of {:?} is empty and continues",
            request.prefix
        );
        if tokens.repeats(&token) {
            let what = "the listing's pages have no entries, and repeat";
            return Err(operation.error(ErrorKind::InvalidResponse, what));
        }
        request.continuation_token = Some(token);
    }
    let what = format!("the listing has {EMPTY_PAGES_MAX} pages in a row without entries");
    Err(operation.error(ErrorKind::InvalidResponse, &what))
}

async fn one_page(
    core: &Arc<Core>,
    operation: &Operation,
    request: &ListRequest,
) -> Result<ListOutput, ClientError> {
    let slow_downs = AtomicU32::new(0);
    let message = Message {
        operation: "ListObjectsV2",
        method: "GET",
        path: path(&core.endpoint.bucket_path(), request),
        headers: core.headers_of("ListObjectsV2"),
    };
    let exchange = Exchange::control(core, operation, message);
    let attempt = || async {
        let answer = match exchange.send().await {
            // Some servers say so of a prefix without keys.
            Err(fault) if is_empty(request, &fault) => return Ok(ListOutput::default()),
            answer => answer.inspect_err(|fault| {
                if fault.error.kind == ErrorKind::Throttled {
                    slow_downs.fetch_add(1, Ordering::Relaxed);
                }
            })?,
        };
        let page = Page { operation, request };
        page.of_answer(&answer).map(|listed| ListOutput {
            slow_downs: slow_downs.load(Ordering::Relaxed),
            ..listed
        })
    };
    exchange::retry(core, Call::quick(operation.clone()), attempt).await
}

/// Whether a server says by `NoSuchKey` that nothing is to be listed.
fn is_empty(request: &ListRequest, fault: &Fault) -> bool {
    fault.error.kind == ErrorKind::NotFound && request.continuation_token.is_none()
}

/// The path and query that ask for a page.
fn path(bucket: &str, request: &ListRequest) -> String {
    let mut path = format!("{bucket}?list-type=2&encoding-type=url");
    let prefix = (!request.prefix.is_empty()).then_some(&request.prefix);
    for (name, value) in [
        ("prefix", prefix),
        ("delimiter", request.delimiter.as_ref()),
        ("start-after", request.start_after.as_ref()),
        ("continuation-token", request.continuation_token.as_ref()),
    ] {
        if let Some(value) = value {
            path.push('&');
            path.push_str(name);
            path.push('=');
            path.push_str(&encode_query(value));
        }
    }
    if let Some(max_keys) = request.max_keys {
        write!(path, "&max-keys={max_keys}").expect("memory can be written to");
    }
    path
}

/// Refuses what a directory bucket cannot list: it lists a directory and all keys below.
pub(in crate::crt_client) fn check_whole_directory(
    prefix: &str,
    delimiter: Option<&str>,
) -> Result<(), &'static str> {
    if !matches!(delimiter, None | Some("" | "/")) {
        return Err("a directory bucket knows no delimiter but /");
    }
    if !prefix.is_empty() && !prefix.ends_with('/') {
        return Err("a directory bucket lists whole directories: the prefix must end with /");
    }
    Ok(())
}

/// Pages without entries in a row that are followed. Stores make such pages where much was deleted,
/// or where only unfinished uploads are; a thousand of them stand for a million keys.
const EMPTY_PAGES_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_in_the_query() {
        let plain = ListRequest::default();
        let all = ListRequest {
            prefix: "p +/\u{fc}".to_owned(),
            delimiter: Some("/".to_owned()),
            start_after: Some("a&b=c?".to_owned()),
            continuation_token: Some("1/x+=".to_owned()),
            max_keys: Some(7),
        };
        for (request, expected) in [
            (&plain, ""),
            (
                &all,
                "&prefix=p%20%2B%2F%C3%BC&delimiter=%2F&start-after=a%26b%3Dc%3F&continuation-token=1%2Fx%2B%3D\
                 &max-keys=7",
            ),
        ] {
            let expected = format!("/b/?list-type=2&encoding-type=url{expected}");
            assert_eq!(path("/b/", request), expected);
        }
    }
}
