//! A running server: its threads, its address, its store.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::api::express::Sessions;
use super::api::s3::{KeyPair, Operations};
use super::connections::{self, Serving};
use super::http::faults::Faults;
use super::http::request_log::RequestLog;
use super::options::ServerOptions;
use super::service::Service;
use super::store::buckets::Store;
use super::tls;

/// A running server. Dropping it stops it, within [`Server::STOP_TIME_MAX`].
pub struct Server {
    address: SocketAddr,
    store: Arc<Store>,
    log: Arc<RequestLog>,
    faults: Arc<Faults>,
    sessions: Arc<Sessions>,
    keys: Option<KeyPair>,
    serving: Serving,
    worker_threads: usize,
    /// `None` while it is stopped.
    running: Mutex<Option<Running>>,
}

/// The threads of a server between a start and a stop.
struct Running {
    stop: watch::Sender<bool>,
    main: JoinHandle<()>,
}

impl Server {
    /// Longest time that stopping takes: requests that are still in flight then are cut off.
    pub const STOP_TIME_MAX: Duration = Duration::from_millis(500);

    /// The authority that signed its certificate, in PEM form; for `localhost` and `127.0.0.1`.
    pub const AUTHORITY: &str = tls::AUTHORITY;

    /// Starts a server on threads of its own.
    ///
    /// # Errors
    /// If it cannot listen at the address, or start its threads.
    pub fn start(options: ServerOptions) -> io::Result<Self> {
        let store = Arc::new(Store::new(&options));
        let log = Arc::new(RequestLog::new(options.log));
        let faults = Arc::new(Faults::default());
        let sessions = Arc::new(Sessions::new(options.session_lifetime));
        let mut s3 = S3ServiceBuilder::new(Operations {
            store: Arc::clone(&store),
            region: options.region,
            sessions: Arc::clone(&sessions),
        });
        let keys = options.credentials.map(KeyPair::new);
        if let Some(keys) = &keys {
            s3.set_auth(keys.clone());
        }
        let service = Service {
            s3: s3.build(),
            store: Arc::clone(&store),
            log: Arc::clone(&log),
            faults: Arc::clone(&faults),
            sessions: Arc::clone(&sessions),
            answers: AtomicU64::new(0),
            verifies: keys.is_some(),
        };
        let serving = Serving {
            service: Arc::new(service),
            acceptor: options.has_tls.then(tls::acceptor).transpose()?,
        };
        let worker_threads = options.worker_threads.max(1);
        let (running, address) = Running::begin(options.address, worker_threads, serving.clone())?;
        Ok(Self {
            address,
            store,
            log,
            faults,
            sessions,
            keys,
            serving,
            worker_threads,
            running: Mutex::new(Some(running)),
        })
    }

    /// Starts a server with default options and an empty bucket.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with_bucket(bucket: &str) -> io::Result<Self> {
        let server = Self::start(ServerOptions::default())?;
        server.store.create_bucket(bucket);
        Ok(server)
    }

    /// Where it listens, as a URL for clients that use path style.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// As [`Server::url`], over TLS, which its options must allow.
    #[must_use]
    pub fn tls_url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's buckets and objects.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The log of its requests.
    #[must_use]
    pub fn log(&self) -> &RequestLog {
        &self.log
    }

    /// Ends every session of its directory buckets, before their time.
    pub fn end_sessions(&self) {
        self.sessions.end_all();
    }

    /// Accepts these keys, access key and secret key, in place of the earlier ones from now on. A
    /// server without credentials goes on to accept any.
    pub fn set_credentials(&self, access_key: &str, secret_key: &str) {
        if let Some(keys) = &self.keys {
            keys.replace(access_key, secret_key);
        }
    }

    /// Stops it as a drop does; store, log and faults stay for [`Server::start_again`].
    pub fn stop(&self) {
        let running = self.running.lock().take();
        if let Some(running) = running {
            running.end();
        }
    }

    /// Starts a stopped server at the address that it had.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_again(&self) -> io::Result<()> {
        let mut running = self.running.lock();
        if running.is_none() {
            let serving = self.serving.clone();
            *running = Some(Running::begin(self.address, self.worker_threads, serving)?.0);
        }
        Ok(())
    }

    /// The rules by which it misbehaves.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Running {
    /// Listens at the address and serves; the address that it has then.
    fn begin(
        address: SocketAddr,
        worker_threads: usize,
        serving: Serving,
    ) -> io::Result<(Self, SocketAddr)> {
        let runtime = runtime(worker_threads)?;
        let listener = {
            let _entered = runtime.enter();
            connections::listen(address)?
        };
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let main = std::thread::Builder::new()
            .name("s3-server".to_owned())
            .spawn(move || run(runtime, listener, serving, stopped))?;
        Ok((Self { stop, main }, address))
    }

    fn end(self) {
        self.stop.send_replace(true);
        if self.main.join().is_err() {
            tracing::error!("the S3 server's main thread panicked");
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

fn runtime(worker_threads: usize) -> io::Result<Runtime> {
    let started = AtomicUsize::new(0);
    Builder::new_multi_thread()
        .worker_threads(worker_threads)
        .thread_name_fn(move || format!("s3-server-{}", started.fetch_add(1, Ordering::Relaxed)))
        .enable_all()
        .build()
}

/// Owns the runtime, so that it never ends within somebody's async context.
fn run(runtime: Runtime, listener: TcpListener, serving: Serving, stopped: watch::Receiver<bool>) {
    runtime.block_on(connections::serve(
        listener,
        serving,
        stopped,
        Server::STOP_TIME_MAX,
    ));
    // The tasks that are left wait and can be dropped: none of them blocks a thread.
    runtime.shutdown_timeout(Server::STOP_TIME_MAX);
}
