//! Records: cut anywhere, tiny, with new keys, forged, and missing.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::front::{Certificate, Front};
use super::{SIZE, check_reads, client, trust};
use crate::ErrorKind;
use crate::block::BlockPool;
use crate::connection::moved;
use crate::tests::probe::{get, get_into, pattern};
use crate::tests::server::{Then, partial_head, send};

#[test]
fn a_long_answer_is_decrypted_to_where_it_belongs() {
    for certificate in [Certificate::GoodOnlyTls12, Certificate::GoodOnlyTls13] {
        let server = Front::new(certificate).serve(pattern(SIZE));
        let client = client(server.port(), trust());
        for round in 0..4 {
            let fill = BlockPool::new(0).allocate(SIZE);
            let block = fill.block();
            let start = block.bytes(0..0).as_ptr();
            moved::take(start, SIZE);
            let (fill, outcome) = get_into(&client, fill, 0..SIZE, |_| Ok(())).end();
            outcome.unwrap();
            assert!(
                fill.block().bytes(0..SIZE) == pattern(SIZE),
                "round {round}"
            );
            let moved = moved::take(start, SIZE);
            assert!(moved > SIZE - (64 << 10), "round {round}: {moved}");
        }
    }
}

/// Writes one byte at a time.
struct Dribble(TcpStream);

impl Read for Dribble {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Dribble {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn records_may_be_cut_at_every_byte() {
    for certificate in [Certificate::GoodOnlyTls12, Certificate::GoodOnlyTls13] {
        let server = Front::new(certificate).serve_over(pattern(SIZE), Dribble);
        let client = client(server.port(), trust());
        for range in [0..100, 5_000..25_000] {
            let (fill, outcome) = get(&client, range.clone()).end();
            outcome.unwrap();
            assert!(fill.block().bytes(0..range.len()) == &pattern(SIZE)[range]);
        }
    }
}

#[test]
fn tiny_records_are_put_together() {
    for certificate in [Certificate::GoodOnlyTls12, Certificate::GoodOnlyTls13] {
        let mut front = Front::new(certificate);
        // The least that is possible.
        front.config.max_fragment_size = Some(32);
        let server = front.serve(pattern(SIZE));
        let client = client(server.port(), trust());
        for range in [0..1, 0..300_000, 100_000..100_031] {
            let (fill, outcome) = get(&client, range.clone()).end();
            outcome.unwrap();
            assert!(fill.block().bytes(0..range.len()) == &pattern(SIZE)[range]);
        }
    }
}

#[test]
fn new_keys_of_the_server_are_taken() {
    let mut front = Front::new(Certificate::GoodOnlyTls13);
    // A server takes some 30 answers to that without a request in between.
    static WRITES: AtomicUsize = AtomicUsize::new(0);
    front.before_write = |session| {
        if WRITES.fetch_add(1, Ordering::Relaxed).is_multiple_of(8) {
            session.refresh_traffic_keys().unwrap();
        }
    };
    let server = front.serve(pattern(SIZE));
    let client = client(server.port(), trust());
    for _ in 0..3 {
        check_reads(&client);
    }
    assert_eq!(front.handshakes().len(), 1);
}

/// Changes a byte of what is written after so many bytes.
struct Forger {
    stream: TcpStream,
    left: usize,
}

impl Read for Forger {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }
}

impl Write for Forger {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut bytes = bytes.to_vec();
        if let Some(byte) = bytes.get_mut(self.left) {
            *byte ^= 1;
        }
        let len = self.stream.write(&bytes)?;
        self.left = self.left.checked_sub(len).unwrap_or(usize::MAX);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[test]
fn forged_bytes_are_shown_to_nobody() {
    for certificate in [Certificate::GoodOnlyTls12, Certificate::GoodOnlyTls13] {
        for left in [100_000, 1_000_000] {
            let lower = move |stream| Forger { stream, left };
            let server = Front::new(certificate).serve_over(pattern(SIZE), lower);
            let client = client(server.port(), trust());
            let (fill, failure) = get(&client, 0..SIZE).failure();
            let error = failure.error;
            assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
            assert!(error.to_string().contains("cannot be decrypted"), "{error}");
            let valid = fill.filled();
            assert!(valid < left);
            assert!(fill.block().bytes(0..valid) == &pattern(SIZE)[..valid]);
        }
    }
}

#[test]
fn an_answer_that_is_cut_is_an_error() {
    let object = pattern(SIZE);
    // With and without a goodbye: `Then::Close` drops the connection, which says none.
    let server = Front::new(Certificate::Good).answer(move |request, wire| {
        send(wire, partial_head(request.range(), SIZE).as_bytes());
        send(wire, &object[..SIZE / 2]);
        Then::Close
    });
    let client = client(server.port(), trust());
    let (fill, failure) = get(&client, 0..SIZE).failure();
    assert_eq!(
        failure.error.kind(),
        ErrorKind::Connection,
        "{}",
        failure.error
    );
    let valid = fill.filled();
    assert!(valid <= SIZE / 2);
    assert!(fill.block().bytes(0..valid) == &pattern(SIZE)[..valid]);
}

#[test]
fn many_at_once() {
    let server = Front::new(Certificate::Good).serve(pattern(SIZE));
    let client = client(server.port(), trust());
    for _ in 0..4 {
        let ranges = (0..16).map(|at| at * 50_000..SIZE - at * 50_001);
        let all: Vec<_> = ranges
            .map(|range| (range.clone(), get(&client, range)))
            .collect();
        for (range, getting) in all {
            let (fill, outcome) = getting.end();
            outcome.unwrap();
            assert!(
                fill.block().bytes(0..range.len()) == &pattern(SIZE)[range.clone()],
                "{range:?}"
            );
        }
    }
}
