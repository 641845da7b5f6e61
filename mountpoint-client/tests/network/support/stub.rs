//! A small HTTP server for the services that hand out credentials. Closes each connection after one
//! answer.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

pub(crate) use super::http::Request;
use super::http::{listen, read_request};

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
        let asked = Arc::<Mutex<Vec<Request>>>::default();
        let log = Arc::clone(&asked);
        let address = listen("127.0.0.1:0", move |stream| serve(stream, &log, &answer));
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
    /// A field of a form in the body.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let body = std::str::from_utf8(&self.body).unwrap();
        let mut fields = body.split('&').filter_map(|field| field.split_once('='));
        let found = fields.find(|(field, _)| *field == name);
        found.map(|(_, value)| value)
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
