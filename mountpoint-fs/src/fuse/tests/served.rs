//! A session over a bucket in memory, the kernel it serves, and the requests of that kernel.

use std::sync::Arc;

use mountpoint_client::testing::sim::{SimOptions, Time};
use mountpoint_client::{ObjectClient, SimClient};
use tokio::runtime::Runtime;

use super::kernel::{Answered, Kernel};
use crate::clock::Clock;
use crate::config::{FsConfig, PassthroughMode, WriteConfig};
use crate::fs::FileSystem;
use crate::fuse::allowed_users::AllowedUsers;
use crate::fuse::{Mount, Session, SessionOptions, Transport};
use crate::operation::LocalFiles;

pub(super) const LOOKUP: u32 = 1;
pub(super) const FORGET: u32 = 2;
pub(super) const GETATTR: u32 = 3;
pub(super) const SETATTR: u32 = 4;
pub(super) const READLINK: u32 = 5;
pub(super) const UNLINK: u32 = 10;
pub(super) const OPEN: u32 = 14;
pub(super) const READ: u32 = 15;
pub(super) const STATFS: u32 = 17;
pub(super) const RELEASE: u32 = 18;
pub(super) const GETXATTR: u32 = 22;
pub(super) const FLUSH: u32 = 25;
pub(super) const INIT: u32 = 26;
pub(super) const OPENDIR: u32 = 27;
pub(super) const READDIR: u32 = 28;
pub(super) const RELEASEDIR: u32 = 29;
pub(super) const ACCESS: u32 = 34;
pub(super) const INTERRUPT: u32 = 36;
pub(super) const DESTROY: u32 = 38;
pub(super) const READDIRPLUS: u32 = 44;

pub(super) const ROOT: u64 = 1;
/// Size of the file that is read.
pub(super) const SIZE: u64 = 16 << 20;

/// A mount that somebody else made, and that everybody may use.
pub(super) fn open_to_all(device: std::os::fd::OwnedFd) -> Mount {
    Mount::from_device(device, AllowedUsers::All)
}

/// A session that serves, and the kernel it serves.
pub(super) struct Served {
    pub(super) kernel: Kernel,
    pub(super) session: Session,
    pub(super) client: Arc<SimClient>,
    pub(super) fs: Arc<FileSystem>,
    unique: u64,
    _mount: Mount,
    _runtime: Runtime,
}

impl Served {
    pub(super) fn new(time: Time) -> Self {
        Self::with(time, |_| (), open_to_all)
    }

    pub(super) fn with(
        time: Time,
        change: impl FnOnce(&mut SessionOptions),
        mount: impl FnOnce(std::os::fd::OwnedFd) -> Mount,
    ) -> Self {
        Self::with_local_files(None, time, change, mount)
    }

    pub(super) fn with_local_files(
        files: Option<Arc<dyn LocalFiles>>,
        time: Time,
        change: impl FnOnce(&mut SessionOptions),
        mount: impl FnOnce(std::os::fd::OwnedFd) -> Mount,
    ) -> Self {
        let client = Arc::new(SimClient::new(SimOptions {
            time,
            ..SimOptions::default()
        }));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let (kernel, device) = Kernel::pair();
        let mount = mount(device);
        kernel.request(INIT, 2, 0, &words(&[7, 45, 131_072, u32::MAX, u32::MAX]));
        let mut options = session_options(&runtime);
        change(&mut options);
        let fs = file_system(&client, options.read_only);
        files
            .into_iter()
            .for_each(|files| fs.set_local_files(files));
        let session = Session::start(Arc::clone(&fs), &mount, options).unwrap();
        let init = kernel.answered();
        assert_eq!((init.unique, init.errno, init.body.len()), (2, 0, 64));
        Self {
            kernel,
            session,
            client,
            fs,
            unique: 2,
            _mount: mount,
            _runtime: runtime,
        }
    }

    /// Sends a request; returns its number.
    pub(super) fn send(&mut self, opcode: u32, node: u64, body: &[u8]) -> u64 {
        self.unique += 2;
        self.kernel.request(opcode, self.unique, node, body);
        self.unique
    }

    /// Sends a request and waits for its reply.
    #[track_caller]
    pub(super) fn ask(&mut self, opcode: u32, node: u64, body: &[u8]) -> Answered {
        let unique = self.send(opcode, node, body);
        let answered = self.kernel.answered();
        assert_eq!(answered.unique, unique);
        answered
    }

    #[track_caller]
    pub(super) fn check(&mut self, opcode: u32, node: u64, body: &[u8], errno: i32) {
        assert_eq!(self.ask(opcode, node, body).errno, errno, "opcode {opcode}");
    }

    /// Looks `name` up; returns its inode number.
    #[track_caller]
    pub(super) fn lookup(&mut self, parent: u64, name: &str) -> u64 {
        let answered = self.ask(LOOKUP, parent, &c_string(name));
        assert_eq!(answered.errno, 0);
        u64_at(&answered.body, 0)
    }

    #[track_caller]
    pub(super) fn open(&mut self, node: u64) -> u64 {
        let answered = self.ask(OPEN, node, &words(&[0, 0]));
        assert_eq!(answered.errno, 0);
        u64_at(&answered.body, 0)
    }

    /// Ends the connection; returns when the session has ended.
    pub(super) fn end(self) {
        drop(self.kernel);
        self.session.wait();
        assert_eq!(self.session.operations_in_progress(), 0);
    }
}

/// Both sessions that read `/dev/fuse`: ours and the library's.
pub(super) const SESSIONS: [Transport; 2] = [Transport::DevFuse, Transport::Fuser];

/// A session of `transport` over a mount that everybody may use.
pub(super) fn served_by(transport: Transport, time: Time) -> Served {
    let change = |options: &mut SessionOptions| options.transport = transport;
    Served::with(time, change, open_to_all)
}

/// Checks both sessions.
pub(super) fn check_both(time: Time, check: fn(Served)) {
    for transport in SESSIONS {
        check(served_by(transport, time));
    }
}

pub(super) fn file_system(client: &Arc<SimClient>, read_only: bool) -> Arc<FileSystem> {
    let config = FsConfig {
        uid: 1000,
        gid: 1001,
        file_mode: 0o640,
        write: WriteConfig {
            read_only,
            ..WriteConfig::default()
        },
        ..FsConfig::default()
    };
    Arc::new(FileSystem::new(
        Arc::clone(client) as Arc<dyn ObjectClient>,
        config,
        Clock::manual(),
    ))
}

pub(super) fn session_options(runtime: &Runtime) -> SessionOptions {
    SessionOptions {
        threads: 4,
        transport: Transport::DevFuse,
        clone_descriptors: false,
        max_background: 64,
        congestion_threshold: 48,
        write_max: 1 << 20,
        passthrough: PassthroughMode::default(),
        read_only: false,
        runtime: runtime.handle().clone(),
    }
}

pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub(super) fn c_string(name: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0"].concat()
}

/// Body of READ, READDIR and READDIRPLUS.
pub(super) fn read_in(handle: u64, offset: u64, size: u32) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(handle.to_ne_bytes());
    body.extend(offset.to_ne_bytes());
    body.extend(size.to_ne_bytes());
    body.resize(40, 0);
    body
}

/// Body of RELEASE and RELEASEDIR.
pub(super) fn release_in(handle: u64) -> Vec<u8> {
    let mut body = handle.to_ne_bytes().to_vec();
    body.resize(24, 0);
    body
}

pub(super) fn u64_at(body: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(body[offset..offset + 8].try_into().unwrap())
}

pub(super) fn u32_at(body: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(body[offset..offset + 4].try_into().unwrap())
}

/// Names, next offsets and inode numbers in a reply to READDIR.
pub(super) fn names(mut body: &[u8]) -> Vec<(String, u64, u64)> {
    let mut entries = Vec::new();
    while !body.is_empty() {
        let len = u32_at(body, 16) as usize;
        let name = String::from_utf8(body[24..24 + len].to_vec()).unwrap();
        entries.push((name, u64_at(body, 8), u64_at(body, 0)));
        body = &body[(24 + len).next_multiple_of(8)..];
    }
    entries
}
