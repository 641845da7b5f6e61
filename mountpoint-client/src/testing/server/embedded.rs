//! A running server: its threads, its address, its store.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

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
    stop: watch::Sender<bool>,
    main: Option<JoinHandle<()>>,
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
        let verifies = options.credentials.is_some();
        let mut s3 = S3ServiceBuilder::new(Operations {
            store: Arc::clone(&store),
            region: options.region,
            sessions: Arc::clone(&sessions),
        });
        if let Some((access_key, secret_key)) = options.credentials {
            s3.set_auth(KeyPair {
                access_key,
                secret_key: secret_key.into(),
            });
        }
        let (log_of_service, faults_of_service) = (Arc::clone(&log), Arc::clone(&faults));
        let service = Service {
            s3: s3.build(),
            store: Arc::clone(&store),
            log: log_of_service,
            faults: faults_of_service,
            sessions: Arc::clone(&sessions),
            answers: AtomicU64::new(0),
            verifies,
        };
        let acceptor = options.has_tls.then(tls::acceptor).transpose()?;
        let runtime = runtime(options.worker_threads.max(1))?;
        let listener = {
            let _entered = runtime.enter();
            connections::listen(options.address)?
        };
        let address = listener.local_addr()?;
        let serving = Serving {
            service: Arc::new(service),
            acceptor,
        };
        let (stop, stopped) = watch::channel(false);
        let main = std::thread::Builder::new()
            .name("s3-server".to_owned())
            .spawn(move || run(runtime, listener, serving, stopped))?;
        Ok(Self {
            address,
            store,
            log,
            faults,
            sessions,
            stop,
            main: Some(main),
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

    /// The rules by which it misbehaves.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(main) = self.main.take()
            && main.join().is_err()
        {
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
