//! The one place that reads the environment.
//!
//! The AWS credential chain reads its own variables; everything that Mountpoint itself listens to is here, under
//! its name, parsed once. doc/CONFIGURATION.md has a row for each.

use std::str::FromStr;

/// Variables that Mountpoint reads, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `UNSTABLE_MOUNTPOINT_MAX_BACKGROUND`: FUSE's `max_background`.
    pub max_background: Option<u16>,
    /// `UNSTABLE_MOUNTPOINT_CONGESTION_THRESHOLD`: FUSE's congestion threshold.
    pub congestion_threshold: Option<u16>,
    /// `UNSTABLE_MOUNTPOINT_CLONE_FUSE_FD`: one cloned descriptor for each session thread.
    pub clone_fuse_fd: bool,
    /// `UNSTABLE_MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE`: largest prefetch window of a stream, in bytes.
    pub prefetch_window_max: Option<u64>,
    /// `UNSTABLE_MOUNTPOINT_PID_FILE`: where to write the process number.
    pub pid_file: Option<String>,
    /// `UNSTABLE_CRT_EVENTLOOP_THREADS`: threads that move bytes from the network.
    pub event_loop_threads: Option<u16>,
    /// `MOUNTPOINT_LOG`: a tracing filter.
    pub log_filter: Option<String>,
    /// `AWS_MAX_ATTEMPTS`: how often a request is tried.
    pub max_attempts: Option<u32>,
    /// `AWS_REGION`, then `AWS_DEFAULT_REGION`.
    pub region: Option<String>,
    /// `AWS_ENDPOINT_URL_S3`, then `AWS_ENDPOINT_URL`.
    pub endpoint_url: Option<String>,
    /// `AWS_CA_BUNDLE`: a PEM file that replaces the machine's trust store.
    pub ca_bundle: Option<String>,
    /// `MOUNTPOINT_START_TIMEOUT`: how long a start may take, in seconds.
    pub start_timeout: Option<u64>,
    /// `NOTIFY_SOCKET`: where systemd wants to be told that the mount is ready.
    pub notify_socket: Option<String>,
}

impl Environment {
    /// Every variable that is read, in the order of the fields; the documentation's list is compared with it.
    pub const NAMES: [&str; 15] = [
        "UNSTABLE_MOUNTPOINT_MAX_BACKGROUND",
        "UNSTABLE_MOUNTPOINT_CONGESTION_THRESHOLD",
        "UNSTABLE_MOUNTPOINT_CLONE_FUSE_FD",
        "UNSTABLE_MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE",
        "UNSTABLE_MOUNTPOINT_PID_FILE",
        "UNSTABLE_CRT_EVENTLOOP_THREADS",
        "MOUNTPOINT_LOG",
        "AWS_MAX_ATTEMPTS",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT_URL",
        "AWS_CA_BUNDLE",
        Self::START_TIMEOUT,
        "NOTIFY_SOCKET",
    ];

    /// Named in messages about a start that took too long.
    pub(super) const START_TIMEOUT: &str = "MOUNTPOINT_START_TIMEOUT";

    /// The process's environment.
    ///
    /// # Errors
    /// A text for the user that names the variable and what it takes.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the environment"
    )]
    pub fn read() -> Result<Self, String> {
        Self::parse(|name| std::env::var(name).ok())
    }

    /// What `variable` tells; an empty value is as good as none.
    ///
    /// # Errors
    /// A text for the user that names the variable and what it takes.
    pub fn parse(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let text = |name: &str| variable(name).filter(|value| !value.is_empty());
        let environment = Self {
            max_background: number(&text, "UNSTABLE_MOUNTPOINT_MAX_BACKGROUND", 1, 65535)?,
            congestion_threshold: number(
                &text,
                "UNSTABLE_MOUNTPOINT_CONGESTION_THRESHOLD",
                1,
                65535,
            )?,
            clone_fuse_fd: flag(&text, "UNSTABLE_MOUNTPOINT_CLONE_FUSE_FD")?,
            prefetch_window_max: number(
                &text,
                "UNSTABLE_MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE",
                1 << 20,
                1 << 40,
            )?,
            pid_file: text("UNSTABLE_MOUNTPOINT_PID_FILE"),
            event_loop_threads: number(&text, "UNSTABLE_CRT_EVENTLOOP_THREADS", 1, 1024)?,
            log_filter: text("MOUNTPOINT_LOG"),
            max_attempts: number(&text, "AWS_MAX_ATTEMPTS", 1, 100)?,
            region: text("AWS_REGION").or_else(|| text("AWS_DEFAULT_REGION")),
            endpoint_url: text("AWS_ENDPOINT_URL_S3").or_else(|| text("AWS_ENDPOINT_URL")),
            ca_bundle: text("AWS_CA_BUNDLE"),
            start_timeout: number(&text, Self::START_TIMEOUT, 1, 3600)?,
            notify_socket: text("NOTIFY_SOCKET"),
        };
        if let (Some(threshold), Some(background)) =
            (environment.congestion_threshold, environment.max_background)
            && threshold > background
        {
            return Err(format!(
                "UNSTABLE_MOUNTPOINT_CONGESTION_THRESHOLD={threshold} is above \
                 UNSTABLE_MOUNTPOINT_MAX_BACKGROUND={background}; it must be at most that"
            ));
        }
        Ok(environment)
    }
}

fn number<T: FromStr + PartialOrd + std::fmt::Display>(
    text: &impl Fn(&str) -> Option<String>,
    name: &str,
    min: T,
    max: T,
) -> Result<Option<T>, String> {
    let Some(value) = text(name) else {
        return Ok(None);
    };
    match value.parse::<T>() {
        Ok(number) if number >= min && number <= max => Ok(Some(number)),
        _ => Err(format!(
            "{name}={value} is not a number from {min} to {max}"
        )),
    }
}

fn flag(text: &impl Fn(&str) -> Option<String>, name: &str) -> Result<bool, String> {
    match text(name).as_deref() {
        None | Some("0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(value) => Err(format!("{name}={value} is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: Result<Environment, &str>) {
        let find = |name: &str| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        };
        match (Environment::parse(find), expected) {
            (Err(error), Err(text)) => assert!(error.contains(text), "{error}"),
            (parsed, expected) => {
                assert_eq!(parsed, expected.map_err(str::to_owned), "{variables:?}");
            }
        }
    }

    #[test]
    fn variables() {
        let none = Environment::default;
        check(&[], Ok(none()));
        check(&[("AWS_REGION", "")], Ok(none()));
        let region = |r: &str| Environment {
            region: Some(r.to_owned()),
            ..none()
        };
        check(&[("AWS_DEFAULT_REGION", "a")], Ok(region("a")));
        check(
            &[("AWS_DEFAULT_REGION", "a"), ("AWS_REGION", "b")],
            Ok(region("b")),
        );
        let background = Environment {
            max_background: Some(100),
            ..none()
        };
        check(
            &[("UNSTABLE_MOUNTPOINT_MAX_BACKGROUND", "100")],
            Ok(background),
        );
        check(
            &[("UNSTABLE_MOUNTPOINT_MAX_BACKGROUND", "0")],
            Err("from 1 to 65535"),
        );
        check(
            &[("UNSTABLE_MOUNTPOINT_MAX_BACKGROUND", "many")],
            Err("UNSTABLE_MOUNTPOINT_MAX_BACKGROUND=many"),
        );
        check(
            &[
                ("UNSTABLE_MOUNTPOINT_MAX_BACKGROUND", "10"),
                ("UNSTABLE_MOUNTPOINT_CONGESTION_THRESHOLD", "11"),
            ],
            Err("at most that"),
        );
        check(
            &[("UNSTABLE_MOUNTPOINT_CLONE_FUSE_FD", "maybe")],
            Err("neither true nor false"),
        );
        check(&[("AWS_MAX_ATTEMPTS", "0")], Err("from 1 to 100"));
    }
}
