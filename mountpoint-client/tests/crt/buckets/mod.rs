//! Kinds of buckets, and settings that every request carries, as the embedded server's log shows
//! them.

mod encryption;
mod sessions;

use std::net::{Ipv6Addr, SocketAddr};

use futures::executor::block_on;
use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::network::ProxySettings;
use mountpoint_client::testing::server::{Operation, ServerOptions};
use mountpoint_client::types::{ListRequest, PutCondition};
use mountpoint_client::{
    BucketType, ClientError, CrtClient, CrtClientOptions, ErrorKind, ObjectClient,
    ServerSideEncryption, SseCustomerKey,
};

use crate::support::embedded::{
    ALL, BUCKET, DIRECTORY, carry, fixture, one_of_each, server_of, server_with,
};
use crate::support::{Fixture, key};

/// All but RenameObject, which general purpose buckets are not asked for.
fn all_but_rename() -> Vec<&'static str> {
    ALL.into_iter()
        .filter(|name| *name != "RenameObject")
        .collect()
}

#[test]
fn payer_and_owner_are_on_every_request() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |options| {
        options.requester_pays = true;
        options.expected_bucket_owner = Some("123456789012".to_owned());
    });
    one_of_each(&fixture).unwrap();
    let records = server.log().take();
    carry(
        &records,
        "x-amz-request-payer",
        "requester",
        &all_but_rename(),
    );
    let owner = "123456789012";
    carry(
        &records,
        "x-amz-expected-bucket-owner",
        owner,
        &all_but_rename(),
    );
    let copies = ["CopyObject", "UploadPartCopy"];
    carry(
        &records,
        "x-amz-source-expected-bucket-owner",
        owner,
        &copies,
    );
}

#[test]
fn the_users_word_on_the_kind_counts() {
    let server = server_of(DIRECTORY);
    let plain = fixture(&server, DIRECTORY, |options| {
        options.bucket_type = Some(BucketType::GeneralPurpose);
    });
    // The server insists on a session; it is not asked for one.
    let error = block_on(plain.client.head(&key("k"))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert_eq!(server.log().count(Operation::CreateSession), 0);

    let server = server_of(BUCKET);
    let directory = fixture(&server, BUCKET, |options| {
        options.bucket_type = Some(BucketType::Directory);
    });
    block_on(directory.client.head(&key("k"))).unwrap();
    let refused = [
        block_on(
            directory
                .client
                .rename(&key("k"), &key("l"), PutCondition::None),
        ),
        block_on(directory.client.create_session()),
    ];
    for error in refused {
        assert_eq!(error.unwrap_err().kind, ErrorKind::Unsupported);
    }
    assert_eq!(server.log().count_all(), 1);
}

#[test]
fn a_directory_bucket_is_asked_for_whole_directories_only() {
    let server = server_of(DIRECTORY);
    let fixture = fixture(&server, DIRECTORY, |_| {});
    let list = |prefix: &str, delimiter: Option<&str>, start_after: Option<&str>| {
        let request = ListRequest {
            prefix: prefix.to_owned(),
            delimiter: delimiter.map(str::to_owned),
            start_after: start_after.map(str::to_owned),
            ..ListRequest::default()
        };
        block_on(fixture.client.list(request)).map(drop)
    };
    for (outcome, reason) in [
        (list("a", Some("/"), None), "must end with /"),
        (list("", Some("-"), None), "no delimiter but /"),
        (list("", None, Some("k")), "from no key on"),
        (
            block_on(fixture.client.list_uploads("a")).map(drop),
            "must end with /",
        ),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.message.contains(reason), "{error}");
    }
    assert_eq!(server.log().count_all(), 0);
    list("a/", Some("/"), None).unwrap();
    list("", None, None).unwrap();
}

#[test]
fn an_ipv6_address_is_an_endpoint() {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let options = ServerOptions {
        address,
        ..ServerOptions::default()
    };
    let server = server_with(BUCKET, options);
    let fixture = fixture(&server, BUCKET, |options| options.force_path_style = false);
    fixture.get(0..10, None).1.unwrap();
    block_on(fixture.client.head(&key("k"))).unwrap();
}

fn connect(change: impl FnOnce(&mut CrtClientOptions)) -> Result<String, ClientError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be started");
    let mut options = Fixture::options(SocketAddr::from(([127, 0, 0, 1], 9)));
    change(&mut options);
    let client = block_on(CrtClient::connect(options, runtime.handle().clone()))?;
    Ok(client.region().to_owned())
}

#[test]
fn the_region_of_an_arn_counts() {
    let region = connect(|options| {
        options.bucket = "arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/p".to_owned();
        options.endpoint_url = None;
        options.force_path_style = false;
        options.region = None;
    });
    assert_eq!(region.unwrap(), "cn-north-1");
}

#[test]
fn what_cannot_be_sent_is_refused_at_the_start() {
    let customer_key = |options: &mut CrtClientOptions| {
        options.sse_customer_key = Some(SseCustomerKey::new([0; 32]));
    };
    let proxies = |no_proxy| ProxySettings::parse(Some("http://p:3128"), None, no_proxy).unwrap();
    type Change<'a> = &'a dyn Fn(&mut CrtClientOptions);
    let cases: [(Change<'_>, &str); 5] = [
        (
            &|options| {
                customer_key(options);
                options.endpoint_url = Some("http://s3.example.org".to_owned());
            },
            "must be https://",
        ),
        (
            &|options| {
                customer_key(options);
                options.proxy = proxies(None);
            },
            "must be https:// or in no_proxy",
        ),
        (
            &|options| {
                customer_key(options);
                options.bucket = DIRECTORY.to_owned();
            },
            "directory buckets know no keys of customers",
        ),
        (
            &|options| {
                options.sse = Some(ServerSideEncryption::KmsDsse { key_id: None });
                options.bucket = DIRECTORY.to_owned();
            },
            "AES256 and aws:kms only",
        ),
        (
            &|options| options.dual_stack = true,
            "--dual-stack cannot be combined",
        ),
    ];
    for (change, reason) in cases {
        let error = connect(change).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error}");
        assert!(error.message.contains(reason), "{error}");
    }
    connect(|options| {
        customer_key(options);
        options.proxy = proxies(Some("127.0.0.1"));
        options.credentials = CredentialsMode::Unsigned;
    })
    .unwrap();
}
