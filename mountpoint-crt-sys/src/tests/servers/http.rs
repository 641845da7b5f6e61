//! The common parts of the HTTP servers of tests: a thread for each connection, and requests as
//! clients send them.
//!
//! The tests of mountpoint-client include this file.

use std::io::BufRead;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// A request as a client sent it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query, undecoded.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Serves each connection to `address`, by IP address and port, until the process ends. Returns the
/// address that is bound.
pub(crate) fn listen(
    address: &str,
    serve: impl Fn(TcpStream) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(address).expect("loopback is there");
    let address = listener.local_addr().expect("the socket is bound");
    let serve = Arc::new(serve);
    spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            spawn(move || serve(stream));
        }
    });
    address
}

pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name("test-server".to_owned());
    drop(thread.spawn(work).expect("a thread can be started"));
}

/// The next request of a connection; `None` at its end.
pub(crate) fn read_request(wire: &mut impl BufRead) -> Option<Request> {
    let first = read_line(wire)?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut request = Request {
        method,
        path,
        headers: Vec::new(),
        body: Vec::new(),
    };
    while let Some((name, value)) = read_line(wire)?.split_once(':') {
        let header = (name.to_owned(), value.trim().to_owned());
        request.headers.push(header);
    }
    let len = request.header("content-length");
    let len = len.map_or(0, |len| len.parse().expect("a length is a number"));
    request.body = vec![0; len];
    wire.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn read_line(wire: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let len = wire.read_line(&mut line).ok()?;
    (len > 0).then(|| line.trim_end().to_owned())
}
