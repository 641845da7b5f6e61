//! A scripted HTTP server on loopback, and helpers that the tests of `CrtClient` share.

#[cfg(feature = "server")]
pub(crate) mod embedded;
#[path = "../../../../mountpoint-crt-sys/src/tests/servers/http.rs"]
mod http;

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mountpoint_client::credentials::{CredentialsMode, StaticKeys};
use mountpoint_client::types::{ETag, GetOutput, GetRequest, Key, Priority};
use mountpoint_client::{
    ClientError, CrtClient, CrtClientOptions, GetHandle, GetObserver, ObjectClient,
};
use mountpoint_crt_sys::block::{Block, BlockPool};
use parking_lot::{Condvar, Mutex};

pub(crate) use http::Request;
use http::{listen, read_request};

/// An answer. The connection is closed after it if it is cut.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Send only so many bytes of the body.
    pub(crate) cut: Option<usize>,
    /// Send nothing at all and close.
    pub(crate) hangs_up: bool,
    /// Send the body with chunked encoding.
    pub(crate) is_chunked: bool,
}

impl Reply {
    pub(crate) fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            cut: None,
            hangs_up: false,
            is_chunked: false,
        }
    }

    pub(crate) fn hang_up() -> Self {
        Self {
            hangs_up: true,
            ..Self::new(0)
        }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn chunked(mut self) -> Self {
        self.is_chunked = true;
        self
    }

    pub(crate) fn cut(mut self, at: usize) -> Self {
        self.cut = Some(at);
        self
    }

    /// S3's error document.
    pub(crate) fn error(status: u16, code: &str) -> Self {
        Self::new(status).body(format!(
            "<Error><Code>{code}</Code><Message>because</Message></Error>"
        ))
    }

    /// The right answer to a ranged GET of `object`.
    pub(crate) fn range(object: &[u8], etag: &str, request: &Request) -> Self {
        let range = request.header("range").expect("a GET has a range");
        let (first, last) = range
            .strip_prefix("bytes=")
            .and_then(|r| r.split_once('-'))
            .expect("a plain range");
        let (first, last): (usize, usize) = (
            first.parse().expect("number"),
            last.parse().expect("number"),
        );
        Self::new(206)
            .header("ETag", etag)
            .header(
                "Content-Range",
                format!("bytes {first}-{last}/{}", object.len()),
            )
            .body(&object[first..=last])
    }
}

/// Answers each request with what `answer(request, number)` says; numbers begin at 0.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
}

type Answer = dyn Fn(&Request, usize) -> Reply + Send + Sync;

impl Server {
    pub(crate) fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let connections = Arc::<AtomicUsize>::default();
        let (log, count) = (Arc::clone(&requests), Arc::clone(&connections));
        let address = listen("127.0.0.1:0", move |stream| {
            count.fetch_add(1, Ordering::SeqCst);
            serve(stream, &log, &answer);
        });
        Self {
            address,
            requests,
            connections,
        }
    }

    /// All requests so far, in order of arrival.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Request>>, answer: &Answer) {
    let Ok(mut writer) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let number = {
            let mut log = log.lock();
            log.push(request.clone());
            log.len() - 1
        };
        let reply = answer(&request, number);
        if reply.hangs_up
            || write_reply(&mut writer, &request, &reply).is_err()
            || reply.cut.is_some()
        {
            return;
        }
    }
}

fn write_reply(writer: &mut TcpStream, request: &Request, reply: &Reply) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let body = &reply.body[..reply.cut.unwrap_or(reply.body.len())];
    let has_length = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-length");
    if reply.is_chunked {
        head.push_str("Transfer-Encoding: chunked\r\n");
    } else if !reply.headers.iter().any(has_length) {
        head.push_str(&format!("Content-Length: {}\r\n", reply.body.len()));
    }
    head.push_str("\r\n");
    writer.write_all(head.as_bytes())?;
    match request.method.as_str() {
        "HEAD" => {}
        _ if reply.is_chunked => {
            // A long body in longer pieces: each is three calls.
            for piece in body.chunks((body.len() / 10_000).max(7)) {
                write!(writer, "{:x}\r\n", piece.len())?;
                writer.write_all(piece)?;
                writer.write_all(b"\r\n")?;
            }
            writer.write_all(b"0\r\n\r\n")?;
        }
        _ => writer.write_all(body)?,
    }
    writer.flush()
}

/// A client of bucket `b` on a server, and the runtime it needs.
pub(crate) struct Fixture {
    pub(crate) client: CrtClient,
    pub(crate) pool: BlockPool,
    _runtime: tokio::runtime::Runtime,
}

impl Fixture {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self::with(Self::options(address))
    }

    pub(crate) fn options(address: SocketAddr) -> CrtClientOptions {
        let mut options = CrtClientOptions::new("b");
        options.region = Some("us-east-1".to_owned());
        options.endpoint_url = Some(format!("http://{address}"));
        options.force_path_style = true;
        options.credentials = CredentialsMode::Static(StaticKeys {
            access_key_id: "testkey".to_owned(),
            secret_access_key: "testsecret".to_owned(),
            session_token: None,
        });
        options
    }

    pub(crate) fn with(options: CrtClientOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime can be started");
        let client =
            futures::executor::block_on(CrtClient::connect(options, runtime.handle().clone()));
        Self {
            client: client.expect("the client starts"),
            pool: BlockPool::new(64 << 20),
            _runtime: runtime,
        }
    }

    /// Starts a GET of key `k`.
    pub(crate) fn start(
        &self,
        range: Range<u64>,
        if_match: Option<&str>,
        priority: Priority,
    ) -> Get {
        self.start_of(range, if_match, None, priority)
    }

    fn start_of(
        &self,
        range: Range<u64>,
        if_match: Option<&str>,
        object_size: Option<u64>,
        priority: Priority,
    ) -> Get {
        let len = usize::try_from(range.end - range.start).expect("it fits into memory");
        let fill = self.pool.allocate(len);
        let block = fill.block();
        let request = GetRequest {
            key: key("k"),
            range,
            if_match: if_match.map(ETag::from_header),
            object_size,
            priority,
        };
        let observer = Arc::new(Observer::default());
        let handle = self
            .client
            .get(request, fill, Arc::clone(&observer) as Arc<dyn GetObserver>);
        Get {
            block,
            observer,
            handle,
        }
    }

    /// A GET of key `k` to its end.
    pub(crate) fn get(
        &self,
        range: Range<u64>,
        if_match: Option<&str>,
    ) -> (Block, Result<GetOutput, ClientError>) {
        let get = self.start(range, if_match, Priority::Foreground);
        let outcome = get.observer.wait();
        (get.block, outcome)
    }

    /// A GET of key `k`, which is known to have `size` bytes, to its end.
    pub(crate) fn get_of_size(
        &self,
        range: Range<u64>,
        if_match: Option<&str>,
        size: u64,
    ) -> (Block, Result<GetOutput, ClientError>) {
        let get = self.start_of(range, if_match, Some(size), Priority::Foreground);
        let outcome = get.observer.wait();
        (get.block, outcome)
    }
}

/// A GET in flight.
pub(crate) struct Get {
    pub(crate) block: Block,
    pub(crate) observer: Arc<Observer>,
    pub(crate) handle: GetHandle,
}

pub(crate) fn key(text: &str) -> Key {
    Key::parse(text).expect("a key")
}

/// Keeps the outcome of a GET.
#[derive(Default)]
pub(crate) struct Observer {
    outcome: Mutex<Vec<Result<GetOutput, ClientError>>>,
    arrived: Condvar,
}

impl Observer {
    /// The outcome, once it is there.
    pub(crate) fn wait(&self) -> Result<GetOutput, ClientError> {
        let mut outcome = self.outcome.lock();
        let waited =
            self.arrived
                .wait_while_for(&mut outcome, |outcome| outcome.is_empty(), PATIENCE);
        assert!(!waited.timed_out(), "the GET never finished");
        assert_eq!(outcome.len(), 1, "finished is called once");
        outcome[0].clone()
    }

    pub(crate) fn is_finished(&self) -> bool {
        !self.outcome.lock().is_empty()
    }
}

impl GetObserver for Observer {
    fn progressed(&self) {}

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.outcome.lock().push(outcome);
        self.arrived.notify_all();
    }
}

/// Longer than anything takes that does not hang, on a starved machine as well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `done` holds.
pub(crate) fn eventually(what: &str, done: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / 10 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}
