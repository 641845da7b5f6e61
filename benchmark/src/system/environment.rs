//! The environment that each system is started with.

use std::process::Command;

use super::address::Address;

/// Variables that this machine's user may have set for other buckets.
const NOT_INHERITED: [&str; 11] = [
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_PROFILE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "AWS_CONFIG_FILE",
];

/// Variables of the user's own server, if that is measured.
const OF_A_GIVEN_SERVER: [&str; 2] = ["AWS_CA_BUNDLE", "AWS_SESSION_TOKEN"];

/// Variables that name a file of authorities, for programs with an AWS SDK, with curl, and in Go.
pub(super) const OF_AUTHORITY: [&str; 3] = ["AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"];

/// Every system gets server and credentials through its environment.
pub(super) fn set_environment(command: &mut Command, address: &Address<'_>) {
    let access = address.access;
    let foreign = OF_A_GIVEN_SERVER.iter().filter(|_| !access.is_given);
    for name in NOT_INHERITED.iter().chain(foreign) {
        command.env_remove(name);
    }
    command.envs([
        ("AWS_ACCESS_KEY_ID", access.key_id.as_str()),
        ("AWS_SECRET_ACCESS_KEY", &access.secret),
        ("AWSACCESSKEYID", &access.key_id),
        ("AWSSECRETACCESSKEY", &access.secret),
        ("AWS_REGION", &access.region),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("RCLONE_S3_PROVIDER", "Other"),
        ("RCLONE_S3_ENV_AUTH", "true"),
        ("RCLONE_S3_ENDPOINT", &address.url),
    ]);
    if let Some(authority) = address.authority {
        command.envs(OF_AUTHORITY.map(|name| (name, authority)));
    }
}
