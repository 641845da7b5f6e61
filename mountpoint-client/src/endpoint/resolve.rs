//! From a bucket and the settings of a mount to its endpoint.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU16;

use aws_sdk_s3::config::endpoint::{DefaultResolver, EndpointFuture, Params, ResolveEndpoint};
use aws_smithy_types::Document;
use aws_smithy_types::endpoint::Endpoint as ResolvedEndpoint;

use super::check::check;
use super::encode::encode_into;
use super::question::EndpointQuestion;
use crate::types::Key;
use crate::{ClientError, ErrorKind};

/// Where requests of one bucket go.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// `https://host[:port]`, without a path.
    pub origin: String,
    /// The part of the path before `/key`: empty, or `/bucket` with path style addressing.
    path_prefix: String,
    /// How requests are signed.
    pub signing_algorithm: SigningAlgorithm,
    /// Region that requests are signed for; for SigV4a the set of them, separated by commas, `*`
    /// for all.
    pub signing_region: String,
    /// Service that requests are signed for: `s3`, `s3express`, `s3-outposts` or
    /// `s3-object-lambda`.
    pub signing_service: String,
    /// The answer of the rules, for the SDK.
    resolved: ResolvedEndpoint,
}

/// Ways to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningAlgorithm {
    /// For one region, with the user's credentials.
    SigV4,
    /// For a set of regions: multi-region access points, Outposts.
    SigV4a,
    /// For one region, with the credentials of a session: directory buckets.
    S3Express,
}

impl Endpoint {
    /// Asks the rules. Fails with [`ErrorKind::InvalidRequest`] where they say no, for example to a
    /// malformed URL.
    pub async fn resolve(question: &EndpointQuestion<'_>) -> Result<Self, ClientError> {
        let refuse = |why: String| ClientError::new(ErrorKind::InvalidRequest, why);
        check(question).map_err(refuse)?;
        let params = Params::builder()
            .bucket(question.bucket)
            .region(question.region)
            .set_endpoint(question.endpoint_url.map(str::to_owned))
            .force_path_style(question.force_path_style)
            .use_dual_stack(question.dual_stack)
            .use_fips(question.fips)
            .accelerate(question.transfer_acceleration)
            .use_arn_region(true)
            .disable_s3_express_session_auth(!question.sessions)
            .build()
            .map_err(|error| refuse(format!("endpoint of bucket {}: {error}", question.bucket)))?;
        let resolved = DefaultResolver::new();
        let resolved = ResolveEndpoint::resolve_endpoint(&resolved, &params)
            .await
            .map_err(|error| {
                refuse(format!(
                    "no endpoint for bucket {} in region {}: {error}",
                    question.bucket, question.region
                ))
            })?;
        Self::parse(resolved, question.region).map_err(refuse)
    }

    fn parse(resolved: ResolvedEndpoint, region: &str) -> Result<Self, String> {
        let url = resolved.url();
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| format!("endpoint {url} has no scheme"))?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // Regions and URLs may bring anything, and both are written into requests.
        let is_of_path = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
        if !is_authority(host) || !path.bytes().all(is_of_path) {
            return Err(format!("endpoint {url:?} is no URL of a server"));
        }
        let (origin, path_prefix) = (
            format!("{scheme}://{host}"),
            path.trim_end_matches('/').to_owned(),
        );
        let auth = AuthScheme::first_of(&resolved);
        let signing_algorithm = match auth.name.as_deref() {
            None | Some("sigv4") => SigningAlgorithm::SigV4,
            Some("sigv4a") => SigningAlgorithm::SigV4a,
            Some("sigv4-s3express") => SigningAlgorithm::S3Express,
            Some(other) => return Err(format!("endpoint {url} asks for the signature {other}")),
        };
        Ok(Self {
            origin,
            path_prefix,
            signing_algorithm,
            signing_region: auth.region.unwrap_or_else(|| region.to_owned()),
            signing_service: auth.service.unwrap_or_else(|| "s3".to_owned()),
            resolved,
        })
    }

    /// The path of a key's requests, percent-encoded. `.` and `..` components and empty ones stay
    /// as they are: in S3 they are part of the name.
    #[must_use]
    pub fn path(&self, key: &Key) -> String {
        let key = key.as_str();
        let mut path = String::with_capacity(self.path_prefix.len() + 1 + key.len());
        path.push_str(&self.path_prefix);
        path.push('/');
        encode_into(&mut path, key, true);
        path
    }

    /// The path of the bucket's own requests, a query to follow.
    #[must_use]
    pub(crate) fn bucket_path(&self) -> String {
        format!("{}/", self.path_prefix)
    }

    /// Whether nothing on the way to Amazon S3 can send a request twice: no proxy looks into TLS.
    pub(crate) fn is_amazon_itself(&self) -> bool {
        let host = self.origin.strip_prefix("https://").unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default();
        [".amazonaws.com", ".amazonaws.com.cn"]
            .iter()
            .any(|end| host.ends_with(end))
    }

    /// Whether nobody on the way can read what is sent: TLS, or this machine.
    pub(crate) fn is_private(&self) -> bool {
        let Some(authority) = self.origin.strip_prefix("http://") else {
            return true;
        };
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => authority,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address = host.parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// This endpoint at another host, in path style.
    #[cfg(test)]
    pub(crate) fn moved_to(self, origin: &str, bucket: &str) -> Self {
        let url = format!("{origin}/{bucket}");
        Self {
            origin: origin.to_owned(),
            path_prefix: format!("/{bucket}"),
            resolved: self.resolved.into_builder().url(url).build(),
            ..self
        }
    }
}

/// For the SDK: its requests go where the mount's go, without asking the rules each time.
/// Whether a text is a host name or an address, in brackets that of IPv6, with or without a port.
fn is_authority(text: &str) -> bool {
    let name_end = match text.rfind(']') {
        Some(bracket) => bracket + 1,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (name, port) = text.split_at(name_end);
    let is_port = |port: &str| port.parse::<NonZeroU16>().is_ok();
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = match name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
    {
        // With the interface of a local address.
        Some(address) => match address.split_once('%') {
            Some((address, interface)) => {
                address.parse::<Ipv6Addr>().is_ok() && interface.bytes().all(is_of_name)
            }
            None => address.parse::<Ipv6Addr>().is_ok(),
        },
        None => !name.is_empty() && name.bytes().all(is_of_name),
    };
    is_name && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

impl ResolveEndpoint for Endpoint {
    fn resolve_endpoint<'a>(&'a self, _: &'a Params) -> EndpointFuture<'a> {
        EndpointFuture::ready(Ok(self.resolved.clone()))
    }
}

/// How the rules want requests to be signed. Where they name several ways, the first is theirs of
/// choice.
#[derive(Default)]
struct AuthScheme {
    name: Option<String>,
    region: Option<String>,
    service: Option<String>,
}

impl AuthScheme {
    fn first_of(resolved: &ResolvedEndpoint) -> Self {
        let Some(scheme) = resolved.auth_schemes().first() else {
            return Self::default();
        };
        let text = |document: &Document| document.as_string().map(str::to_owned);
        let set = |document: &Document| -> Option<String> {
            let regions = document.as_array()?.iter().filter_map(Document::as_string);
            Some(regions.collect::<Vec<_>>().join(","))
        };
        Self {
            name: Some(scheme.name().to_owned()),
            region: scheme
                .get("signingRegion")
                .and_then(text)
                .or_else(|| scheme.get("signingRegionSet").and_then(set)),
            service: scheme.get("signingName").and_then(text),
        }
    }
}
