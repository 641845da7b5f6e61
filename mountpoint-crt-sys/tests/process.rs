//! What needs a process of its own, with one thread to begin with: forking, and exiting with work under way.

#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::exit, reason = "the test is about exits")]

#[path = "../src/tests/server.rs"]
#[expect(dead_code, reason = "the unit tests use more of it")]
mod server;

use std::process::{Command, ExitCode, exit};
use std::time::Duration;

use mountpoint_crt_sys::block::{BlockFill, BlockPool};
use mountpoint_crt_sys::process::{Fork, fork_child};
use mountpoint_crt_sys::{
    Client, ClientOptions, Failure, GetHandler, RangedGet, Refused, ResponseHead, Runtime,
    RuntimeOptions, Signing, TlsOptions,
};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use server::{Server, Then};

/// How a child ends.
const ENDS: [&str; 5] = [
    "drop-client-first",
    "drop-runtime-first",
    "keep-all",
    "exit",
    "done",
];

fn main() -> ExitCode {
    if let Some(end) = std::env::args()
        .nth(1)
        .filter(|end| ENDS.contains(&end.as_str()))
    {
        return end_with_a_request(&end);
    }
    forks();
    for end in ENDS {
        let status = Command::new(std::env::current_exe().unwrap())
            .arg(end)
            .status()
            .unwrap();
        assert!(status.success(), "{end}: {status}");
    }
    ExitCode::SUCCESS
}

fn forks() {
    match fork_child().unwrap() {
        Fork::Child => exit(7),
        Fork::Parent { child_pid } => {
            let pid = Pid::from_raw(child_pid);
            assert_eq!(waitpid(pid, None).unwrap(), WaitStatus::Exited(pid, 7));
        }
    }
}

struct Ignore;

impl GetHandler for Ignore {
    fn head(&self, _: &ResponseHead) -> Result<(), Refused> {
        Ok(())
    }

    fn progressed(&self) {}

    fn finished(self: Box<Self>, _: BlockFill, _: Result<ResponseHead, Failure>) {}
}

/// Ends the process while a GET is in the middle of its body, except for "done", where it has never begun.
fn end_with_a_request(end: &str) -> ExitCode {
    let server = Server::start(|request, wire| {
        let range = request.range();
        server::send(wire, server::partial_head(range, 1 << 20).as_bytes());
        server::send(wire, &[1; 1000]);
        std::thread::sleep(Duration::from_secs(60));
        Then::Close
    });
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let client = client(&runtime, &server);
    client.keep_connections();
    let fill = BlockPool::new(0).allocate(1 << 20);
    let block = fill.block();
    if end != "done" {
        let request = RangedGet {
            path: "/b/k".into(),
            headers: Vec::new(),
            range: 0..1 << 20,
        };
        let _cancel = client.get(request, fill, Box::new(Ignore));
        while block.valid() == 0 {
            std::thread::yield_now();
        }
    }
    match end {
        "drop-runtime-first" => {
            drop(runtime);
            drop(client);
        }
        "keep-all" => {
            std::mem::forget(client);
            std::mem::forget(runtime);
        }
        "exit" => exit(0),
        _ => {
            drop(client);
            drop(runtime);
        }
    }
    ExitCode::SUCCESS
}

fn client(runtime: &Runtime, server: &Server) -> Client {
    let options = ClientOptions {
        endpoint: server.endpoint(),
        signing: Signing::Unsigned,
        tls: TlsOptions::default(),
        throughput_target_gbps: 10.0,
        part_size_max: 1 << 20,
        connect_timeout: Duration::from_secs(1),
        stall_timeout: Duration::from_secs(1),
        network_interface: None,
        proxy: None,
    };
    Client::new(runtime, &options).unwrap()
}
