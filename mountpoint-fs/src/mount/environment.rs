//! The one place that reads the environment.
//!
//! The AWS credential chain reads its own variables; every variable of Mountpoint itself is here,
//! under its name, parsed once. doc/CONFIGURATION.md has a row for each.
//!
//! mountpoint-s3 calls some of its variables `UNSTABLE_…` or `EXPERIMENTAL_…`. They work, and
//! each has a stable name without that word. The stable name wins.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use mountpoint_client::network::ProxySettings;

use crate::cli::parse_endpoint;
use crate::fuse::Transport;

/// Variables that Mountpoint reads, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `MOUNTPOINT_MAX_BACKGROUND`: FUSE's `max_background`.
    pub max_background: Option<u16>,
    /// `MOUNTPOINT_CONGESTION_THRESHOLD`: FUSE's congestion threshold.
    pub congestion_threshold: Option<u16>,
    /// `MOUNTPOINT_CLONE_FUSE_FD`: one cloned descriptor for each session thread.
    pub clone_fuse_fd: bool,
    /// `MOUNTPOINT_FUSE_TRANSPORT`: the channel of requests from the kernel.
    pub fuse_transport: Transport,
    /// `MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE`: largest prefetch window of a stream, in bytes.
    pub prefetch_window_max: Option<u64>,
    /// `MOUNTPOINT_HEDGING`: whether a late GET is sent a second time.
    pub hedging: Option<bool>,
    /// `MOUNTPOINT_NO_DOWNLOAD_INTEGRITY_VALIDATION`: small files are read without their checksums.
    pub unchecked_reads: Option<bool>,
    /// `MOUNTPOINT_CACHE_KEY`: the part of the cache directory to use.
    pub cache_key: Option<String>,
    /// `MOUNTPOINT_DISABLE_CACHE_CLEANUP`: wins over `--cache-cleanup`.
    pub keeps_cache: Option<bool>,
    /// `MOUNTPOINT_PID_FILE`: the file for the process id.
    pub pid_file: Option<String>,
    /// `MOUNTPOINT_EVENTLOOP_THREADS`: threads that move bytes from the network.
    pub event_loop_threads: Option<u16>,
    /// `MOUNTPOINT_LOG`: a tracing filter.
    pub log_filter: Option<String>,
    /// `AWS_MAX_ATTEMPTS`: attempts of a request.
    pub max_attempts: Option<u32>,
    /// `AWS_REGION`.
    ///
    /// `AWS_DEFAULT_REGION` is a guess like a profile's region, which the client finds: the server
    /// may correct it.
    pub region: Option<String>,
    /// `AWS_ENDPOINT_URL_S3`, then `AWS_ENDPOINT_URL`: a URL, or the reason why the text is none.
    ///
    /// The reason matters where no flag names an endpoint.
    pub endpoint_url: Option<Result<String, String>>,
    /// `AWS_CA_BUNDLE`: a PEM file that replaces the machine's trust store.
    pub ca_bundle: Option<String>,
    /// `AWS_EC2_METADATA_SERVICE_ENDPOINT`: whether the variable names the metadata service. The
    /// SDK reads the value itself.
    pub ec2_metadata_named: bool,
    /// `AWS_EC2_METADATA_DISABLED`: whether the instance's metadata service must not be asked.
    pub ec2_metadata_disabled: bool,
    /// `https_proxy`, `http_proxy`, `no_proxy`, in lower and upper case.
    pub proxy: ProxySettings,
    /// `MOUNTPOINT_START_TIMEOUT`: how long a start may take, in seconds.
    pub start_timeout: Option<u64>,
    /// `NOTIFY_SOCKET`: the socket where systemd expects the notice of readiness.
    pub notify_socket: Option<String>,
    /// `XDG_STATE_HOME`: the directory of this user's persistent program state.
    pub state_home: Option<String>,
    /// `HOME`: this user's directory.
    pub home: Option<String>,
    /// `MOUNTPOINT_OTLP_METRICS_TEMPORALITY_PREFERENCE`: whether a collector gets sums since the
    /// start, not differences.
    pub otlp_is_cumulative: Option<bool>,
    /// A variable of AWS with the relative path of a file. The SDK may read that file at any time.
    pub relative_file: Option<&'static str>,
    /// Remarks about variables that are set.
    pub warnings: Vec<String>,
}

/// Names of one setting; the first that is set wins.
type Names = [&'static str];

/// Names of FUSE's `max_background`.
pub(super) const MAX_BACKGROUND: [&str; 2] = [
    "MOUNTPOINT_MAX_BACKGROUND",
    "UNSTABLE_MOUNTPOINT_MAX_BACKGROUND",
];
/// Names of FUSE's congestion threshold.
pub(super) const CONGESTION_THRESHOLD: [&str; 2] = [
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

const FUSE_TRANSPORT: [&str; 1] = ["MOUNTPOINT_FUSE_TRANSPORT"];
/// Names of the key of a part of the cache directory.
const CACHE_KEY: [&str; 2] = ["MOUNTPOINT_CACHE_KEY", "UNSTABLE_MOUNTPOINT_CACHE_KEY"];
/// Names of the switch against `--cache-cleanup`.
const KEEP_CACHE: [&str; 2] = [
    "MOUNTPOINT_DISABLE_CACHE_CLEANUP",
    "UNSTABLE_MOUNTPOINT_DISABLE_CACHE_CLEANUP",
];
const HEDGING: [&str; 1] = ["MOUNTPOINT_HEDGING"];
/// Names of the switch against checksums of what is read.
const UNCHECKED_READS: [&str; 2] = [
    "MOUNTPOINT_NO_DOWNLOAD_INTEGRITY_VALIDATION",
    "EXPERIMENTAL_MOUNTPOINT_NO_DOWNLOAD_INTEGRITY_VALIDATION",
];
const LOG: [&str; 1] = ["MOUNTPOINT_LOG"];
const MAX_ATTEMPTS: [&str; 1] = ["AWS_MAX_ATTEMPTS"];
const REGION: [&str; 1] = ["AWS_REGION"];
const ENDPOINT_URL: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
const CA_BUNDLE: [&str; 1] = ["AWS_CA_BUNDLE"];
const EC2_METADATA_DISABLED: [&str; 1] = ["AWS_EC2_METADATA_DISABLED"];
const EC2_METADATA_ENDPOINT: [&str; 1] = ["AWS_EC2_METADATA_SERVICE_ENDPOINT"];
const HTTPS_PROXY: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];
const HTTP_PROXY: [&str; 2] = ["http_proxy", "HTTP_PROXY"];
const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];
/// Files that the SDK reads whenever it looks up credentials.
const FILES_OF_AWS: [&str; 4] = [
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];
const START_TIMEOUT: [&str; 1] = [Environment::START_TIMEOUT];
const NOTIFY_SOCKET: [&str; 1] = ["NOTIFY_SOCKET"];
const STATE_HOME: [&str; 1] = ["XDG_STATE_HOME"];
const HOME: [&str; 1] = ["HOME"];
const OTLP_TEMPORALITY: [&str; 2] = [
    "MOUNTPOINT_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "EXPERIMENTAL_MOUNTPOINT_OTLP_METRICS_TEMPORALITY_PREFERENCE",
];

/// Variables of mountpoint-s3 without effect here, yet or for ever, and the reason.
const WITHOUT_EFFECT: [(&str, &str); 4] = [
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

impl Environment {
    /// Named in messages about a start that took too long.
    pub(super) const START_TIMEOUT: &str = "MOUNTPOINT_START_TIMEOUT";

    /// Every variable that is read; a test compares the documentation's list with it.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::effective_names().chain(WITHOUT_EFFECT.iter().map(|(name, _)| *name))
    }

    fn effective_names() -> impl Iterator<Item = &'static str> {
        let effective: [&Names; 26] = [
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
        effective.into_iter().flatten().copied()
    }

    /// The default directory of unfinished uploads: this user's directory for persistent program
    /// state.
    pub(super) fn state_directory(&self) -> Option<PathBuf> {
        let base = match (&self.state_home, &self.home) {
            (Some(state_home), _) => PathBuf::from(state_home),
            (None, _) if nix::unistd::geteuid().is_root() => PathBuf::from("/var/lib"),
            (None, Some(home)) => PathBuf::from(home).join(".local/state"),
            (None, None) => return None,
        };
        Some(base.join("mountpoint-s3"))
    }

    /// The process's environment.
    ///
    /// # Errors
    /// A text for the user that names the variable and what it takes.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the environment"
    )]
    pub fn read() -> Result<Self, String> {
        Self::parse(|name| std::env::var_os(name))
    }

    /// Parses the variables; an empty value counts as none.
    ///
    /// # Errors
    /// A text for the user that names the variable and its values.
    pub fn parse(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        Self::check_encoding(&variable)?;
        let find = |name: &str| {
            // Lossy conversion suffices: variables with an effect were checked above.
            let value = variable(name)?.to_string_lossy().into_owned();
            (!value.is_empty()).then_some(value)
        };
        let mut variables = Variables {
            find: &find,
            warnings: Vec::new(),
        };
        let environment = Self {
            max_background: variables.number(&MAX_BACKGROUND, 1, 65535)?,
            congestion_threshold: variables.number(&CONGESTION_THRESHOLD, 1, 65535)?,
            clone_fuse_fd: variables.flag(&CLONE_FUSE_FD)?.unwrap_or(false),
            fuse_transport: variables.choice(&FUSE_TRANSPORT)?,
            hedging: variables.flag(&HEDGING)?,
            unchecked_reads: variables.flag(&UNCHECKED_READS)?,
            cache_key: variables.text(&CACHE_KEY),
            keeps_cache: variables.flag(&KEEP_CACHE)?,
            prefetch_window_max: variables.number(&MAX_PREFETCH_WINDOW_SIZE, 1 << 20, 1 << 40)?,
            pid_file: variables.renamed_text(&PID_FILE),
            event_loop_threads: variables.number(&EVENTLOOP_THREADS, 1, 1024)?,
            log_filter: variables.text(&LOG),
            max_attempts: variables.number(&MAX_ATTEMPTS, 1, 100)?,
            region: variables.text(&REGION),
            endpoint_url: variables.endpoint_url(),
            ca_bundle: variables.text(&CA_BUNDLE),
            // Every AWS tool takes any value but "true" for no.
            ec2_metadata_disabled: variables
                .text(&EC2_METADATA_DISABLED)
                .is_some_and(|value| value.eq_ignore_ascii_case("true")),
            ec2_metadata_named: variables.text(&EC2_METADATA_ENDPOINT).is_some(),
            proxy: variables.proxy()?,
            start_timeout: variables.number(&START_TIMEOUT, 1, 3600)?,
            notify_socket: variables.text(&NOTIFY_SOCKET),
            state_home: variables.text(&STATE_HOME),
            home: variables.text(&HOME),
            otlp_is_cumulative: variables.is_cumulative()?,
            relative_file: FILES_OF_AWS.into_iter().find(|name| {
                let value = (variables.find)(name);
                value.is_some_and(|path| !path.starts_with(['/', '~']))
            }),
            warnings: Vec::new(),
        };
        variables.warn_of_those_without_effect();
        environment.check_background(&variables)?;
        Ok(Self {
            warnings: variables.warnings,
            ..environment
        })
    }

    fn check_encoding(variable: impl Fn(&str) -> Option<OsString>) -> Result<(), String> {
        let is_text = |name: &str| variable(name).is_none_or(|value| value.to_str().is_some());
        match Self::effective_names().find(|name| !is_text(name)) {
            Some(name) => Err(format!(
                "{name} is not UTF-8: set it to a text, or unset it"
            )),
            None => Ok(()),
        }
    }

    fn check_background(&self, variables: &Variables<'_>) -> Result<(), String> {
        let Some((threshold, background)) = self.congestion_threshold.zip(self.max_background)
        else {
            return Ok(());
        };
        if threshold <= background {
            return Ok(());
        }
        Err(format!(
            "{}={threshold} is above {}={background}; it must be at most that",
            variables.used(&CONGESTION_THRESHOLD),
            variables.used(&MAX_BACKGROUND)
        ))
    }
}

/// A view of the environment that collects warnings.
struct Variables<'a> {
    find: &'a dyn Fn(&str) -> Option<String>,
    warnings: Vec<String>,
}

impl Variables<'_> {
    /// The value of the first name that is set, with that name.
    fn named(&self, names: &'static Names) -> Option<(&'static str, String)> {
        names
            .iter()
            .find_map(|name| Some((*name, (self.find)(name)?)))
    }

    fn text(&self, names: &'static Names) -> Option<String> {
        self.named(names).map(|(_, value)| value)
    }

    /// The name in use, for a message.
    fn used(&self, names: &'static Names) -> &'static str {
        self.named(names).map_or(names[0], |(name, _)| name)
    }

    /// A setting whose name changed; two names with two values cause a warning.
    fn renamed(&mut self, names: &'static Names) -> Option<(&'static str, String)> {
        let (name, value) = self.named(names)?;
        for other in names.iter().filter(|other| **other != name) {
            if (self.find)(other).is_some_and(|other| other != value) {
                self.warnings.push(format!(
                    "{name}={value} is used and {other}, its old name, is not: set one of them"
                ));
            }
        }
        Some((name, value))
    }

    fn renamed_text(&mut self, names: &'static Names) -> Option<String> {
        self.renamed(names).map(|(_, value)| value)
    }

    fn number<T: FromStr + PartialOrd + fmt::Display>(
        &mut self,
        names: &'static Names,
        min: T,
        max: T,
    ) -> Result<Option<T>, String> {
        let Some((name, value)) = self.renamed(names) else {
            return Ok(None);
        };
        match value.parse::<T>() {
            Ok(number) if number >= min && number <= max => Ok(Some(number)),
            _ => Err(format!(
                "{name}={value} is not a number from {min} to {max}"
            )),
        }
    }

    fn choice<T: FromStr<Err = String> + Default>(
        &self,
        names: &'static Names,
    ) -> Result<T, String> {
        let Some((name, value)) = self.named(names) else {
            return Ok(T::default());
        };
        value
            .parse()
            .map_err(|why| format!("{name}={value} cannot be used: {why}"))
    }

    fn flag(&mut self, names: &'static Names) -> Result<Option<bool>, String> {
        match self.renamed(names) {
            None => Ok(None),
            Some((name, value)) => match value.to_ascii_lowercase().as_str() {
                "0" | "false" => Ok(Some(false)),
                "1" | "true" => Ok(Some(true)),
                _ => Err(format!("{name}={value} is neither true nor false")),
            },
        }
    }

    fn is_cumulative(&mut self) -> Result<Option<bool>, String> {
        let Some((name, value)) = self.renamed(&OTLP_TEMPORALITY) else {
            return Ok(None);
        };
        match value.to_ascii_lowercase().as_str() {
            "cumulative" => Ok(Some(true)),
            "delta" => Ok(Some(false)),
            _ => Err(format!("{name}={value} is neither cumulative nor delta")),
        }
    }

    /// No message contains the value: it may hold a password.
    fn endpoint_url(&self) -> Option<Result<String, String>> {
        let (name, value) = self.named(&ENDPOINT_URL)?;
        Some(parse_endpoint(&value).map_err(|why| format!("{name}: {why}")))
    }

    fn proxy(&self) -> Result<ProxySettings, String> {
        let (http, https) = (self.text(&HTTP_PROXY), self.text(&HTTPS_PROXY));
        let no_proxy = self.text(&NO_PROXY);
        ProxySettings::parse(http.as_deref(), https.as_deref(), no_proxy.as_deref())
    }

    fn warn_of_those_without_effect(&mut self) {
        for (name, why) in WITHOUT_EFFECT {
            if (self.find)(name).is_some() {
                self.warnings.push(format!("{name} has no effect: {why}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

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
            ("auto", Transport::Auto),
            ("dev-fuse", Transport::DevFuse),
            ("io-uring", Transport::IoUring),
            ("fuser", Transport::Fuser),
            ("", Transport::Auto),
        ] {
            let expected = Environment {
                fuse_transport,
                ..none()
            };
            check(&[("MOUNTPOINT_FUSE_TRANSPORT", value)], Ok(expected));
        }
        check(
            &[("MOUNTPOINT_FUSE_TRANSPORT", "uring")],
            Err(
                "MOUNTPOINT_FUSE_TRANSPORT=uring cannot be used: it is none of auto, dev-fuse, io-uring",
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
        let warning =
            format!("{stable}=/a is used and {old}, its old name, is not: set one of them");
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
            Err(
                "MOUNTPOINT_CONGESTION_THRESHOLD=11 is above UNSTABLE_MOUNTPOINT_MAX_BACKGROUND=10",
            ),
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
}
