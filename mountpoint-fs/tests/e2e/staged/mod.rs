//! Files that are written in place, with real programs on real mounts.

mod calls;
mod earlier_version;
mod ends;
mod errors;
mod hosts;
mod programs;
mod random;
mod resuming;
mod suites;
mod thorough;
mod write_back;
mod write_back_kills;

use std::path::Path;
use std::process::{Command, Stdio};

use mountpoint_client::testing::server::Server;
use tempfile::TempDir;

use crate::harness::{BUCKET, Mounted, server};

/// A mount with a staging directory.
struct Staged {
    mounted: Mounted,
    staging: TempDir,
    /// A folder of the local disk for programs: their home and their files.
    local: TempDir,
}

impl Staged {
    /// A mount of the server's bucket with more arguments.
    fn new(server: &Server, args: &[&str]) -> Self {
        let staging = tempfile::tempdir().unwrap();
        let local = tempfile::tempdir().unwrap();
        let mounted = mount(server, staging.path(), args);
        Self {
            mounted,
            staging,
            local,
        }
    }

    /// A mount without a staging directory, which keeps written files in memory.
    fn in_memory(server: &Server, args: &[&str]) -> Self {
        let all = [&["--allow-changes"], args].concat();
        Self {
            mounted: Mounted::new(server, &all),
            staging: tempfile::tempdir().unwrap(),
            local: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs `script` in the mount. `$L` is a folder of the local disk, as is `$HOME`.
    #[track_caller]
    fn run(&self, script: &str) -> String {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(self.mounted.path())
            .env("HOME", self.local.path())
            .env("L", self.local.path())
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{script}\n{printed}{told}");
        printed
    }

    /// Runs a Python program in the mount. The variable `L` is a folder of the local disk.
    #[track_caller]
    fn python(&self, program: &str) {
        let program = format!("import os\nL = os.environ['L']\n{program}");
        std::fs::write(self.local.path().join("program.py"), program).unwrap();
        self.run("python3 $L/program.py");
    }
}

/// Makes a mount of the server's bucket with more arguments.
type Make = fn(&Server, &[&str]) -> Staged;

/// Mounts that write in place: with a directory for it, and without.
const BOTH: [Make; 2] = [Staged::new, Staged::in_memory];

fn mount(server: &Server, staging: &Path, args: &[&str]) -> Mounted {
    let staging = staging.to_str().unwrap();
    let all = [&["--allow-changes", "--staging", staging], args].concat();
    Mounted::new(server, &all)
}

/// A server and a mount of it.
fn staged() -> (Server, Staged) {
    let server = server();
    let staged = Staged::new(&server, &[]);
    (server, staged)
}

/// The bytes that the bucket has of `key`.
#[track_caller]
fn stored(server: &Server, key: &str) -> Vec<u8> {
    let object = server.store().object(BUCKET, key);
    let object = object.unwrap_or_else(|| panic!("no {key} in {:?}", server.store().keys(BUCKET)));
    object.bytes().to_vec()
}
