//! Credentials that are missing, wrong, or unavailable.

use std::path::Path;

use super::{Row, Target, check_all};
use crate::harness::{BUCKET, SECRET_KEY, server};

const CONFIG: &str = "\
[profile fails]
credential_process = /bin/false
[profile babbles]
credential_process = /bin/echo hello
[profile hangs]
credential_process = /bin/sleep 60
[profile leaks]
credential_process = /bin/sh -c 'echo {\\\"SecretAccessKey\\\": \\\"test-secret-key\\\"; exit 1'
[profile circle]
role_arn = arn:aws:iam::123456789012:role/r
source_profile = nobody-has-this
";

#[test]
fn credentials() {
    assert!(CONFIG.contains(SECRET_KEY));
    let (server, target, root) = (server(), Target::new(), tempfile::tempdir().unwrap());
    let file = |name: &str, content: &str| {
        let path = root.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let (config, broken) = (
        file("config", CONFIG),
        file("broken", "[profile x\nregion us\n"),
    );
    let row = |what: &str, texts: &[&'static str]| {
        Row::new(what, texts)
            .args([BUCKET, target.path().to_str().unwrap()])
            .args(["--endpoint-url", &server.url(), "--force-path-style"])
    };
    let without_keys = |what: &str, texts: &[&'static str]| {
        row(what, texts)
            .variable("AWS_ACCESS_KEY_ID", "")
            .variable("AWS_SECRET_ACCESS_KEY", "")
    };
    let profile = |what: &str, name: &str, config: &Path, texts: &[&'static str]| {
        without_keys(what, texts)
            .args(["--profile", name])
            .variable("AWS_CONFIG_FILE", config)
    };
    const NONE: &str = "no usable AWS credentials";
    check_all(&[
        without_keys(
            "none",
            &[
                NONE,
                "none in the environment",
                "set both AWS_ACCESS_KEY_ID and",
                "--no-sign-request for a public bucket",
            ],
        ),
        without_keys(
            "a profile by its variable",
            &[
                NONE,
                "profile \"absent\" is not in ",
                "which have: babbles, ",
            ],
        )
        .variable("AWS_PROFILE", "absent")
        .variable("AWS_CONFIG_FILE", &config),
        row("half of a key", &[NONE, "both"]).variable("AWS_SECRET_ACCESS_KEY", ""),
        row(
            "a wrong secret",
            &[
                "no valid AWS credentials",
                "SignatureDoesNotMatch",
                "check the credentials",
            ],
        )
        .variable("AWS_SECRET_ACCESS_KEY", "wrong"),
        row("an unknown key", &["check the credentials"]).variable("AWS_ACCESS_KEY_ID", "unknown"),
        row(
            "unsigned requests",
            &[
                "no permission to list bucket",
                "not public: leave --no-sign-request out",
                "s3:ListBucket",
            ],
        )
        .args(["--no-sign-request"]),
        profile(
            "a missing profile",
            "absent",
            &config,
            &[
                "profile \"absent\" is not in ",
                "/config and ",
                "(which have: babbles, circle, fails, hangs, leaks)",
                "check the profile",
            ],
        ),
        profile(
            "no configuration file",
            "p",
            Path::new("/no/such/config"),
            &[
                "profile \"p\" is not in /no/such/config and ",
                "which have no profiles",
                "leave --profile out",
            ],
        ),
        profile(
            "a broken configuration file",
            "x",
            &broken,
            &["/broken on line 1", "check the profile"],
        ),
        profile(
            "a program that fails",
            "fails",
            &config,
            &["profile \"fails\"", "credential"],
        ),
        profile(
            "a program that says nothing of use",
            "babbles",
            &config,
            &["profile \"babbles\""],
        ),
        profile(
            "a program that fails with a secret",
            "leaks",
            &config,
            &["profile \"leaks\""],
        ),
        profile(
            "a role whose source is missing",
            "circle",
            &config,
            &["has the source_profile \"nobody-has-this\", which is not in "],
        ),
        profile(
            "a program that hangs",
            "hangs",
            &config,
            &["does not answer", "MOUNTPOINT_START_TIMEOUT"],
        )
        .variable("MOUNTPOINT_START_TIMEOUT", "6"),
        without_keys("a token file that is missing", &[NONE, "No such file"])
            .variable("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/r")
            .variable("AWS_WEB_IDENTITY_TOKEN_FILE", "/no/such/token"),
    ]);
}
