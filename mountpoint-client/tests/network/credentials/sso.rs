//! IAM Identity Center: a profile with a session, the older kind without, and a token that has to
//! be renewed first.

use super::chain::access_keys;
use crate::support::bucket::server;
use crate::support::child::Setting;
use crate::support::services::{HOUR, identity_center};
use crate::support::stub::Stub;

const SESSION_PROFILE: &str = "[profile work]\nsso_session = office\nsso_account_id = 123456789012\n\
     sso_role_name = reader\n[sso-session office]\nsso_region = us-east-1\n\
     sso_start_url = https://start.test/start\n";
const OLD_PROFILE: &str = "[profile work]\nsso_account_id = 123456789012\nsso_role_name = reader\n\
     sso_region = us-east-1\nsso_start_url = https://start.test/start\n";
/// Named after the SHA-1 of `office`.
const SESSION_CACHE: &str = ".aws/sso/cache/e6427457497fe0f4f93a7334d2203b8e17ee82df.json";
/// Named after the SHA-1 of the start URL.
const OLD_CACHE: &str = ".aws/sso/cache/8f5f88472d93311799e4d7c40100ad6d95a1f793.json";

fn token(access_token: &str, expires: &str) -> String {
    format!(
        "{{\"accessToken\":\"{access_token}\",\"expiresAt\":\"{expires}\",\"region\":\"us-east-1\",\
         \"startUrl\":\"https://start.test/start\",\"clientId\":\"id\",\"clientSecret\":\"secret\",\
         \"registrationExpiresAt\":\"2100-01-01T00:00:00Z\",\"refreshToken\":\"again\"}}"
    )
}

fn setting(setting: Setting, center: &Stub) -> Setting {
    setting
        .variable("AWS_ENDPOINT_URL_SSO", &center.url())
        .variable("AWS_ENDPOINT_URL_SSO_OIDC", &center.url())
        .profile("work")
}

#[track_caller]
fn check(config: &str, cache: &str, token: &str, tokens_issued: usize) {
    let (server, center) = (server(), identity_center(HOUR));
    let setting = setting(Setting::new(&server), &center);
    let mut child = setting.config(config).file(cache, token).start();
    child.check("connect", "ok");
    child.check("all", "ok");
    child.check("source", "profile work (SSO)");
    assert_eq!(access_keys(&server), ["SSO1"]);
    assert_eq!(center.count("/token"), tokens_issued);
    let asked = center.asked();
    let portal = asked.last().unwrap();
    assert!(
        portal.path.contains("account_id=123456789012"),
        "{}",
        portal.path
    );
    assert!(portal.path.contains("role_name=reader"), "{}", portal.path);
}

#[test]
fn a_session_that_is_logged_in() {
    check(
        SESSION_PROFILE,
        SESSION_CACHE,
        &token("valid", "2100-01-01T00:00:00Z"),
        0,
    );
}

#[test]
fn a_session_whose_token_has_expired_is_renewed() {
    check(
        SESSION_PROFILE,
        SESSION_CACHE,
        &token("old", "2020-01-01T00:00:00Z"),
        1,
    );
}

#[test]
fn a_profile_of_the_older_kind() {
    check(
        OLD_PROFILE,
        OLD_CACHE,
        &token("valid", "2100-01-01T00:00:00Z"),
        0,
    );
}

#[test]
fn who_is_not_logged_in_is_told_so() {
    let (server, center) = (server(), identity_center(HOUR));
    let setting = setting(Setting::new(&server), &center).config(SESSION_PROFILE);
    let answer = setting.start().say("connect");
    assert!(answer.contains("profile \"work\""), "{answer}");
    assert!(answer.contains("aws sso login --profile work"), "{answer}");
}
