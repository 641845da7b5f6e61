//! What a written file promises, call by call, in each of the three modes. The tables of
//! doc/SEMANTICS.md, "The three modes", have these rows and more.
//!
//! Each row is a process of its own on a real mount. Its calls print what they return.

mod another_client;
mod calls;

use std::path::Path;
use std::process::{Command, Stdio};

use mountpoint_client::testing::server::Server;
use tempfile::TempDir;

use crate::harness::{BUCKET, Mounted, put, server, wait_until};

/// A way in which a mount keeps written bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Bytes go to the bucket while they are written.
    Streaming,
    /// `--staging`: the local disk has them until `close` has stored them.
    Staging,
    /// `--write-back`: the local disk has them, and `close` waits for nothing else.
    WriteBack,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Streaming, Self::Staging, Self::WriteBack];
}

/// A mount in one of the modes. The bucket has the object `old`, ten digits.
struct Promised {
    mode: Mode,
    server: Server,
    mounted: Mounted,
    _staging: TempDir,
}

impl Promised {
    fn new(mode: Mode) -> Self {
        let server = server();
        put(&server, "old", "0123456789");
        let staging = tempfile::tempdir().unwrap();
        let directory = staging.path().to_str().unwrap();
        let args: &[&str] = match mode {
            Mode::Streaming => &["--allow-changes"],
            Mode::Staging => &["--allow-changes", "--staging", directory],
            Mode::WriteBack => &[
                "--allow-changes",
                "--staging",
                directory,
                "--write-back",
                "--write-back-delay",
                "0",
            ],
        };
        let mounted = Mounted::new(&server, args);
        Self {
            mode,
            server,
            mounted,
            _staging: staging,
        }
    }

    /// A process that runs `script` in the mount.
    fn process(&self, script: &str) -> Command {
        process(self.mounted.path(), script)
    }

    /// The object's bytes; `None` if there is none.
    fn object(&self, key: &str) -> Option<Vec<u8>> {
        let object = self.server.store().object(BUCKET, key)?;
        Some(object.bytes().to_vec())
    }

    /// Compares the object with what the calls promised: at once, or as soon as it is uploaded.
    #[track_caller]
    fn check(&self, row: &str, key: &str, promised: Option<&str>) {
        let promised = promised.map(|text| text.as_bytes().to_vec());
        if self.mode == Mode::WriteBack {
            wait_until(row, || self.object(key) == promised);
        }
        assert_eq!(self.object(key), promised, "{:?}: {row}", self.mode);
    }
}

/// A process that runs `script` in `directory`.
fn process(directory: &Path, script: &str) -> Command {
    let mut command = Command::new("python3");
    command
        .args(["-c", &format!("{PRELUDE}\n{script}")])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// `say(name, call, …)` prints what the call returns, or its errno.
const PRELUDE: &str = "
import errno, mmap, os, subprocess, sys
def say(name, call, *args):
    try:
        value = call(*args)
    except OSError as error:
        value = errno.errorcode[error.errno]
    print(name, value.decode() if isinstance(value, bytes) else 0 if value is None else value, flush=True)
def new(flags=0):
    return os.open('new', os.O_CREAT | os.O_RDWR | flags, 0o644)
def only(flags=0):
    return os.open('new', os.O_CREAT | os.O_WRONLY | flags, 0o644)
def other(code):
    done = subprocess.run([sys.executable, '-c', 'import os\\n' + code], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1].split(':')[0]
";
