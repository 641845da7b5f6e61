//! Stubs of the services that hand out credentials. Each hands out numbered keys, so that a test
//! sees which are used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::stub::{Answer, Request, Stub, epoch_ms, from_now};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
const NOT_FOUND: u16 = 404;

/// Numbers from 1.
#[derive(Clone, Default)]
struct Numbers(Arc<AtomicU64>);

impl Numbers {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// Instance metadata, version 2 only: tokens, region, type, and keys `IMDS1`, `IMDS2`, … of the
/// role `web`.
pub(crate) fn instance_metadata(lifetime: Duration) -> Stub {
    let numbers = Numbers::default();
    Stub::start(move |request| {
        let text = |text: &str| Some((200, text.to_owned()));
        if (&*request.method, &*request.path) == ("PUT", "/latest/api/token") {
            return text("token");
        }
        if request.header("x-aws-ec2-metadata-token") != Some("token") {
            return Some((401, String::new()));
        }
        match &*request.path {
            "/latest/meta-data/placement/region" => text("eu-west-7"),
            "/latest/meta-data/instance-type" => text("c6in.32xlarge"),
            "/latest/meta-data/iam/security-credentials/" => text("web"),
            "/latest/meta-data/iam/security-credentials/web" => {
                Some((200, json_keys("IMDS", numbers.next(), lifetime)))
            }
            _ => Some((NOT_FOUND, String::new())),
        }
    })
}

/// The endpoint of ECS and EKS beside a container: keys `BOX1`, … for a client that shows the
/// token `pod`.
pub(crate) fn container(lifetime: Duration) -> Stub {
    let numbers = Numbers::default();
    Stub::start(move |request| {
        if request.header("authorization") != Some("pod") {
            return Some((403, String::new()));
        }
        Some((200, json_keys("BOX", numbers.next(), lifetime)))
    })
}

/// STS: keys `ROLE1`, … for every client.
pub(crate) fn sts(lifetime: Duration) -> Stub {
    let numbers = Numbers::default();
    Stub::start(move |request| Some(sts_answer(request, numbers.next(), lifetime)))
}

fn sts_answer(request: &Request, number: u64, lifetime: Duration) -> Answer {
    let action = request.field("Action").unwrap_or_default();
    if !["AssumeRole", "AssumeRoleWithWebIdentity"].contains(&action) {
        return (400, String::new());
    }
    let expiration = from_now(lifetime);
    let body = format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result>\
         <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/r/s</Arn>\
         <AssumedRoleId>AROA:s</AssumedRoleId></AssumedRoleUser>\
         <Credentials><AccessKeyId>ROLE{number}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
         <SessionToken>session</SessionToken><Expiration>{expiration}</Expiration></Credentials>\
         </{action}Result></{action}Response>"
    );
    (200, body)
}

/// The portal of IAM Identity Center and its token service: keys `SSO1`, … for a token that it
/// issued, and new tokens `fresh1`, … for the refresh token `again`.
pub(crate) fn identity_center(lifetime: Duration) -> Stub {
    let (keys, tokens) = (Numbers::default(), Numbers::default());
    Stub::start(move |request| {
        if request.path == "/token" {
            if !String::from_utf8_lossy(&request.body).contains("\"again\"") {
                return Some((400, String::new()));
            }
            let number = tokens.next();
            return Some((
                200,
                format!(
                    "{{\"accessToken\":\"fresh{number}\",\"expiresIn\":3600,\"refreshToken\":\"again\",\
                     \"tokenType\":\"Bearer\"}}"
                ),
            ));
        }
        let token = request.header("x-amz-sso_bearer_token").unwrap_or_default();
        if !request.path.starts_with("/federation/credentials") {
            return Some((NOT_FOUND, String::new()));
        }
        if token != "valid" && !token.starts_with("fresh") {
            return Some((401, String::new()));
        }
        let (number, expiration) = (keys.next(), epoch_ms(lifetime));
        Some((
            200,
            format!(
                "{{\"roleCredentials\":{{\"accessKeyId\":\"SSO{number}\",\"secretAccessKey\":\"secret\",\
                 \"sessionToken\":\"session\",\"expiration\":{expiration}}}}}"
            ),
        ))
    })
}

fn json_keys(name: &str, number: u64, lifetime: Duration) -> String {
    let expiration = from_now(lifetime);
    format!(
        "{{\"Code\":\"Success\",\"LastUpdated\":\"2026-01-01T00:00:00Z\",\"Type\":\"AWS-HMAC\",\
         \"AccessKeyId\":\"{name}{number}\",\"SecretAccessKey\":\"secret\",\"Token\":\"session\",\
         \"Expiration\":\"{expiration}\"}}"
    )
}
