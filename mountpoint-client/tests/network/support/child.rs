//! This program as a child process with an environment of its own, in which a client does as it is
//! told.
//!
//! The parent writes a command a line; the child answers each with a line that begins with
//! [`MARK`].

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::instance::MetadataUse;
use mountpoint_client::network::ProxySettings;
use mountpoint_client::testing::server::Server;
use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;

use super::bucket::{Connected, connect, options};

/// The mark that sets answers apart from the test harness's output.
const MARK: &str = "@ ";
/// The endpoint of the child's bucket. That it is set makes a process a child.
const ENDPOINT: &str = "TEST_ENDPOINT";
/// Instead of an endpoint: AWS, in the region that is found. No request to a bucket is made then.
pub(crate) const NO_ENDPOINT: &str = "none";
const PROFILE: &str = "TEST_PROFILE";
const PROXY: &str = "TEST_PROXY";
const INTERFACES: &str = "TEST_INTERFACES";

/// A call that takes this long has waited for a server that it must not wait for. No measure of
/// speed: a starved machine needs a tenth of it.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// How a child is started.
pub(crate) struct Setting {
    command: Command,
    /// Its home directory.
    home: TempDir,
}

impl Setting {
    /// A child for the bucket of a server, with an environment that holds no credentials.
    pub(crate) fn new(server: &Server) -> Self {
        Self::behind(&[], &server.url())
    }

    /// A child that is started by another program (`ip netns exec …`).
    pub(crate) fn behind(wrapper: &[&str], endpoint: &str) -> Self {
        let home = TempDir::new().unwrap();
        let program = std::env::current_exe().unwrap();
        let mut command = match wrapper {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        command
            .args([
                "--exact",
                "support::child::does_as_it_is_told",
                "--nocapture",
            ])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", home.path())
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env(ENDPOINT, endpoint)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Self { command, home }
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Instance metadata is a stub.
    pub(crate) fn on_instance(self, metadata: &str) -> Self {
        self.variable("AWS_EC2_METADATA_DISABLED", "false")
            .variable("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata)
    }

    /// `~/.aws/config`.
    pub(crate) fn config(self, text: &str) -> Self {
        self.file(".aws/config", text)
    }

    /// A file below the home directory.
    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn home(&self) -> &str {
        self.home.path().to_str().unwrap()
    }

    /// `--profile`.
    pub(crate) fn profile(self, name: &str) -> Self {
        self.variable(PROFILE, name)
    }

    pub(crate) fn proxy(self, url: &str) -> Self {
        self.variable(PROXY, url)
    }

    pub(crate) fn interfaces(self, names: &str) -> Self {
        self.variable(INTERFACES, names)
    }

    pub(crate) fn start(mut self) -> Child {
        let permit = ChildPermit::take();
        let mut process = self.command.spawn().unwrap();
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap()).lines();
        Child {
            process,
            commands,
            answers,
            _home: self.home,
            _permit: permit,
        }
    }
}

/// Children that run at once. Each asks services with the client's own timeouts, of which the
/// shortest is a second: on a starved machine many at once are too slow for that.
const CHILDREN_MAX: u32 = 2;

/// A permit for one of the children that may run at once.
struct ChildPermit;

static TAKEN: Mutex<u32> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

impl ChildPermit {
    fn take() -> Self {
        let mut taken = TAKEN.lock();
        GIVEN_BACK.wait_while(&mut taken, |taken| *taken >= CHILDREN_MAX);
        *taken += 1;
        Self
    }
}

impl Drop for ChildPermit {
    fn drop(&mut self) {
        *TAKEN.lock() -= 1;
        GIVEN_BACK.notify_one();
    }
}

/// A running child. No test has two at a time.
pub(crate) struct Child {
    process: Process,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _home: TempDir,
    /// The last to go.
    _permit: ChildPermit,
}

impl Child {
    /// The child's answer to `command`: `connect`, `head`, `get`, `put`, `bucket`, `all`, `large`,
    /// `elsewhere`, `source`, `region` or `debug`.
    pub(crate) fn say(&mut self, command: &str) -> String {
        writeln!(self.commands, "{command}").unwrap();
        for line in self.answers.by_ref() {
            let line = line.unwrap();
            // The harness may have printed something on the same line.
            if let Some((_, answer)) = line.split_once(MARK) {
                return answer.to_owned();
            }
        }
        panic!("the child ended at {command:?}");
    }

    #[track_caller]
    pub(crate) fn check(&mut self, command: &str, answer: &str) {
        assert_eq!(self.say(command), answer, "{command}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended; there is nobody left to tell either way.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The child's side. A process that is no child has nothing to do.
#[test]
fn does_as_it_is_told() {
    let Some(endpoint) = variable(ENDPOINT) else {
        return;
    };
    let mut client = None;
    for command in std::io::stdin().lines() {
        let answer = obey(&mut client, &endpoint, &command.unwrap());
        println!("\n{MARK}{}", answer.unwrap_or_else(|error| error));
    }
}

/// The result as text, or the error's text.
fn obey(client: &mut Option<Connected>, endpoint: &str, command: &str) -> Result<String, String> {
    if command == "connect" {
        *client = Some(start(endpoint)?);
        return Ok("ok".to_owned());
    }
    let connected = client.as_ref().ok_or("not connected")?;
    let done = match command {
        "source" => return Ok(connected.client.credentials_source().unwrap_or_default()),
        "region" => return Ok(connected.client.region().to_owned()),
        "debug" => return Ok(format!("{:?}", connected.client)),
        "head" => connected.head(),
        "get" => connected.get(),
        "put" => connected.put(),
        "bucket" => connected.head_bucket(),
        "all" => connected.use_all(),
        "large" => connected.get_large(),
        "elsewhere" => connected.get_elsewhere(),
        other => return Err(format!("what is {other:?}?")),
    };
    done.map(|()| "ok".to_owned())
        .map_err(|error| error.to_string())
}

fn start(endpoint: &str) -> Result<Connected, String> {
    let mut options = options(endpoint);
    options.credentials = CredentialsMode::Default {
        profile: variable(PROFILE),
    };
    let proxy = variable(PROXY);
    // Only the server itself: what else is on this machine has to find its way around the proxy.
    let no_proxy = endpoint.strip_prefix("http://");
    options.proxy = ProxySettings::parse(proxy.as_deref(), proxy.as_deref(), no_proxy)?;
    let interfaces = variable(INTERFACES).unwrap_or_default();
    options.network_interfaces = interfaces.split_whitespace().map(str::to_owned).collect();
    options.instance_metadata = MetadataUse::Always;
    if endpoint == NO_ENDPOINT {
        (options.endpoint_url, options.region) = (None, None);
    }
    connect(options).map_err(|error| error.to_string())
}

fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "what a test's child is told")]
    let value = std::env::var(name).ok();
    value
}
