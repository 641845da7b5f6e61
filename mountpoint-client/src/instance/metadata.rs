//! The client of the instance metadata service (IMDSv2), bounded so that a start off EC2 can bear
//! it.

use std::time::Duration;

use aws_config::imds;
use aws_config::provider_config::ProviderConfig;
use aws_smithy_runtime_api::client::http::SharedHttpClient;

/// A client over `http`, which must not use a proxy: the service answers this machine only. Its
/// address may come from the SDK's own settings (`AWS_EC2_METADATA_SERVICE_ENDPOINT`).
pub(crate) fn metadata_client(http: SharedHttpClient) -> imds::Client {
    let config = ProviderConfig::without_region().with_http_client(http);
    imds::Client::builder()
        .configure(&config)
        .connect_timeout(METADATA_TIMEOUT)
        .read_timeout(METADATA_TIMEOUT)
        .operation_timeout(METADATA_TIMEOUT)
        .max_attempts(METADATA_ATTEMPTS)
        .build()
}

/// One question. Instance metadata answers within milliseconds on EC2 and never elsewhere.
const METADATA_TIMEOUT: Duration = Duration::from_secs(1);
const METADATA_ATTEMPTS: u32 = 2;
