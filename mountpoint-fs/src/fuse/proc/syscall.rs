//! The system call behind a request, as `/proc` shows it.
//!
//! A LOOKUP does not tell its purpose: a look at the name, or its creation. The asking
//! thread waits inside its system call, and the kernel shows number and arguments of that call. The
//! call looks up every directory of the path as well: a mount of root sees in the thread's kernel
//! stack which look-up is the last; other mounts read the path in the process's memory. The call
//! also tells whether the thread of a WRITE waits for it, and so has sent no other.
//!
//! Runs on a session thread, as [`close`](super::close); only the memory is read by a thread of its
//! own, because that may wait. Invisible threads, calls of a ring, and programs of another
//! architecture count as making nothing. Limit: a directory inside a symbolic link's target that
//! has the file's name is taken for the file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use futures::channel::oneshot;
use futures::future::BoxFuture;

use super::short_text;
use crate::operation::{CallMark, FileKind, Purpose};

/// The thread that looks a name up, or opens what it has found, by its number in our PID namespace;
/// 0 if it is invisible.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse) struct LookingThread(pub(in crate::fuse) u32);

impl Purpose for LookingThread {
    /// The kind of `name` if the call makes it, or opens it and creates it if it is missing. Opens
    /// for appending do not count.
    fn made_kind<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<FileKind>> {
        Box::pin(async move {
            let making = self.making()?;
            let is_it = match self.shown("stack") {
                Some(stack) if !stack.is_empty() => making.call.is_at_the_end(&stack),
                _ => making.is_of(self.0, name).await,
            };
            is_it.then(|| making.call.kind())
        })
    }

    /// The call of the thread. Two calls in succession look alike if their arguments are the same.
    fn call(&self) -> Option<CallMark> {
        let call = call_of(self.0)?;
        is_waiting_call(&call).then(|| CallMark::new(self.0, &call))
    }
}

impl LookingThread {
    /// The call of the thread, if it makes a name.
    fn making(self) -> Option<Making> {
        Making::parse(&call_of(self.0)?)
    }

    fn shown(self, what: &str) -> Option<String> {
        shown(self.0, what)
    }
}

/// Whether the kernel shows as `text` the call in which a program waits: its number, six arguments,
/// the stack pointer and the return address.
pub(super) fn is_waiting_call(text: &str) -> bool {
    let values: Vec<_> = text.split_ascii_whitespace().collect();
    // A worker of a ring shows its program's last call, with neither stack nor return address. So
    // does a thread of the kernel.
    values.len() == 9 && values[7..].iter().all(|value| *value != "0x0")
}

/// The current call of `thread`.
fn call_of(thread: u32) -> Option<String> {
    if thread == 0 || !sees_own_namespace() {
        return None;
    }
    for _ in 0..SYSTEM_CALL_LOOKS_MAX {
        let call = shown(thread, "syscall")?;
        // The thread has sent its request, and is not asleep yet.
        if call.trim_end() != "running" {
            return Some(call);
        }
        thread::yield_now();
    }
    None
}

fn shown(thread: u32, what: &str) -> Option<String> {
    short_text(&format!("/proc/{thread}/{what}"))
}

/// Whether `/proc` shows our own PID namespace, whose numbers requests have.
fn sees_own_namespace() -> bool {
    static SEES: OnceLock<bool> = OnceLock::new();
    *SEES.get_or_init(|| {
        let shown = fs::read_link("/proc/self").ok();
        shown.is_some_and(|shown| shown.as_os_str() == std::process::id().to_string().as_str())
    })
}

/// A call that makes a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Making {
    pub(super) call: MakingCall,
    /// The address of the path in the memory of the process.
    path: u64,
}

/// The kind of such a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MakingCall {
    /// An open that creates the file if it is missing, and does not append.
    Open,
    /// A call that makes a directory, a link or a file, and opens none.
    Create(FileKind),
}

impl MakingCall {
    /// The call with the system call `number`, and the index of the path among its arguments. The
    /// flags of an open follow it.
    fn of(number: libc::c_long) -> Option<(Self, usize)> {
        match number {
            libc::SYS_openat => Some((Self::Open, 1)),
            libc::SYS_mkdirat => Some((Self::Create(FileKind::Directory), 1)),
            libc::SYS_mknodat => Some((Self::Create(FileKind::File), 1)),
            libc::SYS_symlinkat => Some((Self::Create(FileKind::SymbolicLink), 2)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => Some((Self::Open, 0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => Some((Self::Create(FileKind::Directory), 0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mknod => Some((Self::Create(FileKind::File), 0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => Some((Self::Create(FileKind::SymbolicLink), 1)),
            _ => None,
        }
    }

    /// The kind of what it makes.
    fn kind(self) -> FileKind {
        match self {
            Self::Open => FileKind::File,
            Self::Create(kind) => kind,
        }
    }

    /// Whether a thread with this kernel stack looks up the last name of the path.
    ///
    /// FUSE looks the name of an open up and creates it in one function. The other calls have one
    /// function for the path, which looks the names before up by another one.
    pub(super) fn is_at_the_end(self, stack: &str) -> bool {
        let functions = stack.lines().filter_map(|line| line.split_once("] "));
        // A compiler may have split a function: `link_path_walk.part.0`.
        let functions = functions.filter_map(|(_, function)| {
            let (name, _) = function.split_once('+')?;
            name.split('.').next()
        });
        let is_there = |wanted: &str| functions.clone().any(|function| function == wanted);
        match self {
            Self::Open => is_there("fuse_atomic_open"),
            Self::Create(_) => is_there("filename_create") && !is_there("link_path_walk"),
        }
    }
}

impl Making {
    /// The call that the kernel shows as `text`: its number, six arguments, the stack pointer and
    /// the return address.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let (call, place) = MakingCall::of(words.next()?.parse().ok()?)?;
        let mut values = [0; 8];
        for value in &mut values {
            *value = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        let [.., stack, returns] = values;
        let (path, flags) = (values[place], values[place + 1]);
        let has = |flag: libc::c_int| flags & u64::from(flag.cast_unsigned()) != 0;
        let makes = match call {
            MakingCall::Open => has(libc::O_CREAT) && !has(libc::O_APPEND) && !has(libc::O_PATH),
            MakingCall::Create(_) => true,
        };
        // A worker of a ring shows its program's last call, and has neither.
        (makes && stack != 0 && returns != 0).then_some(Self { call, path })
    }

    /// Whether this call of `thread` makes `name`.
    async fn is_of(&self, thread: u32, name: &str) -> bool {
        let path = read_apart(thread, self.path).await;
        path.is_some_and(|path| is_at_the_end_of(&path, name.as_bytes()))
    }
}

/// The text at `place` in the memory of `thread`, read by a thread of its own. `None` if it cannot
/// be read, or if too many reads wait already.
async fn read_apart(thread: u32, place: u64) -> Option<Vec<u8>> {
    static READERS: AtomicUsize = AtomicUsize::new(0);
    let more = |readers| (readers < SYSTEM_CALL_READERS_MAX).then_some(readers + 1);
    READERS
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
        .ok()?;
    let (tell, told) = oneshot::channel();
    let name = thread::Builder::new().name("fuse-path".to_owned());
    let begun = name.spawn(move || {
        let text = read_text(thread, place);
        READERS.fetch_sub(1, Ordering::AcqRel);
        // The asking thread may have been interrupted.
        tell.send(text).ok();
    });
    if begun.is_err() {
        READERS.fetch_sub(1, Ordering::AcqRel);
    }
    told.await.ok().flatten()
}

/// The text at `place` in the memory of `thread`, up to its zero byte.
fn read_text(thread: u32, place: u64) -> Option<Vec<u8>> {
    let memory = File::open(format!("/proc/{thread}/mem")).ok()?;
    let mut text = [0; PATH_MAX];
    // The read ends at unmapped memory.
    let len = memory.read_at(&mut text, place).ok()?;
    let end = text[..len].iter().position(|byte| *byte == 0)?;
    Some(text[..end].to_vec())
}

/// Whether a call that makes `path` looks up `name` as its last name.
fn is_at_the_end_of(path: &[u8], name: &[u8]) -> bool {
    let mut backwards = path.rsplit(|byte| *byte == b'/');
    backwards.next() == Some(name) && !backwards.any(|other| other == name)
}

/// The longest path, with its zero byte.
const PATH_MAX: usize = libc::PATH_MAX as usize;

/// How often the mount checks whether a thread sleeps in its system call. Between the checks the
/// mount yields the processor.
///
/// The thread has sent its request, so it is about to sleep.
const SYSTEM_CALL_LOOKS_MAX: u32 = 16;

/// Threads that read the path of a system call at a time. Each takes some microseconds.
///
/// Few mounts have more parallel lookups. Where memory makes them wait, S3 is asked instead.
const SYSTEM_CALL_READERS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::Path;
    use std::time::Duration;

    use futures::executor::block_on;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn what_the_kernel_shows_is_read() {
        let openat = libc::SYS_openat;
        for (arguments, expected) in [
            ("0xffffff9c 0x7f0 0x241 0x1b6 0x0 0x0 0x7ff 0x7f\n", true),
            ("0xffffff9c 0x7f0 0xc1 0x180 0x0 0x0 0x7ff 0x7f\n", true),
            // To append, to read, as a path only, and without flags.
            ("0xffffff9c 0x7f0 0x441 0x1b6 0x0 0x0 0x7ff 0x7f\n", false),
            ("0xffffff9c 0x7f0 0x80000 0x0 0x0 0x0 0x7ff 0x7f\n", false),
            ("0xffffff9c 0x7f0 0x200041 0x0 0x0 0x0 0x7ff 0x7f\n", false),
            ("0xffffff9c 0x7f0\n", false),
            ("0x41 0x41 x 0x41 0x41\n", false),
            // A worker of a ring.
            ("0xffffff9c 0x7f0 0x241 0x1b6 0x0 0x0 0x0 0x0\n", false),
        ] {
            let text = format!("{openat} {arguments}");
            let making = expected.then_some(Making {
                call: MakingCall::Open,
                path: 0x7f0,
            });
            assert_eq!(Making::parse(&text), making, "{text:?}");
        }
        for (number, kind, arguments) in [
            (
                libc::SYS_mkdirat,
                FileKind::Directory,
                "0xffffff9c 0x7f0 0x1ff 0x0 0x0 0x0",
            ),
            (
                libc::SYS_mknodat,
                FileKind::File,
                "0xffffff9c 0x7f0 0x180 0x0 0x0 0x0",
            ),
            (
                libc::SYS_symlinkat,
                FileKind::SymbolicLink,
                "0x5 0xffffff9c 0x7f0 0x0 0x0 0x0",
            ),
        ] {
            let making = Making {
                call: MakingCall::Create(kind),
                path: 0x7f0,
            };
            let text = format!("{number} {arguments} 0x7ff 0x7f\n");
            assert_eq!(Making::parse(&text), Some(making), "{text:?}");
            let of_a_ring = format!("{number} {arguments} 0x0 0x0\n");
            assert_eq!(Making::parse(&of_a_ring), None);
        }
        // Another call, one that has left its call, a kernel thread, nothing.
        let other = format!("{} 0x41 0x41 0x41 0x41 0x41 0x41 0x1 0x1", libc::SYS_statx);
        for text in [other.as_str(), "-1 0x7ff 0x7f\n", "running\n", ""] {
            assert_eq!(Making::parse(text), None, "{text:?}");
        }
    }

    /// Linux 6.18's view of threads that wait for a LOOKUP.
    #[test]
    fn names_on_the_way_are_told_from_the_last_one() {
        let stack = |functions: &[&str]| {
            let waits = [
                "request_wait_answer",
                "__fuse_simple_request",
                "fuse_lookup",
            ];
            let functions = waits.iter().chain(functions).chain(&["path_openat"]);
            let lines = functions.map(|name| format!("[<0>] {name}+0x112/0x210\n"));
            lines.collect::<String>()
        };
        let walk = ["__lookup_slow", "walk_component", "link_path_walk"];
        let split = [
            "__lookup_slow",
            "link_path_walk.part.0.constprop.0",
            "filename_create",
        ];
        let walk_to_create = [&walk[..], &["__filename_parentat", "filename_create"]].concat();
        let create = ["lookup_one_qstr_excl", "filename_create", "do_mkdirat"];
        let create_call = MakingCall::Create(FileKind::Directory);
        for (functions, opens, creates) in [
            (&["fuse_atomic_open"][..], true, false),
            (&create, false, true),
            (&walk, false, false),
            (&walk_to_create, false, false),
            (&split, false, false),
        ] {
            let stack = stack(functions);
            assert_eq!(MakingCall::Open.is_at_the_end(&stack), opens, "{stack}");
            assert_eq!(create_call.is_at_the_end(&stack), creates, "{stack}");
        }
        for text in ["fuse_atomic_open", "filename_create+0x1", ""] {
            assert!(!MakingCall::Open.is_at_the_end(text));
            assert!(!create_call.is_at_the_end(text));
        }
    }

    #[test]
    fn the_name_is_that_of_the_file() {
        for (path, name, expected) in [
            ("f", "f", true),
            ("d/f", "f", true),
            ("/mnt/d//f", "f", true),
            ("./f", "f", true),
            // On the way.
            ("d/f", "d", false),
            ("/mnt/d/f", "mnt", false),
            ("d/f", "g", false),
            // One or the other.
            ("f/f", "f", false),
            ("/f/d/f", "f", false),
            // No file.
            ("f/", "f", false),
            ("", "f", false),
        ] {
            let is_file = is_at_the_end_of(path.as_bytes(), name.as_bytes());
            assert_eq!(is_file, expected, "{path} {name}");
        }
    }

    /// A thread that waits in `open` is seen to, whatever it opens. The other end of a pipe is what
    /// it waits for.
    #[test]
    fn a_thread_that_waits_in_open_is_seen() {
        fn makes(thread: u32, name: &str) -> bool {
            let making = LookingThread(thread).making();
            making.is_some_and(|making| block_on(making.is_of(thread, name)))
        }
        let directory = tempfile::tempdir().unwrap();
        let directory_name = directory.path().file_name().unwrap().to_str().unwrap();
        for (flags, expected) in [
            (libc::O_CREAT, true),
            (0, false),
            (libc::O_CREAT | libc::O_APPEND, false),
        ] {
            let name = format!("{flags}");
            let path = directory.path().join(&name);
            mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
            let (tell, told) = std::sync::mpsc::channel();
            thread::scope(|scope| {
                scope.spawn(|| {
                    tell.send(nix::unistd::gettid().as_raw().cast_unsigned())
                        .unwrap();
                    let mut options = fs::OpenOptions::new();
                    options.write(true).custom_flags(flags).open(&path).unwrap();
                });
                let waiting = told.recv().unwrap();
                wait_in_open(waiting);
                assert_eq!(makes(waiting, &name), expected, "{flags:o}");
                assert!(!makes(waiting, directory_name), "it is on the way");
                assert!(!makes(waiting, "other"));
                let looks = LookingThread(waiting);
                let shows_stack = looks.shown("stack").is_some_and(|stack| !stack.is_empty());
                let made = block_on(looks.made_kind(&name));
                let is_ours = expected && !shows_stack;
                assert_eq!(
                    made,
                    is_ours.then_some(FileKind::File),
                    "root sees that a pipe is no file of ours"
                );
                File::open(&path).unwrap();
            });
        }
        assert!(!makes(0, "a"));
        // Larger than any number of a thread.
        assert!(!makes(1 << 30, "a"));
    }

    /// Until the kernel shows that the thread waits in its call, which it has begun.
    fn wait_in_open(thread: u32) {
        let path = format!("/proc/{thread}/syscall");
        let begins = format!("{} ", libc::SYS_openat);
        assert!(
            Path::new(&path).exists(),
            "this kernel shows no system calls"
        );
        let deadline =
            std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() + Duration::from_secs(10);
        while !fs::read_to_string(&path).unwrap().starts_with(&begins) {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            assert!(now < deadline, "it waits in no open");
            thread::yield_now();
        }
    }
}
