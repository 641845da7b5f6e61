//! The S3 server in a process of its own, so that its CPU time can be told from the client's.
//!
//! [`serve`] is the child: it prints its address, answers each line of standard input with a line, and ends
//! with its input, so it never outlives its parent. [`ServerProcess`] is the parent's side.

use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use mountpoint_client::server::{
    Fault, LogMode, Operation, PartTags, Rule, Server, ServerOptions, SyntheticChecker,
};
use serde::{Deserialize, Serialize};

use crate::clock::Stopwatch;
use crate::dataset::{BUCKET, Dataset, FileSet, WRITTEN};
use crate::network::{SERVER_ADDRESS, ShapedNetwork};
use crate::system::{ACCESS_KEY_ID, SECRET_ACCESS_KEY};
use crate::workload::{Conditions, Link};

/// Sets the counters to zero.
const CLEAR: &str = "clear";
/// Asks for the counters.
const COUNT: &str = "count";
/// Sets how it behaves; the conditions follow.
const BEHAVE: &str = "behave";
/// Compares what was written with what should have been; the number of the set follows.
const CHECK: &str = "check";
/// Removes what was written.
const REMOVE: &str = "remove";

/// How long answers may still be on their way after the last read; an idle peer may keep one open.
const IDLE_TIME_MAX: Duration = Duration::from_secs(2);
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What is written stays in the server's memory, which would cost more to touch first than to receive: one heap, of huge
/// pages, that is never given back, for pieces up to the most that the C library allows.
const ALLOCATOR: &str = "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=33554432:\
     glibc.malloc.trim_threshold=68719476736";

/// What the server was asked for since the counters were cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Requests {
    pub(crate) gets: u64,
    pub(crate) heads: u64,
    pub(crate) lists: u64,
    pub(crate) all: u64,
    /// Requests that are being answered.
    pub(crate) in_flight: u64,
    /// Bytes of the bodies of answers to GET requests for objects; counted when an answer has ended.
    pub(crate) bytes: u64,
}

/// What a server holds and how it behaves.
#[derive(Clone, Copy, Debug, clap::Args, Serialize)]
pub(crate) struct Setup {
    /// Half the files, half their size
    #[arg(long)]
    pub(crate) quick: bool,
    /// Time that the server waits before it answers a request, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) latency_ms: u64,
    /// Bandwidth of each answer in megabits per second; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) bandwidth_mbps: u64,
    /// Where the server listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", hide = true)]
    pub(crate) address: IpAddr,
}

impl Setup {
    pub(crate) fn conditions(self) -> Conditions {
        Conditions {
            latency_ms: self.latency_ms,
            bandwidth_mbps: self.bandwidth_mbps,
        }
    }
}

/// The servers of a run: one on loopback, and one behind each link that a workload asks for, the latest of them.
#[derive(Debug)]
pub(crate) struct Servers {
    setup: Setup,
    local: Option<ServerProcess>,
    linked: Option<(Link, ServerProcess)>,
}

impl Servers {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            setup,
            local: None,
            linked: None,
        }
    }

    /// The server behind `link`, which is started if it is not there.
    pub(crate) fn behind(&mut self, link: Option<Link>) -> Result<&mut ServerProcess> {
        let setup = self.setup;
        match link {
            None => start_if(&mut self.local, || ServerProcess::start(setup, None)),
            Some(link) => {
                if self
                    .linked
                    .as_ref()
                    .is_some_and(|(found, _)| *found != link)
                {
                    self.linked = None;
                }
                let start = || Ok((link, ServerProcess::start(setup, Some(link))?));
                Ok(&mut start_if(&mut self.linked, start)?.1)
            }
        }
    }
}

fn start_if<T>(place: &mut Option<T>, start: impl FnOnce() -> Result<T>) -> Result<&mut T> {
    let started = match place.take() {
        Some(there) => there,
        None => start().context("the S3 server")?,
    };
    Ok(place.insert(started))
}

/// A server in a child process.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    url: String,
    /// Dropped after the process has ended.
    network: Option<ShapedNetwork>,
}

impl ServerProcess {
    /// Starts a server on loopback, or behind `link`.
    pub(crate) fn start(setup: Setup, link: Option<Link>) -> Result<Self> {
        let network = link.map(ShapedNetwork::new).transpose()?;
        let program = std::env::current_exe().context("this program's path")?;
        let mut command = match &network {
            Some(network) => network.command(&program),
            None => Command::new(program),
        };
        command.env("GLIBC_TUNABLES", ALLOCATOR);
        command.arg("serve").args(setup.quick.then_some("--quick"));
        if network.is_some() {
            command.args(["--address", SERVER_ADDRESS]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take().context("the server's standard input")?;
        let answers = BufReader::new(
            child
                .stdout
                .take()
                .context("the server's standard output")?,
        );
        let mut server = Self {
            child,
            questions,
            answers,
            url: String::new(),
            network,
        };
        server.url = server.answer()?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The network interfaces that lead to it; empty for loopback.
    pub(crate) fn interfaces(&self) -> &[String] {
        self.network
            .as_ref()
            .map_or(&[], |network| network.interfaces())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn clear(&mut self) -> Result<()> {
        let answer = self.ask(CLEAR)?;
        ensure!(answer == CLEAR, "the server answered {answer:?}");
        Ok(())
    }

    /// Sets how the server behaves from now on.
    pub(crate) fn behave(&mut self, conditions: Conditions) -> Result<()> {
        let question = format!("{BEHAVE} {}", serde_json::to_string(&conditions)?);
        let answer = self.ask(&question)?;
        ensure!(answer == BEHAVE, "the server answered {answer:?}");
        Ok(())
    }

    /// Says what is wrong with the files of a set that were written.
    pub(crate) fn check(&mut self, files: FileSet) -> Result<()> {
        let answer = self.ask(&format!("{CHECK} {}", files.seed(0)))?;
        ensure!(answer == CHECK, "{answer}");
        Ok(())
    }

    /// Removes what was written.
    pub(crate) fn remove_written(&mut self) -> Result<()> {
        let answer = self.ask(REMOVE)?;
        ensure!(answer == REMOVE, "the server answered {answer:?}");
        Ok(())
    }

    /// The counters, after the answers that were on their way have ended.
    pub(crate) fn requests_when_idle(&mut self) -> Result<Requests> {
        let started = Stopwatch::start();
        loop {
            let requests: Requests = serde_json::from_str(&self.ask(COUNT)?)?;
            if requests.in_flight == 0 || started.elapsed() > IDLE_TIME_MAX {
                return Ok(requests);
            }
            thread::sleep(IDLE_POLL_INTERVAL);
        }
    }

    fn ask(&mut self, question: &str) -> Result<String> {
        writeln!(self.questions, "{question}").context("the server's process has ended")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "the server's process has ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The child's work: serves the data set until standard input ends.
pub(crate) fn serve(setup: Setup) -> Result<()> {
    let server = Server::start(ServerOptions {
        address: (setup.address, 0).into(),
        credentials: Some((ACCESS_KEY_ID.to_owned(), SECRET_ACCESS_KEY.to_owned())),
        worker_threads: thread::available_parallelism().map_or(2, usize::from),
        log: LogMode::Counters,
        part_tags: PartTags::Checksum,
        ..ServerOptions::default()
    })?;
    server.store().create_bucket(BUCKET);
    for set in Dataset::new(setup.quick).file_sets() {
        for index in 0..set.count {
            server
                .store()
                .put_synthetic(BUCKET, &set.key(index), set.size, set.seed(index));
        }
    }
    server.store().put(BUCKET, &written_marker(), "");
    let written = Dataset::new(setup.quick).written_sets();
    let mut output = io::stdout().lock();
    writeln!(output, "{}", server.url())?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (question, argument) = line.split_once(' ').unwrap_or((&line, ""));
        match question {
            CLEAR => {
                server.log().clear();
                writeln!(output, "{CLEAR}")?;
            }
            COUNT => writeln!(output, "{}", serde_json::to_string(&requests(&server))?)?,
            BEHAVE => {
                behave(&server, serde_json::from_str(argument)?);
                writeln!(output, "{BEHAVE}")?;
            }
            CHECK => {
                let seed: u64 = argument.parse()?;
                let files = written.iter().find(|files| files.seed(0) == seed);
                let found = check(&server, *files.context("there is no such set")?);
                writeln!(
                    output,
                    "{}",
                    found.err().unwrap_or_else(|| CHECK.to_owned())
                )?;
            }
            REMOVE => {
                remove_written(&server);
                writeln!(output, "{REMOVE}")?;
            }
            other => bail!("unknown request {other:?}"),
        }
    }
    Ok(())
}

/// A key that makes the directory, for those who do not see it without.
fn written_marker() -> String {
    format!("{WRITTEN}/keep")
}

fn remove_written(server: &Server) {
    let prefix = format!("{WRITTEN}/");
    let keys = server.store().keys(BUCKET).into_iter();
    for key in keys.filter(|key| key.starts_with(&prefix) && *key != written_marker()) {
        server.store().delete(BUCKET, &key);
    }
}

/// The first object that is not what was written, in words.
fn check(server: &Server, files: FileSet) -> Result<(), String> {
    for index in 0..files.count {
        let key = files.key(index);
        let Some(object) = server.store().object(BUCKET, &key) else {
            return Err(format!("{key} is not in the bucket"));
        };
        if object.size() != files.size {
            return Err(format!(
                "{key} has {} bytes, not {}",
                object.size(),
                files.size
            ));
        }
        let mut checker = SyntheticChecker::new(files.seed(index), 0);
        for piece in object.pieces() {
            let compared = checker.check(&piece);
            compared.map_err(|mismatch| format!("{key}: {mismatch}"))?;
        }
    }
    Ok(())
}

fn behave(server: &Server, conditions: Conditions) {
    server.faults().clear();
    if conditions.latency_ms > 0 {
        let fixed = Duration::from_millis(conditions.latency_ms);
        server.faults().add(Rule::always(Fault::Latency {
            fixed,
            jitter: Duration::ZERO,
        }));
    }
    if conditions.bandwidth_mbps > 0 {
        let bytes_per_second = conditions.bandwidth_mbps * 1_000_000 / 8;
        server
            .faults()
            .add(Rule::always(Fault::Bandwidth(bytes_per_second)));
    }
}

fn requests(server: &Server) -> Requests {
    let get = server.log().counters(Operation::GetObject);
    let in_flight = Operation::ALL
        .iter()
        .map(|operation| server.log().counters(*operation).in_flight);
    Requests {
        gets: get.requests,
        heads: server.log().count(Operation::HeadObject),
        lists: server.log().count(Operation::ListObjectsV2)
            + server.log().count(Operation::ListObjects),
        all: server.log().count_all(),
        in_flight: in_flight.sum(),
        bytes: get.bytes_sent,
    }
}
