//! The bound on attempts, and endpoints by IPv6 address: both hold for data and for control
//! requests.

use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::testing::server::{Fault, Operation, Rule};

use crate::support::bucket::{connect, options, server, server_at};

#[test]
fn no_request_is_tried_more_often_than_told() {
    let server = server();
    let failing = Fault::Error {
        status: 500,
        code: "InternalError",
    };
    server.faults().add(Rule::always(failing));
    for attempts in [1, 3] {
        server.log().clear();
        let mut options = options(&server.url());
        options.credentials = CredentialsMode::Unsigned;
        options.max_attempts = attempts;
        let client = connect(options).unwrap();
        client.head().unwrap_err();
        client.get().unwrap_err();
        client.put().unwrap_err();
        for operation in [
            Operation::HeadObject,
            Operation::GetObject,
            Operation::PutObject,
        ] {
            assert_eq!(
                server.log().count(operation),
                u64::from(attempts),
                "{operation:?}"
            );
        }
    }
}

#[test]
fn an_ipv6_address_is_an_endpoint() {
    let server = server_at("[::1]:0");
    let mut options = options(&server.url());
    assert!(
        options
            .endpoint_url
            .as_ref()
            .unwrap()
            .starts_with("http://[::1]:")
    );
    options.credentials = CredentialsMode::Unsigned;
    connect(options).unwrap().use_all().unwrap();
}
