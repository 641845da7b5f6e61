//! The first bytes of an object that nobody has seen yet: one GetObject that also tells what HeadObject would.
//!
//! Over the SDK, because a GET into a block has to know its length beforehand. Bytes are copied, so for small ones.

use std::sync::Arc;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use bytes::Bytes;

use super::core::{Call, Core, reading};
use super::fault::{Fault, Operation};
use super::objects::{self, etag, invalid, is_restored, system_time};
use super::sdk_fault::of_sdk;
use crate::types::{Front, Key, ObjectInfo};
use crate::{ClientError, ErrorKind, Pending};

pub(super) fn front(core: &Arc<Core>, key: &Key, len_max: u32) -> Pending<Front> {
    assert!(len_max > 0, "at least one byte is asked for");
    let got = get(core, key, len_max);
    let (core, key) = (Arc::clone(core), key.clone());
    Box::pin(async move {
        match got.await {
            // An empty object has no first byte.
            Err(error) if error.status == Some(RANGE_NOT_SATISFIABLE) => {
                let info = objects::head(&core, &key).await?;
                if info.size == 0 {
                    return Ok(Front {
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

fn get(core: &Arc<Core>, key: &Key, len_max: u32) -> Pending<Front> {
    let (core_of_task, key) = (Arc::clone(core), key.clone());
    reading(core, async move {
        let core = core_of_task;
        let operation = core.on_key("GetObject", &key);
        let attempt = || async {
            let call = core
                .sdk
                .get_object()
                .bucket(&core.bucket)
                .key(key.as_str())
                .range(format!("bytes=0-{}", len_max - 1));
            let output = call
                .send()
                .await
                .map_err(|error| of_sdk(&operation, &error))?;
            let info = info_of(&operation, &key, &output)?;
            let wanted = info.size.min(u64::from(len_max));
            if output
                .content_length()
                .is_none_or(|len| u64::try_from(len).ok() != Some(wanted))
            {
                let what = "the answer is not as long as the range that was asked for";
                return Err(invalid(&operation, what));
            }
            let body = output.body.collect().await.map_err(|error| {
                let what = format!("the body broke off: {error}");
                operation.error(ErrorKind::Transient, &what)
            })?;
            let bytes = body.into_bytes();
            if bytes.len() as u64 != wanted {
                let what = "the body is not as long as its head says";
                return Err(operation.error(ErrorKind::Transient, what).into());
            }
            Ok(Front { info, bytes })
        };
        core.retry(Call::quick(operation.clone()), attempt).await
    })
}

/// What the head of the answer says of the object. A server that ignores the range sends all of it.
fn info_of(
    operation: &Operation,
    key: &Key,
    output: &GetObjectOutput,
) -> Result<ObjectInfo, Fault> {
    let size = match output.content_range() {
        Some(range) => range
            .rsplit_once('/')
            .filter(|(range, _)| range.starts_with("bytes 0-"))
            .and_then(|(_, size)| size.parse().ok()),
        None => output
            .content_length()
            .and_then(|length| u64::try_from(length).ok()),
    };
    let Some(size) = size else {
        return Err(invalid(
            operation,
            "the answer does not say how large the object is",
        ));
    };
    Ok(ObjectInfo {
        key: key.clone(),
        size,
        etag: etag(operation, output.e_tag())?,
        last_modified: system_time(output.last_modified()),
        storage_class: output
            .storage_class()
            .map(|class| class.as_str().to_owned()),
        restored: is_restored(output.restore()),
    })
}

const RANGE_NOT_SATISFIABLE: u16 = 416;
