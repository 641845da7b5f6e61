use std::sync::Arc;
use std::sync::mpsc::channel;

use bytes::Bytes;

use super::probe::{SOON, client, message, send};
use super::runtime;
use super::server::{self, Server, Then, answer};
use crate::{ErrorKind, Message};

#[test]
fn a_borrowed_body_is_echoed() {
    let server = Server::start(|request, wire| answer(wire, "200 OK", &request.body));
    let client = client(runtime(), &server.endpoint());
    static BODY: [u8; 3_000_000] = [42; 3_000_000];
    for len in [0, 1, 100, 3_000_000] {
        let response = send(&client, message("PutObject", "PUT", "/b/k"), &BODY[..len]).unwrap();
        assert_eq!(response.head.status, 200);
        assert!(response.body == BODY[..len]);
    }
}

#[test]
fn the_body_is_released_after_the_request() {
    struct Owner {
        _alive: Arc<()>,
    }
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            b"some bytes"
        }
    }
    let server = Server::start(|request, wire| answer(wire, "200 OK", &request.body));
    let client = client(runtime(), &server.endpoint());
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    let (sender, receiver) = channel();
    let body = Bytes::from_owner(Owner { _alive: alive });
    let _cancel = client.send(
        message("PutObject", "PUT", "/b/k"),
        body,
        Box::new(move |it| sender.send(it).unwrap()),
    );
    assert_eq!(
        receiver.recv_timeout(SOON).unwrap().unwrap().body,
        b"some bytes"
    );
    while weak.strong_count() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn what_is_sent_is_what_was_asked_for() {
    let server = Server::start(|request, wire| {
        let text = format!(
            "{} {} {:?}",
            request.method,
            request.path,
            request.header("content-length")
        );
        answer(wire, "200 OK", text.as_bytes())
    });
    let client = client(runtime(), &server.endpoint());
    let check = |operation, method, path, body: &'static [u8], expected: &str| {
        let body = send(&client, message(operation, method, path), body)
            .unwrap()
            .body;
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    };
    check(
        "ListObjectsV2",
        "GET",
        "/b?list-type=2&prefix=a%2F",
        b"",
        "GET /b?list-type=2&prefix=a%2F None",
    );
    check(
        "PutObject",
        "PUT",
        "/b/a//b/../c",
        b"x",
        "PUT /b/a//b/../c Some(\"1\")",
    );
    check(
        "CreateMultipartUpload",
        "POST",
        "/b/k?uploads",
        b"",
        "POST /b/k?uploads Some(\"0\")",
    );
    check("DeleteObject", "DELETE", "/b/k", b"", "DELETE /b/k None");
}

#[test]
fn errors_bring_head_and_body() {
    for status in [404, 409, 500, 503] {
        let server =
            Server::start(move |_, wire| answer(wire, &format!("{status} Test"), b"<Error/>"));
        let client = client(runtime(), &server.endpoint());
        let failure = send(&client, message("PutObject", "PUT", "/b/k"), b"x").unwrap_err();
        assert_eq!(failure.error.kind(), ErrorKind::Response);
        let head = failure.head.unwrap();
        assert_eq!((head.status, head.header("X-TEST")), (status, Some("yes")));
        assert_eq!(failure.body, b"<Error/>");
    }
}

#[test]
fn an_error_in_a_successful_answer_is_a_failure() {
    let server = Server::start(|_, wire| {
        answer(
            wire,
            "200 OK",
            b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>",
        )
    });
    let client = client(runtime(), &server.endpoint());
    let failure = send(
        &client,
        message("CompleteMultipartUpload", "POST", "/b/k?uploadId=1"),
        b"<a/>",
    )
    .unwrap_err();
    assert_eq!(failure.error.kind(), ErrorKind::Response);
    assert_eq!(failure.head.unwrap().status, 200);
    assert!(
        String::from_utf8(failure.body)
            .unwrap()
            .contains("AccessDenied")
    );
}

#[test]
fn head_requests_have_no_body() {
    let server = Server::start(|_, wire| {
        server::send(
            wire,
            b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: \"e\"\r\n\r\n",
        );
        Then::Keep
    });
    let client = client(runtime(), &server.endpoint());
    let response = send(&client, message("HeadObject", "HEAD", "/b/k"), b"").unwrap();
    assert_eq!(response.head.header("content-length"), Some("1234"));
    assert!(response.body.is_empty());
}

#[test]
fn a_huge_answer_is_refused() {
    let server = Server::start(|_, wire| {
        answer(wire, "200 OK", &vec![0; 9 << 20]);
        Then::Close
    });
    let client = client(runtime(), &server.endpoint());
    let failure = send(
        &client,
        message("ListObjectsV2", "GET", "/b?list-type=2"),
        b"",
    )
    .unwrap_err();
    assert_eq!(failure.error.name(), "LARGE_BODY");
}

#[test]
fn a_request_that_cannot_be_made_fails_on_another_thread() {
    let server = Server::start(|_, wire| answer(wire, "200 OK", b""));
    let client = client(runtime(), &server.endpoint());
    let request = Message {
        headers: vec![("X-Bad".into(), "a\r\nb".into())],
        ..message("PutObject", "PUT", "/b/k")
    };
    assert!(send(&client, request, b"x").is_err());
}
