use std::sync::Arc;

use super::http::spawn;
use super::probe::{get, message, options, send};
use super::server::{Server, answer};
use super::{panic_silently, runtime};
use crate::{
    Client, ClientOptions, Credentials, CredentialsReply, CredentialsSource, ErrorKind, Signing,
};

struct Source<F>(F);

impl<F: Fn(CredentialsReply) + Send + Sync> CredentialsSource for Source<F> {
    fn fetch(&self, reply: CredentialsReply) {
        (self.0)(reply);
    }
}

fn signed_client(
    endpoint: &str,
    fetch: impl Fn(CredentialsReply) + Send + Sync + 'static,
) -> Client {
    let signing = Signing::SigV4 {
        region: "eu-test-1".into(),
        service: "s3".into(),
        source: Arc::new(Source(fetch)),
    };
    client_with(endpoint, signing)
}

fn client_with(endpoint: &str, signing: Signing) -> Client {
    Client::new(
        runtime(),
        &ClientOptions {
            signing,
            ..options(endpoint)
        },
    )
    .unwrap()
}

fn keys() -> Credentials {
    Credentials {
        access_key_id: "AKIDTEST".into(),
        secret_access_key: "secret".into(),
        session_token: Some("token".into()),
        expires: None,
    }
}

fn echo_server() -> Server {
    Server::start(|request, wire| {
        let headers = [
            "authorization",
            "x-amz-content-sha256",
            "x-amz-security-token",
            "x-amz-s3session-token",
            "x-amz-region-set",
        ];
        let values: Vec<_> = headers
            .iter()
            .map(|name| request.header(name).unwrap_or("none"))
            .collect();
        answer(
            wire,
            "200 OK",
            format!("{}\n{}", values.join("\n"), request.path).as_bytes(),
        )
    })
}

#[test]
fn answers_may_come_at_once_or_late_from_another_thread() {
    let server = echo_server();
    let at_once = signed_client(&server.endpoint(), |reply| reply.send(Ok(keys())));
    let late = signed_client(&server.endpoint(), |reply| {
        spawn(move || reply.send(Ok(keys())));
    });
    for client in [at_once, late] {
        let body = send(&client, message("PutObject", "PUT", "/b/a//../k%20"), b"x")
            .unwrap()
            .body;
        let body = String::from_utf8(body).unwrap();
        let lines: Vec<_> = body.lines().collect();
        assert!(
            lines[0].starts_with("AWS4-HMAC-SHA256 Credential=AKIDTEST/"),
            "{body}"
        );
        assert!(lines[0].contains("/eu-test-1/s3/aws4_request"), "{body}");
        assert_eq!(
            lines[1..],
            ["UNSIGNED-PAYLOAD", "token", "none", "none", "/b/a//../k%20"]
        );
    }
}

#[test]
fn no_credentials_no_request() {
    let server = echo_server();
    let failing: [fn(CredentialsReply); 4] = [
        |reply| reply.send(Err("no keys here".into())),
        |reply| spawn(move || reply.send(Err("no keys here".into()))),
        drop,
        |_| panic_silently(),
    ];
    for fetch in failing {
        let client = signed_client(&server.endpoint(), fetch);
        let failure = send(&client, message("PutObject", "PUT", "/b/k"), b"x").unwrap_err();
        assert_eq!(failure.error.kind(), ErrorKind::Credentials, "{failure:?}");
        let (fill, failure) = get(&client, 0..100).failure();
        assert_eq!(failure.error.kind(), ErrorKind::Credentials, "{failure:?}");
        assert_eq!(fill.filled(), 0);
    }
}

#[test]
fn each_algorithm_has_its_scope_and_headers() {
    let server = echo_server();
    let source = || Arc::new(Source(|reply: CredentialsReply| reply.send(Ok(keys()))));
    let check = |signing: Signing, algorithm: &str, scope: &str, headers: [&str; 3]| {
        let shown = format!("{signing:?}");
        assert!(!shown.contains("secret"), "{shown}");
        let client = client_with(&server.endpoint(), signing);
        let body = send(&client, message("PutObject", "PUT", "/b/k"), b"x");
        let body = String::from_utf8(body.unwrap().body).unwrap();
        let lines: Vec<_> = body.lines().collect();
        let start = format!("{algorithm} Credential=AKIDTEST/");
        assert!(lines[0].starts_with(&start), "{shown}: {body}");
        assert!(lines[0].contains(scope), "{shown}: {body}");
        assert_eq!(lines[1], "UNSIGNED-PAYLOAD", "{shown}");
        assert_eq!(lines[2..5], headers, "{shown}");
    };
    check(
        Signing::SigV4 {
            region: "eu-test-1".into(),
            service: "s3-object-lambda".into(),
            source: source(),
        },
        "AWS4-HMAC-SHA256",
        "/eu-test-1/s3-object-lambda/aws4_request",
        ["token", "none", "none"],
    );
    check(
        Signing::SigV4a {
            regions: "*".into(),
            service: "s3".into(),
            source: source(),
        },
        "AWS4-ECDSA-P256-SHA256",
        "/s3/aws4_request",
        ["token", "none", "*"],
    );
    check(
        Signing::S3Express {
            region: "eu-test-1".into(),
            source: source(),
        },
        "AWS4-HMAC-SHA256",
        "/eu-test-1/s3express/aws4_request",
        ["none", "token", "none"],
    );
}

#[test]
fn a_session_without_a_token_signs_nothing() {
    let server = echo_server();
    let fetch = |reply: CredentialsReply| {
        reply.send(Ok(Credentials {
            session_token: None,
            ..keys()
        }));
    };
    let signing = Signing::S3Express {
        region: "eu-test-1".into(),
        source: Arc::new(Source(fetch)),
    };
    let client = client_with(&server.endpoint(), signing);
    let failure = send(&client, message("PutObject", "PUT", "/b/k"), b"x").unwrap_err();
    assert!(failure.head.is_none(), "{failure:?}");
}
