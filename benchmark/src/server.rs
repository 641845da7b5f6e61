//! The S3 server in a process of its own, so that its CPU time can be told from the client's.
//!
//! [`serve`] is the child: it prints its address, answers each line of standard input with a line, and ends
//! with its input, so it never outlives its parent. [`ServerProcess`] is the parent's side.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use mountpoint_client::server::{Fault, LogMode, Operation, Rule, Server, ServerOptions};
use serde::{Deserialize, Serialize};

use crate::clock::Stopwatch;
use crate::dataset::{BUCKET, Dataset};
use crate::system::{ACCESS_KEY_ID, SECRET_ACCESS_KEY};
use crate::workload::Conditions;

/// Sets the counters to zero.
const CLEAR: &str = "clear";
/// Asks for the counters.
const COUNT: &str = "count";
/// Sets how it behaves; the conditions follow.
const BEHAVE: &str = "behave";

/// How long answers may still be on their way after the last read; an idle peer may keep one open.
const IDLE_TIME_MAX: Duration = Duration::from_secs(2);
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(20);

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
}

impl Setup {
    pub(crate) fn conditions(self) -> Conditions {
        Conditions {
            latency_ms: self.latency_ms,
            bandwidth_mbps: self.bandwidth_mbps,
        }
    }
}

/// A server in a child process.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    url: String,
}

impl ServerProcess {
    pub(crate) fn start(setup: Setup) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("this program's path")?);
        command.arg("serve").args(setup.quick.then_some("--quick"));
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
        };
        server.url = server.answer()?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
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
        credentials: Some((ACCESS_KEY_ID.to_owned(), SECRET_ACCESS_KEY.to_owned())),
        worker_threads: thread::available_parallelism().map_or(2, usize::from),
        log: LogMode::Counters,
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
            other => bail!("unknown request {other:?}"),
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
