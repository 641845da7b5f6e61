//! The question that the endpoint rules answer.

/// The bucket and the settings that decide where requests go.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own that the user gives"
)]
pub struct EndpointQuestion<'a> {
    /// Bucket name, access point alias or ARN.
    pub bucket: &'a str,
    /// Region of the bucket. An ARN that names a region overrides it.
    pub region: &'a str,
    /// Endpoint given by the user, with its scheme.
    pub endpoint_url: Option<&'a str>,
    /// Whether the bucket goes into the path instead of the host name.
    pub force_path_style: bool,
    /// Whether the host has IPv6 addresses too.
    pub dual_stack: bool,
    /// Whether the host's cryptography is FIPS 140 validated.
    pub fips: bool,
    /// Whether requests go through the nearest edge location.
    pub transfer_acceleration: bool,
    /// Whether requests to directory buckets are signed with the credentials of a session.
    pub sessions: bool,
}

impl<'a> EndpointQuestion<'a> {
    /// The question for a bucket, with no setting changed.
    #[must_use]
    pub fn new(bucket: &'a str, region: &'a str) -> Self {
        Self {
            bucket,
            region,
            endpoint_url: None,
            force_path_style: false,
            dual_stack: false,
            fips: false,
            transfer_acceleration: false,
            sessions: true,
        }
    }
}
