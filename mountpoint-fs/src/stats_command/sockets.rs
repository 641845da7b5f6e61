//! Finds the sockets of running mounts, and asks them.
//!
//! Linux lists the sockets of a network namespace; those of other containers are found through the
//! descriptors of their processes, which root may read. A socket that does not answer is skipped.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::mount::{SOCKET_PREFIX, STATS_FORMAT, StatsDocument};

/// A mount that has answered.
#[derive(Debug)]
pub(super) struct AnsweringMount {
    /// Its answer.
    pub(super) document: StatsDocument,
    /// A path, or `@` and a name.
    name: String,
    /// The root directory of its process.
    root: PathBuf,
}

impl AnsweringMount {
    fn new(document: StatsDocument, name: &str, root: &Path) -> Self {
        Self {
            document,
            name: name.to_owned(),
            root: root.to_owned(),
        }
    }

    /// A new connection to it.
    pub(super) fn connect(&self) -> io::Result<UnixStream> {
        connected(&self.name, &self.root)
    }
}

/// The mounts of this machine that answer this user.
pub(super) fn find_all() -> Vec<AnsweringMount> {
    let mut mounts = Vec::new();
    let mut answered = BTreeSet::new();
    let table = fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    for found in listening(&table).take(SOCKETS_MAX) {
        let root = Path::new("/");
        if let Some(document) = ask(found.name, root) {
            answered.insert(found.inode);
            mounts.push(AnsweringMount::new(document, found.name, root));
        }
    }
    for process in processes().into_iter().take(SOCKETS_MAX) {
        let mut sockets = socket_inodes(&process);
        sockets.retain(|inode| !answered.contains(inode));
        if sockets.is_empty() {
            continue;
        }
        let table = fs::read_to_string(process.join("net/unix")).unwrap_or_default();
        let own = listening(&table).filter(|found| sockets.contains(&found.inode));
        for found in own {
            let root = process.join("root");
            if let Some(document) = ask(found.name, &root) {
                answered.insert(found.inode);
                mounts.push(AnsweringMount::new(document, found.name, &root));
            }
        }
    }
    mounts.sort_by_key(|mount| mount.document.place());
    mounts
}

/// A socket that waits for connections.
#[derive(Debug, PartialEq, Eq)]
struct ListeningSocket<'a> {
    inode: u64,
    /// A path, or `@` and a name.
    name: &'a str,
}

/// The sockets of mounts among the lines of `/proc/net/unix`.
fn listening(table: &str) -> impl Iterator<Item = ListeningSocket<'_>> {
    table.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
        let inode = fields.nth(2)?.parse().ok()?;
        // A path may have blanks.
        let name = line.get(line.find(fields.next()?)?..)?;
        let last = name.trim_start_matches('@').rsplit('/').next()?;
        let is_ours = last.starts_with(SOCKET_PREFIX) && flags & ACCEPTS_CONNECTIONS != 0;
        is_ours.then_some(ListeningSocket { inode, name })
    })
}

/// Folders in `/proc` of the processes that have this program's name.
fn processes() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let comm = fs::read_to_string(path.join("comm"));
        comm.is_ok_and(|comm| comm.trim_end() == PROGRAM)
    };
    paths.filter(is_ours).collect()
}

/// The sockets among a process's descriptors; none if this user may not know.
fn socket_inodes(process: &Path) -> BTreeSet<u64> {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten();
    let inodes = entries.flatten().filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?;
        inode.strip_suffix(']')?.parse().ok()
    });
    inodes.collect()
}

/// The answer of a mount; `None` if there is none, or if it is of another version of the format.
fn ask(name: &str, root: &Path) -> Option<StatsDocument> {
    let mut stream = connected(name, root).ok()?;
    // Without a question a mount tells its numbers.
    stream.shutdown(Shutdown::Write).ok()?;
    let mut text = Vec::new();
    stream
        .by_ref()
        .take(ANSWER_MAX)
        .read_to_end(&mut text)
        .ok()?;
    let document: StatsDocument = serde_json::from_slice(&text).ok()?;
    (document.format == STATS_FORMAT).then_some(document)
}

/// A connection that never waits for long: also a process that is stopped has a socket.
fn connected(name: &str, root: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let address = match name.strip_prefix('@') {
        Some(name) => UnixAddr::new_abstract(name.as_bytes())?,
        None => {
            let path = root.join(name.trim_start_matches('/'));
            // A name in the root of another container may be too long for an address.
            let directory = path.parent().unwrap_or(root);
            let file = path.file_name().unwrap_or_default();
            let open = fs::File::open(directory)?;
            let short = Path::new("/proc/self/fd").join(open.as_raw_fd().to_string());
            connect(socket.as_raw_fd(), &UnixAddr::new(&short.join(file))?)?;
            return with_timeout(socket);
        }
    };
    connect(socket.as_raw_fd(), &address)?;
    with_timeout(socket)
}

fn with_timeout(socket: OwnedFd) -> io::Result<UnixStream> {
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    Ok(stream)
}

/// Name of the program's processes.
const PROGRAM: &str = "mount-s3";
/// `__SO_ACCEPTCON` of Linux: the socket listens.
const ACCEPTS_CONNECTIONS: u32 = 0x1_0000;
/// Most sockets that are asked, so that a look ends.
const SOCKETS_MAX: usize = 4096;
/// Most bytes of an answer: 2000 series have less than a tenth of it.
const ANSWER_MAX: u64 = 16 << 20;
/// Longest wait for the next bytes of an answer. A mount answers within milliseconds.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_of_mounts_are_found_in_the_table() {
        let table = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 11 /a b/mountpoint-s3/mount-s3.stats.7.1
0000000000000000: 00000003 00000000 00000000 0001 03 12 /a/mount-s3.stats.7.1
0000000000000000: 00000002 00000000 00010000 0001 01 13 @mount-s3.stats.8.2
0000000000000000: 00000002 00000000 00010000 0001 01 14 /run/other.sock
0000000000000000: 00000002 00000000 00010000 0001 01 15
broken";
        let found: Vec<_> = listening(table).map(|it| (it.inode, it.name)).collect();
        assert_eq!(
            found,
            [
                (11, "/a b/mountpoint-s3/mount-s3.stats.7.1"),
                (13, "@mount-s3.stats.8.2"),
            ]
        );
    }

    #[test]
    fn nobody_at_a_socket_is_no_answer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mount-s3.stats.1.1");
        assert_eq!(ask(path.to_str().unwrap(), Path::new("/")), None);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(listener);
        assert_eq!(ask(path.to_str().unwrap(), Path::new("/")), None);
    }
}
