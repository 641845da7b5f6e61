//! Bytes that are read to their destination and written from their place, with the failures
//! meanwhile.

use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::http;
use super::probe::{SOON, client, get, get_into, message, pattern};
use super::runtime;
use super::server::{Server, Then, answer, partial_head, send};
use crate::block::{BlockFill, BlockPool};
use crate::connection::moved;

const SIZE: usize = 3 << 20;

fn memory(fill: &BlockFill) -> (*const u8, usize) {
    let block = fill.block();
    (block.bytes(0..0).as_ptr(), fill.capacity())
}

#[test]
fn a_long_answer_is_read_to_where_it_belongs() {
    let object = pattern(SIZE);
    let server = Server::of_object(object.clone());
    let client = client(runtime(), &server.endpoint());
    for round in 0..8 {
        let fill = BlockPool::new(0).allocate(SIZE);
        let (start, len) = memory(&fill);
        moved::take(start, len);
        let (fill, outcome) = get_into(&client, fill, 0..SIZE, |_| Ok(())).end();
        outcome.unwrap();
        assert!(fill.block().bytes(0..SIZE) == object, "round {round}");
        let moved = moved::take(start, len);
        // The bytes that come with the head are copied, from the second answer on few.
        let least = if round == 0 {
            SIZE / 2
        } else {
            SIZE - (64 << 10)
        };
        assert!((least..SIZE).contains(&moved), "round {round}: {moved}");
    }
}

#[test]
fn pieces_of_any_size_and_many_at_once() {
    let object = pattern(SIZE);
    let served = object.clone();
    let server = Server::start(move |request, wire| {
        let range = request.range();
        let body = &served[range.clone()];
        let mut bytes = partial_head(range, SIZE).into_bytes();
        bytes.extend_from_slice(body);
        // The head and the body in pieces that fit nothing.
        let mut rest = bytes.as_slice();
        for step in [1, 7, 100, 4096, 65_537, 300_001].into_iter().cycle() {
            let (piece, more) = rest.split_at(rest.len().min(step));
            send(wire, piece);
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        Then::Keep
    });
    let client = client(runtime(), &server.endpoint());
    for _ in 0..4 {
        let ranges = (0..16).map(|at| at * 50_000..SIZE - at * 70_001);
        let all: Vec<_> = ranges
            .map(|range| (range.clone(), get(&client, range)))
            .collect();
        for (range, getting) in all {
            let (fill, outcome) = getting.end();
            outcome.unwrap();
            assert!(
                fill.block().bytes(0..range.len()) == &object[range.clone()],
                "{range:?}"
            );
        }
    }
}

#[test]
fn a_body_in_chunks_arrives_whole() {
    let object = pattern(SIZE);
    let served = object.clone();
    let server = Server::start(move |request, wire| {
        let range = request.range();
        let head = partial_head(range.clone(), SIZE).replace(
            &format!("Content-Length: {}", range.len()),
            "Transfer-Encoding: chunked",
        );
        send(wire, head.as_bytes());
        for chunk in served[range].chunks(99_999) {
            send(wire, format!("{:x}\r\n", chunk.len()).as_bytes());
            send(wire, chunk);
            send(wire, b"\r\n");
        }
        send(wire, b"0\r\n\r\n");
        Then::Keep
    });
    let client = client(runtime(), &server.endpoint());
    for _ in 0..3 {
        let (fill, outcome) = get(&client, 0..SIZE).end();
        outcome.unwrap();
        assert!(fill.block().bytes(0..SIZE) == object);
    }
}

#[test]
fn nothing_is_written_to_memory_that_was_given_back() {
    let (go, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let server = Server::start(move |request, wire| {
        let range = request.range();
        let body = vec![1; range.len()];
        send(wire, partial_head(range, SIZE).as_bytes());
        send(wire, &body[..SIZE / 2]);
        gate.lock().recv().unwrap();
        send(wire, &body[SIZE / 2..]);
        Then::Keep
    });
    let client = client(runtime(), &server.endpoint());
    let fill = BlockPool::new(0).allocate(SIZE);
    let block = fill.block();
    let getting = get_into(&client, fill, 0..SIZE, |_| Ok(()));
    while block.valid() < SIZE / 2 {
        getting.progress.recv_timeout(SOON).expect("half arrives");
    }
    getting.cancel.cancel();
    let (mut fill, _) = getting.failure();
    let filled = fill.filled();
    fill.append(&vec![2; SIZE - filled]);
    go.send(()).unwrap();
    // Whatever the server still sends has time to arrive.
    let server = Server::of_object(pattern(SIZE));
    let other = super::probe::client(runtime(), &server.endpoint());
    for _ in 0..5 {
        get(&other, 0..SIZE).end().1.unwrap();
    }
    assert!(block.bytes(0..filled).iter().all(|byte| *byte == 1));
    assert!(block.bytes(filled..SIZE).iter().all(|byte| *byte == 2));
}

#[test]
fn answers_that_lie_about_their_length_stay_in_their_memory() {
    let object = pattern(SIZE);
    let served = object.clone();
    let server = Server::start(move |request, wire| {
        let range = request.range();
        let head = partial_head(range.clone(), SIZE);
        match request.path.as_str() {
            "/bucket/key" => {
                // More than the head says, then the end.
                send(wire, head.as_bytes());
                send(wire, &served[range]);
                send(wire, &[9; 100_000]);
                Then::Close
            }
            _ => unreachable!(),
        }
    });
    let client = client(runtime(), &server.endpoint());
    for _ in 0..5 {
        let fill = BlockPool::new(0).allocate(SIZE / 2);
        let (fill, outcome) = get_into(&client, fill, 0..SIZE / 2, |_| Ok(())).end();
        if outcome.is_ok() {
            assert!(fill.block().bytes(0..SIZE / 2) == &object[..SIZE / 2]);
        } else {
            let valid = fill.filled();
            assert!(fill.block().bytes(0..valid) == &object[..valid]);
        }
    }
}

/// A body that says when it is let go of, and is overwritten then.
struct Watched {
    bytes: Vec<u8>,
    alive: Option<Arc<()>>,
}

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.bytes.fill(0xEE);
        self.alive.take();
    }
}

fn watched(bytes: Vec<u8>) -> (Bytes, std::sync::Weak<()>) {
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    let alive = Some(alive);
    (Bytes::from_owner(Watched { bytes, alive }), weak)
}

#[test]
fn a_long_body_is_written_from_where_it_lies() {
    let server = Server::start(|request, wire| {
        let is_right = request.body == pattern(request.body.len());
        answer(wire, if is_right { "200 OK" } else { "400 Wrong" }, b"")
    });
    let client = client(runtime(), &server.endpoint());
    for len in [SIZE, 100_000, 65_536, 600_000, SIZE + 1] {
        let (body, weak) = watched(pattern(len));
        let start = body.as_ptr();
        moved::take(start, len);
        let (sender, receiver) = channel();
        let handler = Box::new(move |it| sender.send(it).unwrap());
        let _cancel = client.send(message("UploadPart", "PUT", "/b/k"), body, handler);
        receiver.recv_timeout(SOON).unwrap().unwrap();
        // The last piece may be too short to be worth it.
        let copied = len - moved::take(start, len);
        assert!(copied < 32 << 10, "{copied} of {len}");
        while weak.strong_count() > 0 {
            thread::yield_now();
        }
    }
}

#[test]
fn a_server_that_reads_slowly_gets_every_byte() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (body_sender, bodies) = channel();
    http::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        let mut piece = vec![0; 50_000];
        let mut end = usize::MAX;
        while all.len() < end {
            let len = stream.read(&mut piece).unwrap();
            all.extend_from_slice(&piece[..len]);
            if end == usize::MAX {
                end = all.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4 + SIZE;
            }
            thread::sleep(Duration::from_micros(300));
        }
        send(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        body_sender.send(all.split_off(end - SIZE)).unwrap();
    });
    let client = client(runtime(), &endpoint);
    let (sender, receiver) = channel();
    let handler = Box::new(move |it| sender.send(it).unwrap());
    let body = Bytes::from(pattern(SIZE));
    let _cancel = client.send(message("UploadPart", "PUT", "/b/k"), body, handler);
    receiver.recv_timeout(SOON).unwrap().unwrap();
    assert!(bodies.recv_timeout(SOON).unwrap() == pattern(SIZE));
}

#[test]
fn a_body_lives_until_the_socket_is_done_with_it() {
    // The server takes a part, stops until the client has given up, and reads on: what comes is the
    // body's.
    for is_cut_by_the_server in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (go, gate) = channel::<()>();
        let (body_sender, bodies) = channel();
        let (begun_sender, begun) = channel();
        http::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = vec![0; 100_000];
            stream.read_exact(&mut all).unwrap();
            begun_sender.send(()).unwrap();
            if is_cut_by_the_server {
                drop(stream);
            } else {
                gate.recv().unwrap();
                // The client may have reset the connection.
                stream.read_to_end(&mut all).ok();
            }
            let head = all.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
            body_sender.send(all.split_off(head)).unwrap();
        });
        let client = client(runtime(), &endpoint);
        // Longer than any socket's buffers.
        let (body, weak) = watched(pattern(8 << 20));
        let (sender, receiver) = channel();
        let handler = Box::new(move |it| sender.send(it).unwrap());
        let cancel = client.send(message("UploadPart", "PUT", "/b/k"), body, handler);
        begun.recv_timeout(SOON).unwrap();
        if !is_cut_by_the_server {
            cancel.cancel();
        }
        assert!(receiver.recv_timeout(SOON).unwrap().is_err());
        while weak.strong_count() > 0 {
            thread::yield_now();
        }
        if !is_cut_by_the_server {
            go.send(()).unwrap();
        }
        let got = bodies.recv_timeout(SOON).unwrap();
        assert!(got == pattern(8 << 20)[..got.len()], "{} bytes", got.len());
    }
}
