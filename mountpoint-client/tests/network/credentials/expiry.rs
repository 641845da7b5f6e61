//! Credentials that end: renewed before, looked up again after, and replaced when the server says
//! so.

use std::time::Duration;

use mountpoint_client::testing::server::{Fault, Operation, Rule};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

use super::chain::access_keys;
use crate::support::bucket::server;
use crate::support::child::{HANG, Setting};
use crate::support::services::{HOUR, container};
use crate::support::stub::{Stub, from_now};

fn in_pod(setting: Setting, pod: &Stub) -> Setting {
    setting
        .variable("AWS_CONTAINER_CREDENTIALS_FULL_URI", &pod.url())
        .variable("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod")
}

/// Reads until a request is signed with `access_key` or one after it; returns all keys that were
/// used.
#[track_caller]
fn read_until(
    server: &mountpoint_client::testing::server::Server,
    child: &mut crate::support::child::Child,
    access_key: &str,
) -> Vec<String> {
    let mut used: Vec<String> = Vec::new();
    let limit = tokio::time::Instant::now() + HANG;
    while used.last().is_none_or(|last| last.as_str() < access_key) {
        assert!(
            tokio::time::Instant::now() < limit,
            "only {used:?} were used"
        );
        child.check("get", "ok");
        child.check("head", "ok");
        used.extend(access_keys(server));
        used.dedup();
    }
    used
}

#[test]
fn keys_that_live_for_seconds_are_renewed_again_and_again() {
    let server = server();
    let pod = container(Duration::from_secs(2));
    let mut child = in_pod(Setting::new(&server), &pod).start();
    let started = tokio::time::Instant::now();
    child.check("connect", "ok");
    let used = read_until(&server, &mut child, "BOX3");
    assert!(used.is_sorted(), "none comes back: {used:?}");
    // Each is renewed after half of its time.
    let renewals = started.elapsed().as_secs() + 1;
    let asked = pod.asked().len() as u64;
    assert!(asked <= 1 + renewals, "{asked} look-ups");
}

/// The second look-up hangs: meanwhile the old keys are used, without a wait.
#[test]
fn renewal_happens_in_the_background() {
    let server = server();
    let gate = Arc::new((Mutex::new(0_u32), Condvar::new()));
    let of_stub = Arc::clone(&gate);
    let pod = Stub::start(move |_| {
        let (state, changed) = &*of_stub;
        let mut number = state.lock();
        *number += 1;
        let this = *number;
        changed.notify_all();
        if this == 2 {
            changed.wait_while(&mut number, |number| *number < 100);
        }
        let expiration = from_now(if this == 1 {
            Duration::from_secs(16)
        } else {
            HOUR
        });
        let body = format!(
            "{{\"AccessKeyId\":\"KEY{this}\",\"SecretAccessKey\":\"secret\",\"Token\":\"t\",\
             \"Expiration\":\"{expiration}\"}}"
        );
        Some((200, body))
    });
    let mut child = in_pod(Setting::new(&server), &pod).start();
    child.check("connect", "ok");
    let limit = tokio::time::Instant::now() + HANG;
    while *gate.0.lock() < 2 {
        assert!(tokio::time::Instant::now() < limit, "no renewal began");
        child.check("get", "ok");
    }
    child.check("get", "ok");
    assert_eq!(access_keys(&server), ["KEY1"]);
    *gate.0.lock() = 100;
    gate.1.notify_all();
    assert_eq!(
        read_until(&server, &mut child, "KEY2").last().unwrap(),
        "KEY2"
    );
}

/// The server refuses the first request of each kind: the same request succeeds with other keys.
#[test]
fn keys_that_the_server_calls_expired_are_replaced() {
    let server = server();
    let pod = container(HOUR);
    let mut child = in_pod(Setting::new(&server), &pod).start();
    child.check("connect", "ok");
    for (command, operation, status, keys) in [
        ("get", Operation::GetObject, 403, ["BOX1", "BOX2"]),
        ("put", Operation::PutObject, 400, ["BOX2", "BOX3"]),
        ("head", Operation::HeadObject, 400, ["BOX3", "BOX4"]),
    ] {
        let expired = Fault::Error {
            status,
            code: "ExpiredToken",
        };
        let rule = server.faults().add(Rule::on(operation, expired).times(1));
        child.check(command, "ok");
        assert_eq!(
            server.faults().remove(rule),
            Some(1),
            "{command} met the fault"
        );
        assert_eq!(access_keys(&server), keys, "{command}");
    }
    let always = Fault::Error {
        status: 403,
        code: "ExpiredToken",
    };
    server.faults().add(Rule::always(always));
    let answer = child.say("get");
    assert!(answer.contains("ExpiredToken"), "{answer}");
    assert_eq!(access_keys(&server).len(), 2, "one new look-up, not more");
}

/// The keys were deleted, or have another secret: others are looked up. An answer to HEAD does not
/// tell, so that a GET asks for the reason.
#[test]
fn keys_that_the_server_no_longer_knows_are_replaced() {
    for (code, command, refusals) in [
        ("InvalidAccessKeyId", "get", 1),
        ("InvalidToken", "put", 1),
        ("SignatureDoesNotMatch", "get", 1),
        ("InvalidAccessKeyId", "head", 2),
        // The keys are good again when the GET comes.
        ("InvalidAccessKeyId", "head", 1),
    ] {
        let server = server();
        let pod = container(HOUR);
        let mut child = in_pod(Setting::new(&server), &pod).start();
        child.check("connect", "ok");
        access_keys(&server);
        let unknown = Fault::Error { status: 403, code };
        let rule = server
            .faults()
            .add(Rule::always(unknown.clone()).times(refusals));
        child.check(command, "ok");
        assert_eq!(server.faults().remove(rule), Some(refusals), "{command}");
        assert_eq!(access_keys(&server), ["BOX1", "BOX2"], "{command}");
        server.faults().add(Rule::always(unknown));
        for _ in 0..3 {
            let answer = child.say("get");
            assert!(answer.contains(code), "{answer}");
        }
        assert_eq!(
            access_keys(&server),
            ["BOX2"],
            "no look-up for each request"
        );
    }
}
