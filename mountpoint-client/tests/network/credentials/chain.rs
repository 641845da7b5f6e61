//! Every place that credentials can come from, in the environment of a child process.

use mountpoint_client::testing::server::Server;

use crate::support::bucket::server;
use crate::support::child::{Child, HANG, Setting};
use crate::support::proxy_server::{Behaviour, ProxyServer};
use crate::support::services::{HOUR, container, instance_metadata, sts};
use crate::support::stub::Stub;

/// Two profiles: one with keys, one with a role that they may assume.
const PROFILES: &str = "[default]\nregion = us-east-1\n\
     [profile base]\naws_access_key_id = BASE\naws_secret_access_key = secret\n\
     [profile dev]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = base\n";

/// The access keys that requests were signed with, each once, in order.
pub(crate) fn access_keys(server: &Server) -> Vec<String> {
    let records = server.log().take();
    let mut keys: Vec<_> = records
        .into_iter()
        .map(|record| record.access_key.unwrap_or_default())
        .collect();
    keys.dedup();
    keys
}

/// A child started so signs all of its requests with `access_key` and says that it comes from
/// `source`.
#[track_caller]
fn check(setting: impl FnOnce(Setting) -> Setting, access_key: &str, source: &str) {
    let server = server();
    let mut child = setting(Setting::new(&server)).start();
    child.check("connect", "ok");
    child.check("all", "ok");
    child.check("source", source);
    assert_eq!(access_keys(&server), [access_key], "{source}");
}

#[test]
fn environment() {
    check(
        |setting| {
            setting
                .config(PROFILES)
                .variable("AWS_ACCESS_KEY_ID", "ENV")
                .variable("AWS_SECRET_ACCESS_KEY", "secret")
        },
        "ENV",
        "environment",
    );
}

#[test]
fn profiles_with_keys() {
    let with_profiles = |setting: Setting| {
        setting
            .config(PROFILES)
            .variable("AWS_ACCESS_KEY_ID", "ENV")
            .variable("AWS_SECRET_ACCESS_KEY", "secret")
            .profile("base")
    };
    check(with_profiles, "BASE", "profile base (keys)");
    let by_variable = |setting: Setting| setting.config(PROFILES).variable("AWS_PROFILE", "base");
    check(by_variable, "BASE", "profile base (keys)");
    let elsewhere = |setting: Setting| {
        let keys = "[default]\naws_access_key_id = FILE\naws_secret_access_key = secret\n";
        let path = format!("{}/keys", setting.home());
        setting
            .file("keys", keys)
            .variable("AWS_SHARED_CREDENTIALS_FILE", &path)
    };
    check(elsewhere, "FILE", "profile default (keys)");
}

#[test]
fn a_role_is_assumed_with_the_keys_of_another_profile() {
    let sts = sts(HOUR);
    check(
        |setting| {
            setting
                .config(PROFILES)
                .variable("AWS_ENDPOINT_URL_STS", &sts.url())
                .profile("dev")
        },
        "ROLE1",
        "profile dev (assumed role)",
    );
    let asked = sts.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].access_key(), Some("BASE"));
    assert_eq!(asked[0].field("Action"), Some("AssumeRole"));
}

#[test]
fn a_role_is_assumed_with_credentials_from_elsewhere() {
    let (metadata, pod) = (instance_metadata(HOUR), container(HOUR));
    for (source, access_key) in [
        ("Environment", "ENV"),
        ("Ec2InstanceMetadata", "IMDS1"),
        ("EcsContainer", "BOX1"),
    ] {
        let sts = sts(HOUR);
        let profile = format!(
            "[profile dev]\nservices = here\nrole_arn = arn:aws:iam::123456789012:role/r\n\
             credential_source = {source}\n[services here]\nsts =\n  endpoint_url = {}\n",
            sts.url()
        );
        check(
            |setting| {
                setting
                    .config(&profile)
                    .variable("AWS_ACCESS_KEY_ID", "ENV")
                    .variable("AWS_SECRET_ACCESS_KEY", "secret")
                    .variable("AWS_CONTAINER_CREDENTIALS_FULL_URI", &pod.url())
                    .variable("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod")
                    .on_instance(&metadata.url())
                    .profile("dev")
            },
            "ROLE1",
            "profile dev (assumed role)",
        );
        assert_eq!(sts.asked()[0].access_key(), Some(access_key), "{source}");
    }
}

#[test]
fn a_process_hands_out_keys() {
    check(
        |setting| {
            let script = "#!/bin/sh\necho '{\"Version\":1,\"AccessKeyId\":\"TOOL\",\"SecretAccessKey\":\"s\"}'\n";
            let config = format!(
                "[profile tool]\ncredential_process = sh {}/tool.sh\n",
                setting.home()
            );
            setting
                .file("tool.sh", script)
                .config(&config)
                .profile("tool")
        },
        "TOOL",
        "profile tool (credential_process)",
    );
}

#[test]
fn a_web_identity_token_becomes_a_role() {
    let sts = sts(HOUR);
    check(
        |setting| {
            let path = format!("{}/token", setting.home());
            setting
                .file("token", "jwt")
                .variable("AWS_WEB_IDENTITY_TOKEN_FILE", &path)
                .variable("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/r")
                .variable("AWS_ENDPOINT_URL_STS", &sts.url())
        },
        "ROLE1",
        "web identity token",
    );
    let asked = sts.asked();
    assert_eq!(asked[0].field("Action"), Some("AssumeRoleWithWebIdentity"));
    assert_eq!(asked[0].field("WebIdentityToken"), Some("jwt"));
    assert_eq!(asked[0].access_key(), None);
}

#[test]
fn a_container_hands_out_keys_for_the_token_in_a_file() {
    let pod = container(HOUR);
    // A proxy must not come between a container and its own service.
    let proxy = ProxyServer::start(Behaviour::Refuse);
    check(
        |setting| {
            let path = format!("{}/token", setting.home());
            setting
                .file("token", "pod")
                .variable("AWS_CONTAINER_CREDENTIALS_FULL_URI", &pod.url())
                .variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &path)
                .proxy(&proxy.url())
        },
        "BOX1",
        "container credentials service",
    );
    assert_eq!(proxy.asked(), []);
}

#[test]
fn an_instance_has_a_role() {
    let metadata = instance_metadata(HOUR);
    let proxy = ProxyServer::start(Behaviour::Refuse);
    check(
        |setting| setting.on_instance(&metadata.url()).proxy(&proxy.url()),
        "IMDS1",
        "instance role web",
    );
    assert_eq!(proxy.asked(), []);
}

#[test]
fn services_of_aws_are_asked_through_the_proxy() {
    let sts = sts(HOUR);
    let proxy = ProxyServer::start(Behaviour::ForwardTo(sts.address()));
    check(
        |setting| {
            setting
                .config(PROFILES)
                .variable("AWS_ENDPOINT_URL_STS", "http://sts.test")
                .profile("dev")
                .proxy(&proxy.url())
        },
        "ROLE1",
        "profile dev (assumed role)",
    );
    let asked = proxy.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].target, "http://sts.test/");
}

/// A client that finds no credentials says so within the time that one look-up has.
#[track_caller]
fn check_nothing(setting: Setting, texts: &[&str]) {
    let mut child: Child = setting.start();
    let answer = child.say("connect");
    for text in texts {
        assert!(answer.contains(text), "{text:?} is not in: {answer}");
    }
    assert!(!answer.contains("secret"), "{answer}");
}

#[test]
fn where_there_are_none_the_message_helps() {
    let server = server();
    let new = || Setting::new(&server);
    let help = [
        "no usable AWS credentials",
        "AWS_ACCESS_KEY_ID",
        "--no-sign-request",
    ];
    check_nothing(new(), &help);
    let missing = new().config(PROFILES).profile("nobody");
    check_nothing(
        missing,
        &[
            "profile \"nobody\" is not in ",
            "(which have: ",
            "no usable AWS credentials",
        ],
    );
    let denied = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
         <Message>not you</Message></Error></ErrorResponse>";
    let refusing = Stub::start(move |_| Some((403, denied.to_owned())));
    let refused = new()
        .config(PROFILES)
        .variable("AWS_ENDPOINT_URL_STS", &refusing.url())
        .profile("dev");
    check_nothing(refused, &["profile \"dev\"", "AccessDenied"]);
    let failing = "[profile tool]\ncredential_process = sh -c 'echo hush >&2; exit 3'\n";
    check_nothing(new().config(failing).profile("tool"), &["profile \"tool\""]);
    assert_eq!(
        server.log().take().len(),
        0,
        "no request was made without credentials"
    );
}

#[test]
fn a_silent_metadata_service_does_not_hold_a_start_up() {
    let server = server();
    let silent = Stub::silent();
    let started = tokio::time::Instant::now();
    let setting = Setting::new(&server).on_instance(&silent.url());
    check_nothing(setting, &["no usable AWS credentials"]);
    assert!(started.elapsed() < HANG, "{:?}", started.elapsed());
    assert!(silent.count("/latest/api/token") > 0);

    let disabled = Stub::silent();
    let setting = Setting::new(&server)
        .on_instance(&disabled.url())
        .variable("AWS_EC2_METADATA_DISABLED", "true");
    check_nothing(setting, &["no usable AWS credentials"]);
    assert_eq!(disabled.asked().len(), 0, "it must not be asked");
}
