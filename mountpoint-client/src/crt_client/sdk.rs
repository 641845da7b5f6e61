//! The settings of the AWS SDK's client.

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, IdentityCache, Region, RequestChecksumCalculation, ResponseChecksumValidation,
    StalledStreamProtectionConfig,
};
use aws_smithy_runtime_api::client::http::SharedHttpClient;

use super::options::CONNECT_TIMEOUT;
use super::request_log::AttemptLog;
use crate::credentials::CredentialsCache;
use crate::endpoint::Endpoint;

/// How the SDK sends: to our endpoint, with our keys, without retries of its own, since they are
/// ours.
pub(super) fn sdk_config(
    http: SharedHttpClient,
    region: Region,
    endpoint: &Endpoint,
    attempts: AttemptLog,
    credentials: Option<CredentialsCache>,
) -> aws_sdk_s3::config::Builder {
    let mut config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .http_client(http)
        .region(region)
        .endpoint_resolver(endpoint.clone())
        .interceptor(attempts)
        .retry_config(RetryConfig::disabled())
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(CONNECT_TIMEOUT)
                .build(),
        )
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .identity_cache(IdentityCache::no_cache());
    config = match credentials {
        // With a provider of sessions given, the SDK opens none of its own.
        Some(credentials) => config
            .credentials_provider(credentials.clone())
            .express_credentials_provider(credentials),
        None => config.allow_no_auth(),
    };
    config
}
