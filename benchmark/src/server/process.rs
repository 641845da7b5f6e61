//! The parent's side of the server's process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::network::{SERVER_ADDRESS, ShapedNetwork};
use super::setup::{Access, Requests, Setup};
use super::{BEHAVE, CHECK, CLEAR, COUNT, REMOVE};
use crate::clock::Stopwatch;
use crate::dataset::FileSet;
use crate::workload::{Conditions, Link, Workload};

/// How long answers may still be on their way after the last read; an idle peer may keep one open.
const IDLE_TIME_MAX: Duration = Duration::from_secs(2);
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Written objects stay in the server's memory, which would cost more to touch first than to
/// receive: one heap, of huge pages, that is never given back, for pieces up to the most that the C
/// library allows.
const ALLOCATOR: &str = "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=33554432:\
     glibc.malloc.trim_threshold=68719476736";

/// The servers of a run: one on loopback (or the given one), and one behind each link that a
/// workload asks for, the latest of them.
#[derive(Debug)]
pub(crate) struct Servers {
    start: Start,
    local: Option<ServerProcess>,
    linked: Option<(Link, ServerProcess)>,
}

impl Servers {
    /// For a run of these workloads.
    pub(crate) fn new(setup: &Setup, workloads: &[Workload]) -> Result<Self> {
        let access = match setup.endpoint_url {
            None => Access::embedded(),
            Some(_) => Access::of_environment()?,
        };
        let names = workloads.iter().map(|workload| workload.name.clone());
        Ok(Self {
            start: Start {
                setup: setup.clone(),
                access,
                workloads: names.collect(),
            },
            local: None,
            linked: None,
        })
    }

    /// The server behind `link`, which is started if it is not there.
    pub(crate) fn behind(&mut self, link: Option<Link>) -> Result<&mut ServerProcess> {
        let start = &self.start;
        match link {
            None => start_if(&mut self.local, || ServerProcess::start(start, None)),
            Some(link) => {
                if self
                    .linked
                    .as_ref()
                    .is_some_and(|(found, _)| *found != link)
                {
                    self.linked = None;
                }
                let start = || Ok((link, ServerProcess::start(start, Some(link))?));
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

/// The settings that a server's process is started with.
#[derive(Debug)]
struct Start {
    setup: Setup,
    access: Access,
    workloads: Vec<String>,
}

/// A server in a child process, or a child process that looks after a server.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    url: String,
    access: Access,
    bucket: String,
    /// Dropped after the process has ended.
    network: Option<ShapedNetwork>,
}

impl ServerProcess {
    /// Starts a server on loopback, or behind `link`.
    fn start(start: &Start, link: Option<Link>) -> Result<Self> {
        let Start {
            setup,
            access,
            workloads,
        } = start;
        let network = link.map(ShapedNetwork::new).transpose()?;
        let program = std::env::current_exe().context("this program's path")?;
        let mut command = match &network {
            Some(network) => network.command(&program),
            None => Command::new(program),
        };
        command.env("GLIBC_TUNABLES", ALLOCATOR);
        command.arg("serve").args(setup.quick.then_some("--quick"));
        if let Some(path) = &setup.replay {
            command.arg("--replay").arg(path);
        }
        if network.is_some() {
            command.args(["--address", SERVER_ADDRESS]);
        }
        if let Some(url) = &setup.endpoint_url {
            command.args(["--endpoint-url", url, "--bucket", &setup.bucket]);
            command.args(["--workload", &workloads.join(",")]);
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
            access: access.clone(),
            bucket: setup.bucket.clone(),
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

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The server's process; `None` for a given one.
    pub(crate) fn pid(&self) -> Option<u32> {
        (!self.access.is_given).then(|| self.child.id())
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

    /// The first difference of the written files of a set.
    pub(crate) fn check(&mut self, files: FileSet) -> Result<()> {
        let answer = self.ask(&format!("{CHECK} {}", files.seed(0)))?;
        ensure!(answer == CHECK, "{answer}");
        Ok(())
    }

    /// Removes the written objects.
    pub(crate) fn remove_written(&mut self) -> Result<()> {
        let answer = self.ask(REMOVE)?;
        ensure!(answer == REMOVE, "the server answered {answer:?}");
        Ok(())
    }

    /// The counters, after the answers that were on their way have ended; `None` for a given
    /// server.
    pub(crate) fn requests_when_idle(&mut self) -> Result<Option<Requests>> {
        let started = Stopwatch::start();
        loop {
            let requests: Option<Requests> = serde_json::from_str(&self.ask(COUNT)?)?;
            let in_flight = requests.map_or(0, |requests| requests.in_flight);
            if in_flight == 0 || started.elapsed() > IDLE_TIME_MAX {
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
