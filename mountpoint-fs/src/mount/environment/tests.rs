use std::os::unix::ffi::OsStringExt as _;

use super::names::*;
use super::*;

#[track_caller]
fn check(variables: &[(&str, &str)], expected: Result<Environment, &str>) {
    let find = |name: &str| {
        variables
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| OsString::from(v))
    };
    match (Environment::parse(find), expected) {
        (Err(error), Err(text)) => assert!(error.contains(text), "{error}"),
        (parsed, expected) => {
            assert_eq!(parsed, expected.map_err(str::to_owned), "{variables:?}");
        }
    }
}

fn none() -> Environment {
    Environment::default()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn variables() {
    check(&[], Ok(none()));
    check(&[("AWS_REGION", "")], Ok(none()));
    let region = |r: &str| Environment {
        region: some(r),
        ..none()
    };
    check(&[("AWS_DEFAULT_REGION", "a")], Ok(none()));
    check(
        &[("AWS_DEFAULT_REGION", "a"), ("AWS_REGION", "b")],
        Ok(region("b")),
    );
    for (value, ec2_metadata_disabled) in [
        ("true", true),
        ("TRUE", true),
        ("false", false),
        ("1", false),
    ] {
        let expected = Environment {
            ec2_metadata_disabled,
            ..none()
        };
        check(&[("AWS_EC2_METADATA_DISABLED", value)], Ok(expected));
    }
    check(
        &[("AWS_MAX_ATTEMPTS", "0")],
        Err("AWS_MAX_ATTEMPTS=0 is not a number from 1 to 100"),
    );
    for (path, relative_file) in [
        ("/etc/aws", None),
        ("~/aws", None),
        ("aws/config", Some("AWS_CONFIG_FILE")),
    ] {
        let expected = Environment {
            relative_file,
            ..none()
        };
        check(&[("AWS_CONFIG_FILE", path)], Ok(expected));
    }
    let notify_socket = some("/run/systemd/notify");
    check(
        &[("NOTIFY_SOCKET", "/run/systemd/notify")],
        Ok(Environment {
            notify_socket,
            ..none()
        }),
    );
}

#[test]
fn transports() {
    for (value, fuse_transport) in [
        ("auto", Transport::DevFuse),
        ("dev-fuse", Transport::DevFuse),
        ("fuser", Transport::Fuser),
        ("", Transport::DevFuse),
    ] {
        let expected = Environment {
            fuse_transport,
            ..none()
        };
        check(&[("MOUNTPOINT_FUSE_TRANSPORT", value)], Ok(expected));
    }
    check(
        &[("MOUNTPOINT_FUSE_TRANSPORT", "io-uring")],
        Err(
            "MOUNTPOINT_FUSE_TRANSPORT=io-uring cannot be used: it is none of auto, dev-fuse and fuser",
        ),
    );
}

#[test]
fn what_is_no_text_is_named() {
    let no_text = OsString::from_vec(b"a\xff".to_vec());
    for name in Environment::effective_names() {
        let find = |asked: &str| (asked == name).then(|| no_text.clone());
        let error = Environment::parse(find).unwrap_err();
        assert!(
            error.starts_with(&format!("{name} is not UTF-8")),
            "{error}"
        );
    }
    let of_others = |asked: &str| (asked == "AWS_PROFILE").then(|| no_text.clone());
    assert_eq!(Environment::parse(of_others), Ok(none()));
    let without_effect = |asked: &str| (asked == WITHOUT_EFFECT[0].0).then(|| no_text.clone());
    let warnings = Environment::parse(without_effect).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn endpoints() {
    let endpoint_url = Some(Ok("http://a".to_owned()));
    let expected = Environment {
        endpoint_url,
        ..none()
    };
    check(&[("AWS_ENDPOINT_URL", "http://a/")], Ok(expected.clone()));
    check(
        &[
            ("AWS_ENDPOINT_URL", "http://b"),
            ("AWS_ENDPOINT_URL_S3", "http://a"),
        ],
        Ok(expected),
    );
    for name in ENDPOINT_URL {
        for url in [
            "http://user:secret@h",
            "user:secret@h",
            "ftp://user:secret@h",
        ] {
            let find = |asked: &str| (asked == name).then(|| OsString::from(url));
            let environment = Environment::parse(find).unwrap();
            let error = environment.endpoint_url.clone().unwrap().unwrap_err();
            assert!(
                error.starts_with(&format!("{name}: an endpoint is")),
                "{error}"
            );
            let shown = format!("{environment:?}");
            assert!(!shown.contains("secret"), "{shown}");
        }
    }
}

#[test]
fn proxies() {
    let variables = [("HTTPS_PROXY", "http://user:secret@p:3128")];
    let find = |name: &str| Some(variables.iter().find(|(n, _)| *n == name)?.1.into());
    let environment = Environment::parse(find).unwrap();
    assert!(environment.proxy.for_url("https://s3").is_some());
    assert!(environment.proxy.for_url("http://s3").is_none());
    let shown = format!("{environment:?}");
    assert!(!shown.contains("secret"), "{shown}");
    check(&[("http_proxy", "socks5://p")], Err("http_proxy: "));
}

/// A variable of mountpoint-s3 and its stable name.
#[test]
fn names_that_stay() {
    for [stable, old] in [
        MAX_BACKGROUND,
        CONGESTION_THRESHOLD,
        MAX_PREFETCH_WINDOW_SIZE,
        EVENTLOOP_THREADS,
    ] {
        check(&[(old, "0")], Err(&format!("{old}=0 is not")));
        check(&[(old, "many")], Err(&format!("{old}=many is not")));
        check(
            &[(stable, "0"), (old, "1")],
            Err(&format!("{stable}=0 is not")),
        );
    }
    for name in CLONE_FUSE_FD {
        check(
            &[(name, "True")],
            Ok(Environment {
                clone_fuse_fd: true,
                ..none()
            }),
        );
        check(&[(name, "maybe")], Err("neither true nor false"));
    }
    let [stable, old] = PID_FILE;
    let pid_file = |path: &str| Environment {
        pid_file: some(path),
        ..none()
    };
    check(&[(old, "/a")], Ok(pid_file("/a")));
    check(&[(stable, "/a")], Ok(pid_file("/a")));
    check(&[(stable, "/a"), (old, "/a")], Ok(pid_file("/a")));
    let warning = format!("{stable}=/a is used and {old}, its old name, is not: set one of them");
    let expected = Environment {
        warnings: vec![warning],
        ..pid_file("/a")
    };
    check(&[(old, "/b"), (stable, "/a")], Ok(expected));
}

#[test]
fn congestion_threshold_within_max_background() {
    check(
        &[(MAX_BACKGROUND[1], "10"), (CONGESTION_THRESHOLD[0], "11")],
        Err("MOUNTPOINT_CONGESTION_THRESHOLD=11 is above UNSTABLE_MOUNTPOINT_MAX_BACKGROUND=10"),
    );
    let expected = Environment {
        max_background: Some(10),
        congestion_threshold: Some(10),
        ..none()
    };
    check(
        &[(MAX_BACKGROUND[0], "10"), (CONGESTION_THRESHOLD[0], "10")],
        Ok(expected),
    );
}

#[test]
fn variables_without_effect_are_named() {
    for (name, why) in WITHOUT_EFFECT {
        let warnings = vec![format!("{name} has no effect: {why}")];
        check(&[(name, "x")], Ok(Environment { warnings, ..none() }));
    }
}
