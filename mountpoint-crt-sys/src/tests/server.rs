//! A small HTTP server over std's sockets: a thread for each connection, answers written by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A request as a client sent it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

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
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = Arc::new((wrap, answer));
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = Arc::clone(&serving);
                spawn(move || {
                    stream.set_nodelay(true).unwrap();
                    serve((serving.0)(stream), &serving.1);
                });
            }
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
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

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

pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new()
        .name("test-server".into())
        .spawn(work)
        .unwrap();
}

fn serve(stream: impl Wire, answer: &dyn Fn(&Request, &mut dyn Wire) -> Then) {
    let mut wire = BufReader::new(stream);
    while let Some(request) = read_request(&mut wire) {
        if answer(&request, wire.get_mut()) == Then::Close {
            return;
        }
    }
}

/// None at the end of the connection.
pub(crate) fn read_request(wire: &mut impl BufRead) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if wire.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut first = lines.first()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<_> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut request = Request {
        method,
        path,
        headers,
        body: Vec::new(),
    };
    let len = request
        .header("content-length")
        .map_or(0, |len| len.parse().unwrap());
    request.body = vec![0; len];
    wire.read_exact(&mut request.body).ok()?;
    Some(request)
}
