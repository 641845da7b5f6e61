//! Connections that are kept, let go, and closed by the server.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::Duration;

use tracing::Event;
use tracing::subscriber::with_default;

use super::http::spawn;
use super::logs::OnWarning;
use super::probe::{SOON, client, message, send};
use super::runtime;
use super::server::{Server, Then, answer};
use crate::request::exchange::Delivery;
use crate::{Client, Runtime, RuntimeOptions};

/// Longer than C keeps connections by itself.
const BEYOND_ITS_OWN: Duration = Duration::from_secs(7);

/// A server, how many connections it has had, and word of each that has ended on both sides.
fn counted(then: Then) -> (Server, Arc<AtomicUsize>, Receiver<()>) {
    let accepted = Arc::new(AtomicUsize::new(0));
    let (sender, ended) = channel();
    let count = Arc::clone(&accepted);
    let wrap = move |stream| {
        count.fetch_add(1, Ordering::SeqCst);
        let sender = sender.clone();
        let end = Box::new(move || _ = sender.send(()));
        WatchedStream { stream, end }
    };
    let server = Server::start_over(wrap, move |_, wire| {
        answer(wire, "200 OK", b"");
        then
    });
    (server, accepted, ended)
}

struct WatchedStream {
    stream: TcpStream,
    end: Box<dyn Fn() + Send>,
}

impl Read for WatchedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for WatchedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Drop for WatchedStream {
    fn drop(&mut self) {
        self.stream.shutdown(Shutdown::Write).ok();
        io::copy(&mut self.stream, &mut io::sink()).ok();
        (self.end)();
    }
}

fn ask(client: &Client) {
    send(client, message("HeadObject", "HEAD", "/b/k"), b"").expect("the request succeeds");
}

#[test]
fn a_connection_lives_until_it_is_let_go() {
    let (server, accepted, ended) = counted(Then::Keep);
    let client = client(runtime(), &server.endpoint());
    assert!(client.keep_connections());
    assert!(!client.keep_connections());
    ask(&client);
    sleep(BEYOND_ITS_OWN);
    ask(&client);
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
    client.let_connections_go();
    client.let_connections_go();
    ended.recv_timeout(SOON).expect("the connection is closed");
    assert!(client.keep_connections());
    ask(&client);
    assert_eq!(accepted.load(Ordering::SeqCst), 2);
}

#[test]
fn a_connection_that_the_server_closes_is_not_used_again() {
    let (server, accepted, ended) = counted(Then::Close);
    let client = client(runtime(), &server.endpoint());
    assert!(client.keep_connections());
    for round in 1..=3 {
        // This client does not retry: it succeeds only over a new connection.
        ask(&client);
        ended.recv_timeout(SOON).expect("the client closes it, too");
        assert_eq!(accepted.load(Ordering::SeqCst), round);
    }
}

#[test]
fn a_client_ends_soon_while_its_connections_are_kept() {
    let (server, _, ended) = counted(Then::Keep);
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let client = client(&runtime, &server.endpoint());
    client.keep_connections();
    ask(&client);
    let (sender, gone) = channel();
    spawn(move || {
        let warned = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&warned);
        let on_warning = OnWarning(move |_: &Event<'_>| flag.store(true, Ordering::SeqCst));
        with_default(on_warning, || {
            drop(client);
            drop(runtime);
        });
        sender.send(warned.load(Ordering::SeqCst)).unwrap();
    });
    let has_waited = gone.recv_timeout(SOON).expect("it ends");
    assert!(
        !has_waited,
        "until the patience of the runtime's end was over"
    );
    ended.recv_timeout(SOON).expect("the connection is closed");
}

#[test]
fn many_threads_may_keep_and_let_go_while_requests_run() {
    let (server, _, _ended) = counted(Then::Keep);
    let client = client(runtime(), &server.endpoint());
    std::thread::scope(|scope| {
        for turn in 0..4 {
            let client = &client;
            scope.spawn(move || {
                for round in 0..100 {
                    if (round + turn) % 2 == 0 {
                        client.keep_connections();
                    } else {
                        client.let_connections_go();
                    }
                    ask(client);
                }
            });
        }
    });
}

#[test]
fn nothing_is_kept_of_a_library_that_is_not_known() {
    let (server, _, _ended) = counted(Then::Keep);
    let options = super::probe::options(&server.endpoint());
    let client = Client::with_delivery(runtime(), &options, Delivery::AtTheEnd).unwrap();
    assert!(!client.keep_connections());
    ask(&client);
}
