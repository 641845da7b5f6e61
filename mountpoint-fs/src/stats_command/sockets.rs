//! Finds the sockets of running mounts, and asks them.
//!
//! Linux lists the sockets of a network namespace; those of other containers are found through the
//! descriptors of their processes, which root may read. A socket that does not answer is skipped.
//!
//! Any user may have made a socket of such a name, or have put something else in its place: nothing
//! is opened on the way to a socket, and no answer is waited for without end.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::sys::socket::{UnixAddr, getsockopt, sockopt::PeerCredentials};
use nix::sys::stat::Mode;
use nix::unistd::geteuid;

use crate::clock::Clock;
use crate::mount::{SOCKET_PREFIX, STATS_FORMAT, StatsDocument};
use crate::unix_connect::connect_to;

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
    let look = Look::begin();
    let table = fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    let root = PathBuf::from("/");
    let here = listening(&table).map(|found| found.of_root(&root));
    let mut answers = look.ask_all(here.take(SOCKETS_MAX).collect());
    let answered: BTreeSet<u64> = answers.iter().map(|(inode, _)| *inode).collect();
    let mut elsewhere = Vec::new();
    for process in processes().into_iter().take(SOCKETS_MAX) {
        let mut sockets = socket_inodes(&process);
        sockets.retain(|inode| !answered.contains(inode));
        if sockets.is_empty() {
            continue;
        }
        let table = fs::read_to_string(process.join("net/unix")).unwrap_or_default();
        let own = listening(&table).filter(|found| sockets.contains(&found.inode));
        let root = process.join("root");
        elsewhere.extend(own.map(|found| found.of_root(&root)));
    }
    // Threads or forks of a process may hold the same socket.
    let mut seen = BTreeSet::new();
    elsewhere.retain(|place| seen.insert(place.inode));
    elsewhere.truncate(SOCKETS_MAX);
    answers.extend(look.ask_all(elsewhere));
    let mut mounts: Vec<_> = answers.into_iter().map(|(_, mount)| mount).collect();
    mounts.sort_by_key(|mount| mount.document.place());
    mounts
}

/// A socket, and the root directory that its path begins at.
#[derive(Clone, Debug)]
struct SocketPlace {
    inode: u64,
    name: String,
    root: PathBuf,
}

/// One look at all mounts, which has an end.
#[derive(Debug)]
struct Look {
    clock: Clock,
}

impl Look {
    fn begin() -> Self {
        let clock = Clock::monotonic();
        Self { clock }
    }

    /// Asks the sockets, several at once: some may never answer. Returns the answers with the
    /// sockets' inodes.
    fn ask_all(&self, places: Vec<SocketPlace>) -> Vec<(u64, AnsweringMount)> {
        let next = AtomicUsize::new(0);
        let ask_some = || {
            let mut answers = Vec::new();
            while self.clock.now() < LOOK_TIME_MAX
                && let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed))
            {
                if let Some(document) = ask(&place.name, &place.root, &self.clock) {
                    let mount = AnsweringMount::new(document, &place.name, &place.root);
                    answers.push((place.inode, mount));
                }
            }
            answers
        };
        thread::scope(|scope| {
            // This thread asks, too: it needs no other one.
            let others = (1..places.len().min(THREADS_MAX)).filter_map(|_| {
                let named = thread::Builder::new().name("stats-ask".to_owned());
                named.spawn_scoped(scope, ask_some).ok()
            });
            let others: Vec<_> = others.collect();
            let mut answers = ask_some();
            for other in others {
                answers.extend(other.join().unwrap_or_default());
            }
            answers
        })
    }
}

/// A socket that waits for connections.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListeningSocket<'a> {
    inode: u64,
    /// A path, or `@` and a name.
    pub(super) name: &'a str,
}

impl ListeningSocket<'_> {
    fn of_root(&self, root: &Path) -> SocketPlace {
        SocketPlace {
            inode: self.inode,
            name: self.name.to_owned(),
            root: root.to_owned(),
        }
    }
}

/// The sockets of mounts among the lines of `/proc/net/unix`.
pub(super) fn listening(table: &str) -> impl Iterator<Item = ListeningSocket<'_>> {
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

/// The answer of a mount; `None` if there is none in time, or if it is of another version of the
/// format.
fn ask(name: &str, root: &Path, clock: &Clock) -> Option<StatsDocument> {
    let mut stream = connected(name, root).ok()?;
    let uid = peer(&stream).ok()?;
    // Without a question a mount tells its numbers.
    stream.shutdown(Shutdown::Write).ok()?;
    let text = read_whole(&mut stream, clock).ok()?;
    let mut document: StatsDocument = serde_json::from_slice(&text).ok()?;
    // The kernel knows the user, and an answer may say anything.
    document.mount.uid = uid;
    (document.format == STATS_FORMAT).then_some(document)
}

/// Everything that comes within [`ANSWER_TIME_MAX`].
fn read_whole(stream: &mut UnixStream, clock: &Clock) -> io::Result<Vec<u8>> {
    let end = clock.now() + ANSWER_TIME_MAX;
    let (mut text, mut bytes) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let left = end.saturating_sub(clock.now());
        if left.is_zero() || text.len() > ANSWER_MAX {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(text),
            Ok(count) => text.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The user at the other end. Mounts of another user answer root alone, so to anybody else such an
/// answer is none of a mount.
fn peer(stream: &UnixStream) -> io::Result<u32> {
    let (peer, own) = (getsockopt(stream, PeerCredentials)?.uid(), geteuid());
    match own.is_root() || peer == own.as_raw() {
        true => Ok(peer),
        false => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
    }
}

/// A connection that was made without a wait: also a process that is stopped has a socket.
fn connected(name: &str, root: &Path) -> io::Result<UnixStream> {
    let stream = match name.strip_prefix('@') {
        Some(name) => connect_to(&UnixAddr::new_abstract(name.as_bytes())?)?,
        None => {
            let path = root.join(name.trim_start_matches('/'));
            // A name in the root of another container may be too long for an address.
            let directory = path.parent().unwrap_or(root);
            let file = path.file_name().unwrap_or_default();
            // The path alone opens no pipe and no device that somebody has put there.
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let directory = open(directory, flags, Mode::empty())?;
            let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string());
            connect_to(&UnixAddr::new(&short.join(file))?)?
        }
    };
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    stream.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    Ok(stream)
}

/// Name of the program's processes.
const PROGRAM: &str = "mount-s3";
/// `__SO_ACCEPTCON` of Linux: the socket listens.
const ACCEPTS_CONNECTIONS: u32 = 0x1_0000;
/// Most sockets that are asked, so that a look ends.
const SOCKETS_MAX: usize = 4096;
/// Most bytes of an answer: 2000 series have less than a tenth of it.
const ANSWER_MAX: usize = 16 << 20;
/// Longest wait for an answer. A mount answers within milliseconds.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// Time after which no further socket is asked.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);
/// Sockets that are asked at once: a look takes a second however many of them do not answer, up to
/// this number.
const THREADS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

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
        let asked = || {
            let clock = Clock::monotonic();
            ask(path.to_str().unwrap(), Path::new("/"), &clock)
        };
        assert_eq!(asked(), None);
        let listener = UnixListener::bind(&path).unwrap();
        drop(listener);
        assert_eq!(asked(), None);
    }

    #[test]
    fn what_somebody_put_in_place_of_a_folder_or_a_socket_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRUSR).unwrap();
        let device = directory.path().join("device");
        std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
        // Each would wait for a writer, or read without end.
        let below = |place: &Path| place.join("mount-s3.stats.1.1");
        for path in [below(&pipe), below(&device), pipe.clone(), device.clone()] {
            let clock = Clock::monotonic();
            let answer = ask(path.to_str().unwrap(), Path::new("/"), &clock);
            assert_eq!(answer, None, "{}", path.display());
        }
    }

    #[test]
    fn sockets_that_never_answer_are_asked_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let paths = (0..THREADS_MAX).map(|number| directory.path().join(format!("s{number}")));
        let paths: Vec<_> = paths.collect();
        let _silent: Vec<_> = paths
            .iter()
            .map(|it| UnixListener::bind(it).unwrap())
            .collect();
        let places = paths.iter().zip(0..).map(|(path, inode)| SocketPlace {
            inode,
            name: path.to_str().unwrap().to_owned(),
            root: PathBuf::from("/"),
        });
        let look = Look::begin();
        assert!(look.ask_all(places.collect()).is_empty());
    }
}
