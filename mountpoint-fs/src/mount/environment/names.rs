//! The names of the variables that have an effect, and of those of mountpoint-s3 without one.

/// Names of one setting; the first that is set wins.
pub(super) type Names = [&'static str];

/// Names of FUSE's `max_background`.
pub(in crate::mount) const MAX_BACKGROUND: [&str; 2] = [
    "MOUNTPOINT_MAX_BACKGROUND",
    "UNSTABLE_MOUNTPOINT_MAX_BACKGROUND",
];
/// Names of FUSE's congestion threshold.
pub(in crate::mount) const CONGESTION_THRESHOLD: [&str; 2] = [
    "MOUNTPOINT_CONGESTION_THRESHOLD",
    "UNSTABLE_MOUNTPOINT_CONGESTION_THRESHOLD",
];
/// Names of the switch for cloned descriptors.
pub(super) const CLONE_FUSE_FD: [&str; 2] = [
    "MOUNTPOINT_CLONE_FUSE_FD",
    "UNSTABLE_MOUNTPOINT_CLONE_FUSE_FD",
];
/// Names of the largest prefetch window.
pub(super) const MAX_PREFETCH_WINDOW_SIZE: [&str; 2] = [
    "MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE",
    "UNSTABLE_MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE",
];
/// Names of the PID file.
pub(super) const PID_FILE: [&str; 2] = ["MOUNTPOINT_PID_FILE", "UNSTABLE_MOUNTPOINT_PID_FILE"];
/// Names of the number of event loop threads.
pub(super) const EVENTLOOP_THREADS: [&str; 2] = [
    "MOUNTPOINT_EVENTLOOP_THREADS",
    "UNSTABLE_CRT_EVENTLOOP_THREADS",
];

pub(super) const FUSE_TRANSPORT: [&str; 1] = ["MOUNTPOINT_FUSE_TRANSPORT"];
/// Names of the key of a part of the cache directory.
pub(super) const CACHE_KEY: [&str; 2] = ["MOUNTPOINT_CACHE_KEY", "UNSTABLE_MOUNTPOINT_CACHE_KEY"];
/// Names of the switch against `--cache-cleanup`.
pub(super) const KEEP_CACHE: [&str; 2] = [
    "MOUNTPOINT_DISABLE_CACHE_CLEANUP",
    "UNSTABLE_MOUNTPOINT_DISABLE_CACHE_CLEANUP",
];
pub(super) const HEDGING: [&str; 1] = ["MOUNTPOINT_HEDGING"];
/// Names of the switch against checksums of what is read.
pub(super) const UNCHECKED_READS: [&str; 2] = [
    "MOUNTPOINT_NO_DOWNLOAD_INTEGRITY_VALIDATION",
    "EXPERIMENTAL_MOUNTPOINT_NO_DOWNLOAD_INTEGRITY_VALIDATION",
];
pub(super) const LOG: [&str; 1] = ["MOUNTPOINT_LOG"];
pub(super) const MAX_ATTEMPTS: [&str; 1] = ["AWS_MAX_ATTEMPTS"];
pub(super) const REGION: [&str; 1] = ["AWS_REGION"];
pub(super) const ENDPOINT_URL: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
pub(super) const IGNORE_ENDPOINT_URLS: [&str; 1] = ["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"];
pub(super) const CA_BUNDLE: [&str; 1] = ["AWS_CA_BUNDLE"];
pub(super) const EC2_METADATA_DISABLED: [&str; 1] = ["AWS_EC2_METADATA_DISABLED"];
pub(super) const EC2_METADATA_ENDPOINT: [&str; 1] = ["AWS_EC2_METADATA_SERVICE_ENDPOINT"];
pub(super) const HTTPS_PROXY: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];
pub(super) const HTTP_PROXY: [&str; 2] = ["http_proxy", "HTTP_PROXY"];
pub(super) const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];
/// Files that the SDK reads whenever it looks up credentials.
pub(super) const FILES_OF_AWS: [&str; 4] = [
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];
pub(super) const START_TIMEOUT: [&str; 1] = ["MOUNTPOINT_START_TIMEOUT"];
pub(super) const NOTIFY_SOCKET: [&str; 1] = ["NOTIFY_SOCKET"];
pub(super) const STATE_HOME: [&str; 1] = ["XDG_STATE_HOME"];
pub(super) const HOME: [&str; 1] = ["HOME"];
pub(super) const OTLP_TEMPORALITY: [&str; 2] = [
    "MOUNTPOINT_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "EXPERIMENTAL_MOUNTPOINT_OTLP_METRICS_TEMPORALITY_PREFERENCE",
];

/// Variables of mountpoint-s3 without effect here, yet or for ever, and the reason.
pub(super) const WITHOUT_EFFECT: [(&str, &str); 4] = [
    (
        "AWS_CRT_S3_MEMORY_LIMIT_IN_GIB",
        "--memory-target sets how much memory reads may take",
    ),
    (
        "AWS_CRT_S3_MAX_PARTS_PENDING_READ",
        "parts of uploads are sent from memory",
    ),
    (
        "AWS_PROXY_NO_VERIFY_PEER",
        "a proxy's certificate is always checked; --ca-bundle can trust it",
    ),
    ("_RJEM_MALLOC_CONF", "this program does not use jemalloc"),
];

/// Every variable that has an effect.
pub(super) const EFFECTIVE: [&Names; 27] = [
    &MAX_BACKGROUND,
    &CONGESTION_THRESHOLD,
    &CLONE_FUSE_FD,
    &FUSE_TRANSPORT,
    &MAX_PREFETCH_WINDOW_SIZE,
    &HEDGING,
    &UNCHECKED_READS,
    &CACHE_KEY,
    &KEEP_CACHE,
    &PID_FILE,
    &EVENTLOOP_THREADS,
    &LOG,
    &MAX_ATTEMPTS,
    &REGION,
    &ENDPOINT_URL,
    &IGNORE_ENDPOINT_URLS,
    &CA_BUNDLE,
    &EC2_METADATA_DISABLED,
    &EC2_METADATA_ENDPOINT,
    &HTTPS_PROXY,
    &HTTP_PROXY,
    &NO_PROXY,
    &START_TIMEOUT,
    &NOTIFY_SOCKET,
    &STATE_HOME,
    &HOME,
    &OTLP_TEMPORALITY,
];
