//! The server as a client sees it, over raw HTTP: no library in between hides the bytes on the
//! wire.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::*;

mod faults;
mod listing;
mod objects;
mod reads;
mod requests;
mod sdk;
mod signed;
mod tls;
mod uploads;

/// Longer than any answer takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An answer, read to its end or to where the connection broke.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Whether the body had the stated length.
    pub(super) complete: bool,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Texts of every element `name`, in order, with XML's references resolved.
    pub(super) fn elements(&self, name: &str) -> Vec<String> {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let text = self.text();
        let parts = text
            .split(&open)
            .skip(1)
            .filter_map(|rest| rest.split_once(&close));
        let unescape = |text: &str| {
            let text = text
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"");
            text.replace("&apos;", "'").replace("&amp;", "&")
        };
        parts.map(|(text, _)| unescape(text)).collect()
    }

    pub(super) fn element(&self, name: &str) -> String {
        self.elements(name).into_iter().next().unwrap_or_default()
    }

    /// S3's error code; empty if it is no error.
    pub(super) fn code(&self) -> String {
        self.element("Code")
    }
}

/// One connection.
pub(super) struct Wire(BufReader<TcpStream>);

impl Wire {
    pub(super) fn open(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self(BufReader::new(stream))
    }

    pub(super) fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }

    pub(super) fn send(&mut self, request: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut text = format!("{request} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || request.starts_with('P') {
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        self.0.get_mut().write_all(&bytes).unwrap();
    }

    /// `None` if the connection ended without an answer.
    pub(super) fn receive(&mut self, is_head: bool) -> Option<Answer> {
        let mut line = String::new();
        if self.0.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer {
            status,
            ..Answer::default()
        };
        loop {
            line.clear();
            self.0.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            answer.headers.push((name.to_lowercase(), value.to_owned()));
        }
        let len: u64 = answer
            .header("content-length")
            .map_or(0, |len| len.parse().unwrap());
        if !is_head {
            // An error is a reset connection; what came before it is in the buffer.
            let _read = (&mut self.0).take(len).read_to_end(&mut answer.body);
        }
        answer.complete = is_head || answer.body.len() as u64 == len;
        Some(answer)
    }

    pub(super) fn ask(&mut self, request: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.send(request, headers, body);
        self.receive(request.starts_with("HEAD"))
            .expect("an answer")
    }
}

/// One request on a connection of its own.
pub(super) fn ask(server: &Server, request: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    Wire::open(server).ask(request, headers, body)
}

pub(super) fn start() -> Server {
    Server::start_with_bucket("bucket").unwrap()
}

#[test]
fn starts_and_stops_also_within_an_async_context() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let address = runtime.block_on(async {
        let server = start();
        let mut idle = Wire::open(&server);
        assert_eq!(idle.ask("GET /", &[], b"").elements("Name"), ["bucket"]);
        server.address()
    });
    assert!(
        TcpStream::connect(address).is_err(),
        "nobody listens any more"
    );
}

#[test]
fn stops_in_bounded_time_with_a_request_that_is_never_answered() {
    let server = start();
    server.faults().add(Rule::always(Fault::BlackHole));
    let mut wire = Wire::open(&server);
    wire.send("GET /bucket/k", &[], b"");
    assert!(
        server
            .log()
            .wait_until(Operation::GetObject, TIMEOUT, |counters| counters.in_flight
                == 1)
    );
    let before = clock::instant();
    drop(server);
    assert!(before.elapsed() < TIMEOUT);
    assert!(wire.receive(false).is_none());
}
