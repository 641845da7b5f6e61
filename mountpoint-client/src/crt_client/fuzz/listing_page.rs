//! Pages of listings, as the fuzzer makes them.

use mountpoint_crt_sys::Response;

use super::answer::{Answer, assert_shown};
use crate::crt_client::control::listing::page::Page;
use crate::crt_client::fault::Operation;
use crate::types::{ETag, ListOutput, ListRequest};

/// A page of a listing: the first line of the input is the prefix that was asked for, a header is
/// the token of this page, the rest is the document.
pub(crate) fn listing_page(data: &[u8]) {
    let Answer { asked, head, body } = Answer::read(data);
    let request = ListRequest {
        prefix: asked,
        delimiter: Some("/".to_owned()),
        continuation_token: head.header("token").map(str::to_owned),
        ..ListRequest::default()
    };
    let operation = Operation::on_bucket("ListObjectsV2", "bucket");
    let page = Page {
        operation: &operation,
        request: &request,
    };
    let body = body.to_vec();
    let read = page.of_answer(&Response { head, body });
    match read {
        Ok(page) => check(&request, &page),
        Err(fault) => assert_shown(&fault.error),
    }
}

fn check(request: &ListRequest, page: &ListOutput) {
    let ListOutput {
        objects,
        common_prefixes,
        continuation_token,
        ..
    } = page;
    assert!(objects.is_sorted_by(|a, b| a.key < b.key), "{objects:?}");
    assert!(
        common_prefixes.is_sorted_by(|a, b| a < b),
        "{common_prefixes:?}"
    );
    for object in objects {
        assert!(object.key.as_str().starts_with(&request.prefix));
        assert!(i64::try_from(object.size).is_ok(), "{object:?}");
        let tells_no_version = object.etag == ETag::none();
        let is_unreadable = object.key.is_marker() || object.key.why_made_up().is_some();
        assert!(!tells_no_version || is_unreadable, "{object:?}");
    }
    for prefix in common_prefixes {
        assert!(prefix.starts_with(&request.prefix) && prefix.ends_with('/'));
    }
    let is_same_page = continuation_token.is_some()
        && continuation_token.as_ref() == request.continuation_token.as_ref();
    assert!(!is_same_page, "{continuation_token:?}");
}
