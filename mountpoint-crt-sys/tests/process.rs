//! Tests that need a process of their own, with one thread to begin with: forking, and exiting with
//! work under way.

#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::exit, reason = "the test is about exits")]

#[path = "../src/tests/servers/http.rs"]
#[expect(dead_code, reason = "the unit tests use more of it")]
mod http;
#[path = "../src/tests/server.rs"]
#[expect(dead_code, reason = "the unit tests use more of it")]
mod server;

use std::process::{Command, ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Far more than a machine needs that stands still once in a while.
const TRIES_MAX: usize = 10;

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

/// Is told when the GET has ended.
struct End(Arc<AtomicBool>);

impl GetHandler for End {
    fn head(&self, _: &ResponseHead) -> Result<(), Refused> {
        Ok(())
    }

    fn progressed(&self) {}

    fn finished(self: Box<Self>, _: BlockFill, _: Result<ResponseHead, Failure>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Begins a GET. Whether its body has begun: on a machine that stands still for a second it times
/// out before.
fn is_in_the_middle_of_a_get(client: &Client) -> bool {
    let fill = BlockPool::new(0).allocate(1 << 20);
    let block = fill.block();
    let request = RangedGet {
        path: "/b/k".into(),
        headers: Vec::new(),
        range: 0..1 << 20,
        is_whole: false,
    };
    let has_ended = Arc::new(AtomicBool::new(false));
    let _cancel = client.get(request, fill, Box::new(End(Arc::clone(&has_ended))));
    while block.valid() == 0 && !has_ended.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    block.valid() > 0
}

/// Ends the process while a GET is in the middle of its body, except for "done", where it has never
/// begun.
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
    let has_begun = end == "done" || (0..TRIES_MAX).any(|_| is_in_the_middle_of_a_get(&client));
    assert!(has_begun, "no answer begins");
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
