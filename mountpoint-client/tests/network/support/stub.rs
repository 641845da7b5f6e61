//! A small HTTP server for the services that hand out credentials: a thread for each connection,
//! closed after one answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// A request to the stub.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// The stub's answer: status and body.
pub(crate) type Answer = (u16, String);

/// A running server. It ends with the process.
#[derive(Clone)]
pub(crate) struct Stub {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Stub {
    /// Answers each request with the result of `answer`; `None` never answers.
    pub(crate) fn start(
        answer: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                spawn(move || serve(stream, &log, &*answer));
            }
        });
        Self { address, asked }
    }

    /// One that takes connections and never answers.
    pub(crate) fn silent() -> Self {
        Self::start(|_| None)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn asked(&self) -> Vec<Request> {
        self.asked.lock().clone()
    }

    /// How many requests went to a path that begins so.
    pub(crate) fn count(&self, path: &str) -> usize {
        let asked = self.asked.lock();
        asked
            .iter()
            .filter(|asked| asked.path.starts_with(path))
            .count()
    }
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// A field of a form in the body.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self
            .body
            .split('&')
            .filter_map(|field| field.split_once('='));
        fields
            .into_iter()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value)
    }

    /// The access key that it is signed with.
    pub(crate) fn access_key(&self) -> Option<&str> {
        let (_, credential) = self.header("authorization")?.split_once("Credential=")?;
        credential.split('/').next()
    }
}

/// A time from now, in the form that AWS's services write.
pub(crate) fn from_now(lifetime: Duration) -> String {
    use aws_smithy_types::DateTime;
    use aws_smithy_types::date_time::Format;
    let time = DateTime::from_secs_f64(epoch_ms(lifetime) as f64 / 1000.0);
    time.fmt(Format::DateTime).unwrap()
}

/// The time `lifetime` from now, in milliseconds since 1970.
pub(crate) fn epoch_ms(lifetime: Duration) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "expiry is wall-clock time")]
    let time = SystemTime::now() + lifetime;
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

fn serve(
    stream: TcpStream,
    log: &Mutex<Vec<Request>>,
    answer: &dyn Fn(&Request) -> Option<Answer>,
) {
    let mut reader = BufReader::new(stream);
    let Some(request) = read_request(&mut reader) else {
        return;
    };
    log.lock().push(request.clone());
    let mut stream = reader.into_inner();
    let Some((status, body)) = answer(&request) else {
        // Until the client goes away.
        drop(stream.read(&mut [0; 64]));
        return;
    };
    let ttl = "x-aws-ec2-metadata-token-ttl-seconds: 21600";
    let head = format!(
        "HTTP/1.1 {status} Answer\r\nContent-Length: {}\r\nConnection: close\r\n{ttl}\r\n\r\n",
        body.len()
    );
    // The client may be gone.
    drop(stream.write_all(head.as_bytes()));
    drop(stream.write_all(body.as_bytes()));
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut first = lines.first()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
    let headers: Vec<_> = headers
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut request = Request {
        method,
        path,
        headers,
        body: String::new(),
    };
    let len = request
        .header("content-length")
        .map_or(0, |len| len.parse().unwrap());
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).unwrap();
    Some(request)
}

fn spawn(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name("stub".to_owned());
    thread.spawn(work).unwrap();
}
