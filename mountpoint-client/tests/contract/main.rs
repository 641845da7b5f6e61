//! The contract suite: `CrtClient` against real servers that know nothing of this project, and
//! against our own.
//!
//! The foreign ones are programs in the directory that `MOUNTPOINT_TEST_SERVERS` names; `make
//! test-servers` builds them.

mod servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::executor::block_on;
use mountpoint_client::credentials::{CredentialsMode, StaticKeys};
use mountpoint_client::testing::contract::{Capabilities, Server, Subject, run_all};
use mountpoint_client::{CrtClient, CrtClientOptions, ObjectClient};
use servers::{ACCESS_KEY, BUCKET, Program, SECRET_KEY};

/// Runs every case through `CrtClient` against the server at `endpoint`.
#[track_caller]
fn check(server: Server, endpoint: &str) {
    check_bucket(server, endpoint, BUCKET);
}

#[track_caller]
#[expect(clippy::print_stdout, reason = "what is skipped must be seen")]
fn check_bucket(server: Server, endpoint: &str, bucket: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be started");
    let mut options = CrtClientOptions::new(bucket);
    options.region = Some("us-east-1".to_owned());
    options.endpoint_url = Some(endpoint.to_owned());
    options.force_path_style = true;
    options.credentials = CredentialsMode::Static(StaticKeys {
        access_key_id: ACCESS_KEY.to_owned(),
        secret_access_key: SECRET_KEY.to_owned(),
        session_token: None,
    });
    let client =
        block_on(CrtClient::connect(options, runtime.handle().clone())).expect("the client starts");
    block_on(client.head_bucket()).expect("the bucket is there");
    let client: Arc<dyn ObjectClient> = Arc::new(client);
    let number = AtomicU32::new(0);
    let report = run_all(|| Subject {
        client: Arc::clone(&client),
        prefix: format!("contract-{}/", number.fetch_add(1, Ordering::Relaxed)),
        capabilities: Capabilities::of(server),
    });
    println!("{server:?}: {report}");
    assert!(report.failures().is_empty(), "{server:?}: {report}");
}

#[cfg(feature = "server")]
#[test]
fn embedded() {
    use mountpoint_client::testing::server::{Server as Embedded, ServerOptions};
    let credentials = Some((ACCESS_KEY.to_owned(), SECRET_KEY.to_owned()));
    let server = Embedded::start(ServerOptions {
        credentials,
        ..ServerOptions::default()
    })
    .unwrap();
    server.store().create_bucket(BUCKET);
    check(Server::Embedded, &server.url());
}

#[cfg(feature = "server")]
#[test]
fn embedded_directory_bucket() {
    use mountpoint_client::testing::server::Server as Embedded;
    let bucket = "contract--usw2-az1--x-s3";
    let server = Embedded::start_with_bucket(bucket).unwrap();
    check_bucket(Server::EmbeddedDirectory, &server.url(), bucket);
}

#[test]
fn minio() {
    let server = Program::minio();
    check(Server::Minio, server.endpoint());
}

#[test]
fn versitygw() {
    let server = Program::versitygw();
    check(Server::Versitygw, server.endpoint());
}
