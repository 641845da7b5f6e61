//! The command lines of the systems under test. One entry a system.

/// Name of the product in tables.
pub(crate) const PRODUCT: &str = "mount-s3";

/// `{bucket}`, `{directory}` and `{url}` are placeholders.
pub(super) const MOUNT_S3: &[&str] = &[
    "{bucket}",
    "{directory}",
    "--endpoint-url",
    "{url}",
    "--force-path-style",
    "--foreground",
];

/// Name, arguments, and arguments that print the version, of each peer. Peers run with their
/// defaults; only address and credentials are given.
pub(super) const PEERS: &[(&str, &[&str], &[&str])] = &[
    (PRODUCT, MOUNT_S3, &["--version"]),
    ("mountpoint-s3", MOUNT_S3, &["--version"]),
    (
        "rclone",
        &[
            "mount",
            ":s3:{bucket}",
            "{directory}",
            "--config",
            "/dev/null",
        ],
        &["version"],
    ),
    (
        "s3fs",
        &[
            "{bucket}",
            "{directory}",
            "-f",
            "-o",
            "url={url},use_path_request_style",
        ],
        &["--version"],
    ),
    (
        "geesefs",
        &["-f", "--endpoint", "{url}", "{bucket}", "{directory}"],
        &["--version"],
    ),
    (
        "goofys",
        &["-f", "--endpoint", "{url}", "{bucket}", "{directory}"],
        &["--version"],
    ),
];
