//! A small HTTP server over std's sockets, whose answers are written by hand.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::http::{Request, listen, read_request};

/// Whether the connection lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Keep,
    Close,
}

pub(crate) trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
}

impl Server {
    /// Serves until the process ends.
    pub(crate) fn start(
        answer: impl Fn(&Request, &mut dyn Wire) -> Then + Send + Sync + 'static,
    ) -> Self {
        Self::start_over(|stream| stream, answer)
    }

    /// Serves over what `wrap` makes of a connection.
    pub(crate) fn start_over<W: Wire>(
        wrap: impl Fn(TcpStream) -> W + Send + Sync + 'static,
        answer: impl Fn(&Request, &mut dyn Wire) -> Then + Send + Sync + 'static,
    ) -> Self {
        let address = listen("0.0.0.0:0", move |stream| {
            stream.set_nodelay(true).unwrap();
            serve(wrap(stream), &answer);
        });
        Self { address }
    }

    /// A server of one object that honours ranges.
    pub(crate) fn of_object(object: Vec<u8>) -> Self {
        Self::of_object_over(object, |stream| stream)
    }

    pub(crate) fn of_object_over<W: Wire>(
        object: Vec<u8>,
        wrap: impl Fn(TcpStream) -> W + Send + Sync + 'static,
    ) -> Self {
        Self::start_over(wrap, move |request, wire| {
            let range = request.range();
            let end = range.end.min(object.len());
            let head = partial_head(range.start..end, object.len());
            send(wire, head.as_bytes());
            send(wire, &object[range.start..end]);
            Then::Keep
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }
}

impl Request {
    /// The range asked for.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        let range = self
            .header("range")
            .unwrap()
            .strip_prefix("bytes=")
            .unwrap();
        let (start, last) = range.split_once('-').unwrap();
        start.parse().unwrap()..last.parse::<usize>().unwrap() + 1
    }
}

/// The head of an answer with a part of an object.
pub(crate) fn partial_head(range: std::ops::Range<usize>, size: usize) -> String {
    format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{size}\r\nETag: \"abc\"\r\n\r\n",
        range.len(),
        range.start,
        range.end - 1
    )
}

/// A whole answer.
pub(crate) fn answer(wire: &mut dyn Wire, status: &str, body: &[u8]) -> Then {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nX-Test: yes\r\n\r\n",
        body.len()
    );
    send(wire, head.as_bytes());
    send(wire, body);
    Then::Keep
}

/// Writes. The client may have gone; that is its business.
pub(crate) fn send(wire: &mut dyn Wire, bytes: &[u8]) {
    wire.write_all(bytes).and_then(|()| wire.flush()).ok();
}

fn serve(stream: impl Wire, answer: &dyn Fn(&Request, &mut dyn Wire) -> Then) {
    let mut wire = BufReader::new(stream);
    while let Some(request) = read_request(&mut wire) {
        if answer(&request, wire.get_mut()) == Then::Close {
            return;
        }
    }
}
