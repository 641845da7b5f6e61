//! Signatures: which requests a server with credentials accepts.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::error::ProvideErrorMetadata;

use super::*;

async fn code(server: &Server, keys: Option<(&str, &str)>) -> Option<String> {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(server.url())
        .force_path_style(true)
        .region(Region::new("us-east-1"));
    let config = match keys {
        Some((access, secret)) => {
            config.credentials_provider(Credentials::new(access, secret, None, None, "test"))
        }
        None => config.allow_no_auth(),
    };
    let answer = Client::from_conf(config.build())
        .list_objects_v2()
        .bucket("bucket")
        .send()
        .await;
    answer
        .err()
        .map(|error| error.code().unwrap_or_default().to_owned())
}

#[test]
fn only_the_right_keys_are_accepted() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let credentials = Some(("right".to_owned(), "secret".to_owned()));
    let server = Server::start(ServerOptions {
        credentials,
        ..ServerOptions::default()
    })
    .unwrap();
    server.store().create_bucket("bucket");
    let cases = [
        (Some(("right", "secret")), None),
        (Some(("right", "wrong")), Some("SignatureDoesNotMatch")),
        (Some(("wrong", "secret")), Some("InvalidAccessKeyId")),
        (None, Some("AccessDenied")),
    ];
    for (keys, expected) in cases {
        assert_eq!(
            runtime.block_on(code(&server, keys)).as_deref(),
            expected,
            "{keys:?}"
        );
    }
    assert_eq!(server.log().counters(Operation::ListObjectsV2).errors, 3);
    server.set_credentials("new", "other");
    for (keys, expected) in [
        (Some(("right", "secret")), Some("InvalidAccessKeyId")),
        (Some(("new", "other")), None),
    ] {
        let code = runtime.block_on(code(&server, keys));
        assert_eq!(code.as_deref(), expected, "{keys:?}, replaced");
    }
    let open = start();
    for keys in [Some(("any", "thing")), None] {
        assert_eq!(runtime.block_on(code(&open, keys)), None, "{keys:?}");
    }
}
