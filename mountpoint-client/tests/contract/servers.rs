//! Starts S3 servers as processes of the test, with a bucket that is empty, and ends them with it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tempfile::TempDir;

pub(crate) const ACCESS_KEY: &str = "testkey";
pub(crate) const SECRET_KEY: &str = "testsecret";
pub(crate) const BUCKET: &str = "contract";

/// A server that runs until it is dropped.
pub(crate) struct Program {
    process: Child,
    endpoint: String,
    _data: TempDir,
}

impl Program {
    pub(crate) fn minio() -> Self {
        Self::start("minio", |command, address, data| {
            command
                .env("MINIO_ROOT_USER", ACCESS_KEY)
                .env("MINIO_ROOT_PASSWORD", SECRET_KEY)
                .env("MINIO_BROWSER", "off")
                .env("MINIO_UPDATE", "off")
                .args(["server", "--quiet", "--address", address, data]);
        })
    }

    pub(crate) fn versitygw() -> Self {
        Self::start("versitygw", |command, address, data| {
            command
                .env("ROOT_ACCESS_KEY", ACCESS_KEY)
                .env("ROOT_SECRET_KEY", SECRET_KEY)
                .args(["--port", address, "--keep-alive", "--quiet", "posix", data]);
        })
    }

    /// `http://address`.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn start(name: &str, arguments: impl Fn(&mut Command, &str, &str)) -> Self {
        let data = TempDir::new().expect("there is room for a temporary directory");
        // Both take a directory in their data directory for a bucket.
        std::fs::create_dir(data.path().join(BUCKET)).expect("the directory is new");
        let address = free_address();
        let mut command = Command::new(binary(name));
        let data_path = data.path().to_str().expect("temporary names are UTF-8");
        arguments(&mut command, &address, data_path);
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = process.unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let mut server = Self {
            process,
            endpoint: format!("http://{address}"),
            _data: data,
        };
        for _ in 0..START_TRIES_MAX {
            if TcpStream::connect(&address).is_ok() {
                return server;
            }
            let ended = server.process.try_wait();
            assert!(matches!(ended, Ok(None)), "{name} on {address}: {ended:?}");
            std::thread::sleep(START_STEP);
        }
        panic!("{name} does not answer on {address}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may be gone already; there is nobody left to tell either way.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A program in the directory that `MOUNTPOINT_TEST_SERVERS` names.
pub(crate) fn binary(name: &str) -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "a test's own setting")]
    let folder = std::env::var_os("MOUNTPOINT_TEST_SERVERS");
    let folder = folder.unwrap_or_else(|| {
        panic!(
            "MOUNTPOINT_TEST_SERVERS is not set: run `make test-servers test-programs` and name their directory, .tools"
        )
    });
    let path = PathBuf::from(folder).join(name);
    assert!(
        path.is_file(),
        "{} is missing: run `make test-servers test-programs`",
        path.display()
    );
    path
}

/// A free address that no other program takes before the server does: at one of loopback's many
/// hosts, which no other uses.
fn free_address() -> String {
    static NUMBER: AtomicU8 = AtomicU8::new(0);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed) % 64;
    let host = Ipv4Addr::new(127, 64 + number, high, low);
    let listener = TcpListener::bind((host, 0)).expect("loopback is there");
    listener.local_addr().expect("it is bound").to_string()
}

const START_TRIES_MAX: u32 = 2400;
const START_STEP: Duration = Duration::from_millis(50);
