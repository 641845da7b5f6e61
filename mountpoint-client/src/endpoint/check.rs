//! Settings that are refused before the rules are asked.
//!
//! Pure. The rules accept much and fail late, and they know no flag; combinations that cannot work
//! get a message here that names the flags.

use super::bucket::{BucketType, is_arn, region_of_arn};
use super::question::EndpointQuestion;

/// Why there can be no endpoint, if so.
pub(super) fn check(question: &EndpointQuestion<'_>) -> Result<(), String> {
    if let Some(url) = question.endpoint_url {
        check_url(url)?;
    }
    let conflict = CONFLICTS
        .iter()
        .find(|conflict| (conflict.applies)(question));
    match conflict {
        Some(conflict) => Err(format!("bucket {}: {}", question.bucket, conflict.what)),
        None => Ok(()),
    }
}

/// Settings that exclude each other.
struct Conflict {
    applies: fn(&EndpointQuestion<'_>) -> bool,
    what: &'static str,
}

const CONFLICTS: &[Conflict] = &[
    Conflict {
        applies: |q| q.endpoint_url.is_some() && q.dual_stack,
        what: "--dual-stack cannot be combined with --endpoint-url: name a dual-stack host in the URL instead",
    },
    Conflict {
        applies: |q| q.endpoint_url.is_some() && q.transfer_acceleration,
        what: "--transfer-acceleration cannot be combined with --endpoint-url: it has an endpoint of its own",
    },
    Conflict {
        applies: |q| q.endpoint_url.is_some() && q.fips,
        what: "FIPS endpoints cannot be combined with --endpoint-url: name a FIPS host in the URL instead",
    },
    Conflict {
        applies: |q| {
            q.endpoint_url.is_some() && is_arn(q.bucket) && region_of_arn(q.bucket).is_none()
        },
        what: "multi-region access points cannot be combined with --endpoint-url: they have a global endpoint",
    },
    Conflict {
        applies: |q| q.transfer_acceleration && q.fips,
        what: "--transfer-acceleration has no FIPS endpoints",
    },
    Conflict {
        applies: |q| q.transfer_acceleration && q.force_path_style,
        what: "--transfer-acceleration cannot be combined with --force-path-style: it needs the bucket in the host name",
    },
    Conflict {
        applies: |q| q.transfer_acceleration && !is_arn(q.bucket) && q.bucket.contains('.'),
        what: "--transfer-acceleration does not work for bucket names with dots",
    },
    Conflict {
        applies: |q| q.transfer_acceleration && is_arn(q.bucket),
        what: "--transfer-acceleration does not work with access points",
    },
    Conflict {
        applies: |q| {
            q.transfer_acceleration && BucketType::of_name(q.bucket) == BucketType::Directory
        },
        what: "directory buckets have no --transfer-acceleration",
    },
    Conflict {
        applies: |q| q.force_path_style && is_arn(q.bucket),
        what: "--force-path-style does not work with ARNs: drop it, or use the access point's alias",
    },
];

fn check_url(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).ok_or_else(|| {
        format!("endpoint URL {url:?} must begin with http:// or https://, for example https://{url}")
    })?;
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '@') {
        return Err(format!("endpoint URL {url:?} has no valid host name"));
    }
    let is_bare_ipv6 = !host.starts_with('[') && host.matches(':').count() > 1;
    if is_bare_ipv6 {
        return Err(format!(
            "endpoint URL {url:?}: an IPv6 address stands in brackets, for example http://[::1]:9000"
        ));
    }
    if path.contains(['?', '#']) {
        return Err(format!(
            "endpoint URL {url:?} must not have a query or a fragment"
        ));
    }
    Ok(())
}
