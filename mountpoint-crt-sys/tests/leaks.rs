//! Everything that was taken is given back: memory of the C library, threads, blocks.
//!
//! A process of its own, since the last runtime of a process joins the C library's threads.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../src/tests/servers/http.rs"]
#[expect(dead_code, reason = "the unit tests use more of it")]
mod http;
#[path = "../src/tests/server.rs"]
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use mountpoint_crt_sys::block::{BlockFill, BlockPool};
use mountpoint_crt_sys::{
    Client, ClientOptions, Credentials, CredentialsReply, CredentialsSource, Failure, GetHandler,
    RangedGet, Refused, ResponseHead, Runtime, RuntimeOptions, Signing, TlsOptions,
};
use parking_lot::{Mutex, MutexGuard};
use server::Server;

const OBJECT: usize = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

type Outcome = Result<ResponseHead, Failure>;

struct Handler(Sender<Outcome>);

impl GetHandler for Handler {
    fn head(&self, _: &ResponseHead) -> Result<(), Refused> {
        Ok(())
    }

    fn progressed(&self) {}

    fn finished(self: Box<Self>, _: BlockFill, outcome: Outcome) {
        self.0.send(outcome).ok();
    }
}

/// A runtime that counts, alone in the process.
fn counting() -> (MutexGuard<'static, ()>, Runtime, &'static AtomicUsize) {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock();
    let options = RuntimeOptions {
        count_memory: true,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::new(&options).unwrap();
    let live = runtime.native_bytes().unwrap();
    assert!(live.load(Ordering::Relaxed) > 0);
    (alone, runtime, live)
}

fn client(runtime: &Runtime, server: &Server) -> Client {
    Client::new(runtime, &options(server)).unwrap()
}

fn options(server: &Server) -> ClientOptions {
    ClientOptions {
        endpoint: server.endpoint(),
        signing: Signing::Unsigned,
        tls: TlsOptions::default(),
        throughput_target_gbps: 10.0,
        part_size_max: OBJECT,
        // A starved machine may stand still for seconds; these requests are not sent again.
        connect_timeout: Duration::from_secs(60),
        stall_timeout: Duration::from_secs(60),
        network_interface: None,
        proxy: None,
    }
}

fn get(client: &Client, pool: &BlockPool, start: usize, len: usize, sender: &Sender<Outcome>) {
    let range = start as u64..(start + len) as u64;
    let request = RangedGet {
        path: "/b/k".into(),
        headers: Vec::new(),
        range,
        is_whole: false,
    };
    let _cancel = client.get(
        request,
        pool.allocate(len),
        Box::new(Handler(sender.clone())),
    );
}

fn succeeds(receiver: &Receiver<Outcome>) {
    receiver
        .recv_timeout(SOON)
        .expect("requests end")
        .expect("requests succeed");
}

fn server() -> Server {
    Server::of_object(vec![5; OBJECT])
}

#[test]
fn ten_thousand_gets_leak_nothing() {
    let (_alone, runtime, live) = counting();
    let pool = BlockPool::new(0);
    let client = client(&runtime, &server());
    let (sender, receiver) = channel();
    for i in 0..10_000 {
        get(&client, &pool, i, 4096, &sender);
        if i >= 32 {
            succeeds(&receiver);
        }
    }
    (0..32).for_each(|_| succeeds(&receiver));
    drop(client);
    drop(runtime);
    assert_eq!(live.load(Ordering::Relaxed), 0);
    assert_eq!(pool.bytes_in_use(), 0);
}

#[test]
fn two_hundred_clients_leak_nothing() {
    let (_alone, runtime, live) = counting();
    let pool = BlockPool::new(0);
    let server = server();
    let (sender, receiver) = channel();
    for round in 0..200 {
        let client = client(&runtime, &server);
        let is_kept = round % 3 == 0 && client.keep_connections();
        assert_eq!(is_kept, round % 3 == 0);
        for i in 0..3 {
            get(&client, &pool, i, 100_000, &sender);
        }
        // Every other client goes while its requests run.
        if round % 2 == 0 {
            (0..3).for_each(|_| succeeds(&receiver));
            drop(client);
        } else {
            drop(client);
            (0..3).for_each(|_| succeeds(&receiver));
        }
    }
    drop(runtime);
    assert_eq!(live.load(Ordering::Relaxed), 0);
    assert_eq!(pool.bytes_in_use(), 0);
}

/// Session keys, at once.
struct Keys;

impl CredentialsSource for Keys {
    fn fetch(&self, reply: CredentialsReply) {
        reply.send(Ok(Credentials {
            access_key_id: "AKID".into(),
            secret_access_key: "secret".into(),
            session_token: Some("token".into()),
            expires: None,
        }));
    }
}

#[test]
fn signing_leaks_nothing() {
    let (_alone, runtime, live) = counting();
    let pool = BlockPool::new(0);
    let server = server();
    let (sender, receiver) = channel();
    for signing in [
        Signing::S3Express {
            region: "eu-test-1".into(),
            source: Arc::new(Keys),
        },
        Signing::SigV4a {
            regions: "*".into(),
            service: "s3".into(),
            source: Arc::new(Keys),
        },
    ] {
        let options = ClientOptions {
            signing,
            ..options(&server)
        };
        drop(Client::new(&runtime, &options).unwrap());
        let client = Client::new(&runtime, &options).unwrap();
        (0..3).for_each(|i| get(&client, &pool, i, 100_000, &sender));
        drop(client);
        (0..3).for_each(|_| succeeds(&receiver));
    }
    drop(runtime);
    assert_eq!(live.load(Ordering::Relaxed), 0);
    assert_eq!(pool.bytes_in_use(), 0);
}

#[test]
fn a_client_that_could_not_be_made_leaks_nothing() {
    let (_alone, runtime, live) = counting();
    let good = options(&server());
    let unknown = ClientOptions {
        network_interface: Some("none0".into()),
        ..good.clone()
    };
    assert!(Client::new(&runtime, &unknown).is_err());
    let tls = TlsOptions::new(Some(b"none".to_vec()));
    let bad = ClientOptions {
        tls,
        endpoint: "https://localhost".into(),
        ..good
    };
    assert!(Client::new(&runtime, &bad).is_err());
    drop(runtime);
    assert_eq!(live.load(Ordering::Relaxed), 0);
}

#[test]
fn unused_clients_and_runtimes_leak_nothing() {
    for clients in [0, 1, 5] {
        let (_alone, runtime, live) = counting();
        let server = server();
        drop(
            (0..clients)
                .map(|_| client(&runtime, &server))
                .collect::<Vec<_>>(),
        );
        drop(runtime);
        assert_eq!(live.load(Ordering::Relaxed), 0, "{clients}");
    }
}

#[test]
fn cancelled_and_failing_requests_leak_nothing() {
    let (_alone, runtime, live) = counting();
    let pool = BlockPool::new(0);
    let server = server();
    let failing = Server::start(|_, wire| server::answer(wire, "503 Slow Down", b"<Error/>"));
    let cutting = Server::start(|_, _| server::Then::Close);
    let (sender, receiver) = channel();
    for round in 0..100 {
        let good = client(&runtime, &server);
        let request = RangedGet {
            path: "/b/k".into(),
            headers: Vec::new(),
            range: 0..OBJECT as u64,
            is_whole: false,
        };
        let cancel = good.get(
            request,
            pool.allocate(OBJECT),
            Box::new(Handler(sender.clone())),
        );
        std::thread::sleep(Duration::from_micros(round * 20));
        cancel.cancel();
        get(&client(&runtime, &failing), &pool, 0, 100, &sender);
        get(&client(&runtime, &cutting), &pool, 0, 100, &sender);
        (0..3).for_each(|_| drop(receiver.recv_timeout(SOON).expect("requests end")));
    }
    drop(runtime);
    assert_eq!(live.load(Ordering::Relaxed), 0);
    assert_eq!(pool.bytes_in_use(), 0);
}

#[test]
fn the_last_runtime_may_go_in_a_callback() {
    let (_alone, runtime, live) = counting();
    let (sender, receiver) = channel();
    let client = client(&runtime, &server());
    let holder = Mutex::new(Some((client.clone(), runtime)));
    struct Dropper(Mutex<Option<(Client, Runtime)>>, Sender<()>);
    impl GetHandler for Dropper {
        fn head(&self, _: &ResponseHead) -> Result<(), Refused> {
            Ok(())
        }
        fn progressed(&self) {}
        fn finished(self: Box<Self>, _: BlockFill, _: Outcome) {
            drop(self.0.lock().take());
            self.1.send(()).ok();
        }
    }
    let request = RangedGet {
        path: "/b/k".into(),
        headers: Vec::new(),
        range: 0..100,
        is_whole: false,
    };
    let handler = Dropper(holder, sender);
    let _cancel = client.get(request, BlockPool::new(0).allocate(100), Box::new(handler));
    drop(client);
    receiver
        .recv_timeout(SOON)
        .expect("nothing waits for itself");
    // Its memory goes when its threads have ended, which the next runtime's end waits for.
    drop(Runtime::new(&RuntimeOptions::default()).unwrap());
    assert_eq!(live.load(Ordering::Relaxed), 0);
}
