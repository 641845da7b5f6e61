//! Heads of objects.

use mountpoint_crt_sys::ResponseHead;

use super::answer::{Answer, assert_shown};
use crate::crt_client::control::object_head::object_details;
use crate::crt_client::fault::{Operation, is_signed, may_be_page};
use crate::types::Key;

/// The head of an object. Its headers can be sent again, and are then read as the same.
pub(crate) fn object_head(data: &[u8]) {
    let Answer { head, .. } = Answer::read(data);
    assert!(!may_be_page(&head) || !is_signed(|name| head.header(name)));
    let key = Key::parse("key").expect("a possible key");
    let operation = Operation::on_key("HeadObject", "bucket", &key);
    let details = match object_details(&operation, &key, &head) {
        Ok(details) => details,
        Err(fault) => return assert_shown(&fault.error),
    };
    assert!(i64::try_from(details.info.size).is_ok());
    if details.headers.check().is_err() {
        return;
    }
    let mut headers = details.headers.fields(true);
    let token = details.token.iter().map(|token| {
        let name = "x-amz-meta-mount-s3-token".to_owned();
        (name, token.as_str().to_owned())
    });
    headers.extend(token);
    headers.push(("Content-Length".to_owned(), "1".to_owned()));
    headers.push(("ETag".to_owned(), details.info.etag.as_str().to_owned()));
    let head = ResponseHead {
        status: 200,
        headers,
    };
    let again = object_details(&operation, &key, &head);
    let again = again.expect("what was read can be read again");
    assert_eq!(again.headers, details.headers);
    assert_eq!(again.token, details.token);
    assert_eq!(again.info.etag, details.info.etag);
}
