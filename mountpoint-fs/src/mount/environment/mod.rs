//! The one place that reads the environment.
//!
//! The AWS credential chain reads its own variables; every variable of Mountpoint itself is here,
//! under its name, parsed once. doc/CONFIGURATION.md has a row for each.
//!
//! mountpoint-s3 calls some of its variables `UNSTABLE_…` or `EXPERIMENTAL_…`. They work, and
//! each has a stable name without that word. The stable name wins.

mod misspelt;
mod names;
mod variables;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use mountpoint_client::network::ProxySettings;

use self::misspelt::misspelt;
pub(super) use self::names::{CONGESTION_THRESHOLD, MAX_BACKGROUND};
use self::variables::Variables;
use crate::config::limits;
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
    /// `AWS_IGNORE_CONFIGURED_ENDPOINT_URLS`: whether neither variables nor files name an endpoint;
    /// wins over the profile.
    pub ignores_endpoint_urls: Option<bool>,
    /// The files of AWS that go with these variables.
    pub aws_files: AwsFiles,
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

/// The files of AWS that may name an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AwsFiles {
    /// No files: the variables were given.
    #[default]
    None,
    /// `~/.aws/config`, or the files that variables of this process name.
    OfProcess,
}

impl Environment {
    /// Named in messages about a start that took too long.
    pub(in crate::mount) const START_TIMEOUT: &str = names::START_TIMEOUT[0];

    /// Every variable that is read; a test compares the documentation's list with it.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::effective_names().chain(names::WITHOUT_EFFECT.iter().map(|(name, _)| *name))
    }

    fn effective_names() -> impl Iterator<Item = &'static str> {
        names::EFFECTIVE.into_iter().flatten().copied()
    }

    /// How long a start may take.
    pub(in crate::mount) fn start_time_max(&self) -> Duration {
        let given = self.start_timeout.map(Duration::from_secs);
        given.unwrap_or(limits::START_TIMEOUT)
    }

    /// The default directory of unfinished uploads: this user's directory for persistent program
    /// state.
    pub(in crate::mount) fn state_directory(&self) -> Option<PathBuf> {
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
        let mut environment = Self::parse(|name| std::env::var_os(name))?;
        environment.aws_files = AwsFiles::OfProcess;
        let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let read: Vec<&str> = Self::names().collect();
        environment.warnings.extend(misspelt(set, &read));
        Ok(environment)
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
            clone_fuse_fd: variables.flag(&names::CLONE_FUSE_FD)?.unwrap_or(false),
            fuse_transport: variables.choice(&names::FUSE_TRANSPORT)?,
            hedging: variables.flag(&names::HEDGING)?,
            unchecked_reads: variables.flag(&names::UNCHECKED_READS)?,
            cache_key: variables.text(&names::CACHE_KEY),
            keeps_cache: variables.flag(&names::KEEP_CACHE)?,
            prefetch_window_max: variables.number(
                &names::MAX_PREFETCH_WINDOW_SIZE,
                1 << 20,
                1 << 40,
            )?,
            pid_file: variables.renamed_text(&names::PID_FILE),
            event_loop_threads: variables.number(&names::EVENTLOOP_THREADS, 1, 1024)?,
            log_filter: variables.text(&names::LOG),
            max_attempts: variables.number(&names::MAX_ATTEMPTS, 1, 100)?,
            region: variables.text(&names::REGION),
            endpoint_url: variables.endpoint_url(),
            ignores_endpoint_urls: variables
                .text(&names::IGNORE_ENDPOINT_URLS)
                .map(|value| value.eq_ignore_ascii_case("true")),
            aws_files: AwsFiles::None,
            ca_bundle: variables.text(&names::CA_BUNDLE),
            // Every AWS tool takes any value but "true" for no.
            ec2_metadata_disabled: variables
                .text(&names::EC2_METADATA_DISABLED)
                .is_some_and(|value| value.eq_ignore_ascii_case("true")),
            ec2_metadata_named: variables.text(&names::EC2_METADATA_ENDPOINT).is_some(),
            proxy: variables.proxy()?,
            start_timeout: variables.number(&names::START_TIMEOUT, 1, 3600)?,
            notify_socket: variables.text(&names::NOTIFY_SOCKET),
            state_home: variables.text(&names::STATE_HOME),
            home: variables.text(&names::HOME),
            otlp_is_cumulative: variables.is_cumulative()?,
            relative_file: names::FILES_OF_AWS.into_iter().find(|name| {
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

#[cfg(test)]
mod tests;
