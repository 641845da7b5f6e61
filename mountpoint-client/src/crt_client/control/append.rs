//! PutObject behind the end of an object, on directory buckets only.
//!
//! A server that ignores the offset replaces the whole object by the bytes. So the request is sent
//! only to a server that has opened a session, and after an answer without the object's new size
//! the object is checked.
//!
//! Repeating it is safe: the version and the offset are conditions, which hold only once.

use std::sync::Arc;

use mountpoint_crt_sys::{Message, ResponseHead};
use parking_lot::Mutex;

use super::answer::no_etag;
use super::object_head::head;
use super::object_headers::checksum_header;
use super::upload::send;
use crate::crt_client::core::{Core, refused, writing};
use crate::crt_client::fault::{Fault, Operation};
use crate::types::{AppendRequest, ETag, Key, PutOutput};
use crate::{ClientError, ErrorKind, Pending};

pub(in crate::crt_client) fn append(
    core: &Arc<Core>,
    request: AppendRequest,
) -> Pending<PutOutput> {
    let operation = core.on_key("PutObject", &request.key);
    if core.sessions.is_none() {
        let what = "only directory buckets append to an object";
        return refused(operation.error(ErrorKind::Unsupported, what));
    }
    let message = message(core, &request);
    let AppendRequest {
        key, offset, body, ..
    } = request;
    let size = offset + body.len() as u64;
    let core_of_task = Arc::clone(core);
    writing(core, async move {
        let core = core_of_task;
        let told = Mutex::new(None);
        // The checksum in the answer is that of the whole object, and says nothing of these bytes.
        let note = |_: &Operation, answer: &ResponseHead| -> Result<(), Fault> {
            *told.lock() = answer
                .header("x-amz-object-size")
                .and_then(|size| size.trim().parse().ok());
            Ok(())
        };
        let etag = send(&core, operation.clone(), message, body, note).await?;
        let etag = etag.ok_or_else(|| no_etag(&operation))?;
        let told = *told.lock();
        let found = match told {
            Some(size) => size,
            None => size_of(&core, &key, &etag, size).await?,
        };
        if found == size {
            Ok(PutOutput { etag })
        } else {
            Err(not_appended(&operation, found, size))
        }
    })
}

fn message(core: &Core, request: &AppendRequest) -> Message {
    let AppendRequest {
        key,
        offset,
        if_match,
        checksum,
        ..
    } = request;
    let mut headers = core.headers_of("PutObject");
    headers.push(("If-Match".to_owned(), if_match.as_str().to_owned()));
    headers.push(("x-amz-write-offset-bytes".to_owned(), offset.to_string()));
    headers.extend(checksum.map(checksum_header));
    Message {
        operation: "PutObject",
        method: "PUT",
        path: core.endpoint.path(key),
        headers,
    }
}

/// The size of the object, if it is still the version `etag`; what was `expected` otherwise.
async fn size_of(
    core: &Arc<Core>,
    key: &Key,
    etag: &ETag,
    expected: u64,
) -> Result<u64, ClientError> {
    let info = head(core, key).await?;
    let is_its = info.etag.matches(etag);
    Ok(if is_its { info.size } else { expected })
}

fn not_appended(operation: &Operation, found: u64, expected: u64) -> ClientError {
    let what = format!(
        "the server appends nothing: the object has {found} bytes where {expected} were expected; \
         is this a directory bucket (--bucket-type)?"
    );
    operation.error(ErrorKind::InvalidResponse, &what)
}
