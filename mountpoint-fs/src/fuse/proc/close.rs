//! The processes that open and close a written file, as `/proc` shows them.
//!
//! Runs on a session thread: each look is answered by the kernel at once, takes no lock that a
//! waiting process holds, and does not lead back into the mount. Invisible processes, as those of
//! another PID namespace or user, count as unknown.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::short_text;
use crate::fuse::mounting::{DeviceNumber, MountInfo};
use crate::handle::{Closer, Closing, Opener, OtherDescriptors};
use crate::operation::InodeNo;

/// The thread that closes a descriptor.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse) struct ClosingThread {
    /// Its number in our PID namespace; 0 if it is invisible.
    pub(in crate::fuse) thread: u32,
    /// The device of the mount, if it is known.
    pub(in crate::fuse) device: Option<DeviceNumber>,
}

impl ClosingThread {
    /// Whether files of the mount with this number may be ours. Other mounts give the same numbers
    /// to their files.
    fn may_be_here(self, mount: Option<u32>) -> bool {
        let (Some(device), Some(mount)) = (self.device, mount) else {
            return true;
        };
        // A process may see mounts that we do not.
        let mounts = MountInfo::all().unwrap_or_default();
        let found = mounts.iter().find(|it| it.id == mount);
        found.is_none_or(|it| it.number == device)
    }
}

impl Closing for ClosingThread {
    fn closer(&self, opener: Opener) -> Closer {
        let (closer, process) = (self.thread, opener.process);
        if closer == 0 || process == 0 {
            return Closer::Opener;
        }
        let stat = ProcessStat::of(process);
        let is_alive = stat.is_some_and(|stat| stat.started == opener.started && !stat.has_ended);
        if !is_alive {
            return Closer::Heir;
        }
        let is_its =
            closer == process || Path::new(&format!("/proc/{process}/task/{closer}")).exists();
        if is_its {
            Closer::Opener
        } else {
            Closer::Child
        }
    }

    /// The closed descriptor is no longer listed. If it cannot be told which mount a descriptor is
    /// of, one with the same number and name counts as one of this file: the file is then stored
    /// when its last descriptor is closed.
    fn others(&self, ino: InodeNo, name: &str) -> OtherDescriptors {
        if self.thread == 0 {
            return OtherDescriptors::Unknown;
        }
        let process = format!("/proc/{}", self.thread);
        let descriptors = match fs::read_dir(format!("{process}/fdinfo")) {
            Ok(descriptors) => descriptors,
            // The process is gone, with all its descriptors.
            Err(error) if error.kind() == ErrorKind::NotFound => return OtherDescriptors::None,
            Err(_) => return OtherDescriptors::Unknown,
        };
        for (seen, descriptor) in descriptors.enumerate() {
            let Ok(descriptor) = descriptor else {
                return OtherDescriptors::Unknown;
            };
            if seen == DESCRIPTORS_SEEN_MAX {
                return OtherDescriptors::Unknown;
            }
            // The descriptor may have been closed meanwhile.
            let Ok(info) = fs::read_to_string(descriptor.path()) else {
                continue;
            };
            let Some(info) = DescriptorInfo::parse(&info) else {
                return OtherDescriptors::Unknown;
            };
            let number = descriptor.file_name();
            let is_named = || {
                let path = fs::read_link(Path::new(&process).join("fd").join(number));
                path.is_ok_and(|path| path.file_name().is_some_and(|it| it == name))
            };
            let is_it = info.is_writable && info.ino == ino && is_named();
            if is_it && self.may_be_here(info.mount) {
                return OtherDescriptors::Held;
            }
        }
        OtherDescriptors::None
    }
}

/// The process of `thread`, which is a number in our PID namespace; 0 if it is invisible.
pub(in crate::fuse) fn opener(thread: u32) -> Opener {
    if thread == 0 {
        return Opener::UNSEEN;
    }
    let process = if is_first_thread(thread) {
        Some(thread)
    } else {
        short_text(&format!("/proc/{thread}/status")).and_then(|text| process_of(&text))
    };
    let known = process.and_then(|process| {
        let started = ProcessStat::of(process)?.started;
        Some(Opener { process, started })
    });
    known.unwrap_or(Opener::UNSEEN)
}

/// Whether `thread` is the first of its process, whose number it has; `false` also on a kernel that
/// cannot tell. Takes less time than a look at its `status`.
fn is_first_thread(thread: u32) -> bool {
    let pid = i32::try_from(thread).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| pidfd_open(pid, PidfdFlags::empty()).is_ok())
}

/// The process in a thread's `status`.
pub(super) fn process_of(status: &str) -> Option<u32> {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("Tgid:"))?;
    value.trim().parse().ok()
}

/// The facts of a process in its `stat`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcessStat {
    /// In ticks since the boot.
    started: u64,
    /// The process has ended, and its parent has not yet asked for the exit status.
    has_ended: bool,
}

impl ProcessStat {
    /// `None` if there is no process of that number.
    fn of(process: u32) -> Option<Self> {
        // The first thread's `stat`: the process's own is summed over all of its threads.
        Self::parse(&short_text(&format!(
            "/proc/{process}/task/{process}/stat"
        ))?)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        // The name of the program may hold any text.
        let (_, values) = text.rsplit_once(')')?;
        let mut values = values.split_ascii_whitespace();
        let state = values.next()?;
        let threads: u32 = values.nth(16)?.parse().ok()?;
        let started = values.nth(1)?.parse().ok()?;
        Some(Self {
            started,
            // The first thread may end before the others.
            has_ended: matches!(state, "Z" | "X") && threads <= 1,
        })
    }
}

/// The facts of a descriptor in its `fdinfo`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DescriptorInfo {
    is_writable: bool,
    ino: InodeNo,
    /// The mount that it was opened in.
    mount: Option<u32>,
}

impl DescriptorInfo {
    /// `None` from a kernel that does not tell the inode (before Linux 5.14).
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| Some(line.strip_prefix(name)?.trim()))
        };
        let flags = i32::from_str_radix(value("flags:")?, 8).ok()?;
        let ino = value("ino:")?.parse().ok()?;
        Some(Self {
            is_writable: flags & libc::O_ACCMODE != libc::O_RDONLY,
            ino: InodeNo(ino),
            mount: value("mnt_id:").and_then(|id| id.parse().ok()),
        })
    }
}

/// Descriptors that are searched for another one of an empty file that a process closes.
///
/// The search takes about 5 ms.
const DESCRIPTORS_SEEN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::process::{Command, Stdio};

    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    use nix::unistd::Pid;

    use super::*;

    fn closing(thread: u32) -> ClosingThread {
        ClosingThread {
            thread,
            device: None,
        }
    }

    #[test]
    fn what_the_kernel_tells_is_read() {
        let info = |ino, is_writable, mount| {
            Some(DescriptorInfo {
                is_writable,
                ino: InodeNo(ino),
                mount,
            })
        };
        for (text, expected) in [
            (
                "pos:\t0\nflags:\t0100001\nmnt_id:\t29\nino:\t7\n",
                info(7, true, Some(29)),
            ),
            ("pos:\t0\nflags:\t02\nino:\t7\n", info(7, true, None)),
            ("flags:\t0100000\nino:\t8\n", info(8, false, None)),
            ("pos:\t0\nflags:\t0100001\nmnt_id:\t29\n", None),
            ("flags:\tx\nino:\t8\n", None),
            ("", None),
        ] {
            assert_eq!(DescriptorInfo::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_the_kernel_tells_of_a_process_is_read() {
        let stat = |started, has_ended| Some(ProcessStat { started, has_ended });
        for (text, expected) in [
            (
                "7 (cat) R 1 7 7 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 1 0 3036995 3133440 412",
                stat(3_036_995, false),
            ),
            (
                "7 (a) Z 1 (b) S 1 7 7 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 3 0 99 3133440",
                stat(99, false),
            ),
            (
                "7 (cat) Z 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 99 0",
                stat(99, true),
            ),
            (
                "7 (cat) Z 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 2 0 99 0",
                stat(99, false),
            ),
            ("7 (cat) R 1 7 7 0 -1 4194304 0", None),
            ("", None),
        ] {
            assert_eq!(ProcessStat::parse(text), expected, "{text:?}");
        }
        assert_eq!(process_of("Name:\tcat\nTgid:\t12\nPid:\t14\n"), Some(12));
        assert_eq!(process_of("Name:\tcat\n"), None);
    }

    /// The number of a process that has ended is another's later.
    #[test]
    fn the_opener_is_its_process_and_not_its_number() {
        let thread = || u32::try_from(nix::unistd::gettid().as_raw()).unwrap();
        let me = opener(thread());
        assert_eq!(me.process, std::process::id());
        // A thread that has ended opened it.
        let its = std::thread::scope(|scope| scope.spawn(|| opener(thread())).join());
        assert_eq!(its.unwrap(), me);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let its = opener(child.id());
        let closer = |number: u32, opener| closing(number).closer(opener);
        assert_eq!(closer(thread(), me), Closer::Opener);
        assert_eq!(closer(std::process::id(), me), Closer::Opener);
        assert_eq!(closer(child.id(), me), Closer::Child);
        assert_eq!(closer(thread(), its), Closer::Child);
        let earlier = Opener {
            started: me.started - 1,
            ..me
        };
        assert_eq!(closer(child.id(), earlier), Closer::Heir);
        assert_eq!(closer(0, me), Closer::Opener);
        assert_eq!(closer(thread(), Opener::UNSEEN), Closer::Opener);
        // It ends, and then it is asked how.
        drop(child.stdin.take());
        let number = Pid::from_raw(its.process.cast_signed());
        let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(number), ended).unwrap();
        assert_eq!(closer(thread(), its), Closer::Heir);
        child.wait().unwrap();
        assert_eq!(closer(thread(), its), Closer::Heir);
        assert_eq!(opener(0), Opener::UNSEEN);
        // Larger than any number of a process.
        assert_eq!(opener(1 << 30), Opener::UNSEEN);
    }

    #[test]
    fn other_descriptors_of_a_process_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = File::create(&path).unwrap();
        let ino = InodeNo(file.metadata().unwrap().ino());
        let me = closing(std::process::id());
        assert_eq!(me.others(ino, "file"), OtherDescriptors::Held);
        assert_eq!(me.others(ino, "another"), OtherDescriptors::None);
        // Files of other mounts have the same numbers.
        let info = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
        let info = DescriptorInfo::parse(&fs::read_to_string(info).unwrap()).unwrap();
        let mounts = MountInfo::all().unwrap();
        let here = mounts.iter().find(|it| Some(it.id) == info.mount).unwrap();
        let DeviceNumber { major, minor } = here.number;
        for (minor, expected) in [
            (minor, OtherDescriptors::Held),
            (minor + 1, OtherDescriptors::None),
        ] {
            let device = Some(DeviceNumber { major, minor });
            let me = ClosingThread { device, ..me };
            assert_eq!(me.others(ino, "file"), expected);
        }
        drop(file);
        let reader = File::open(&path).unwrap();
        assert_eq!(me.others(ino, "file"), OtherDescriptors::None);
        drop(reader);
        assert_eq!(closing(0).others(ino, "file"), OtherDescriptors::Unknown);
        // Larger than any number of a process.
        assert_eq!(closing(1 << 30).others(ino, "file"), OtherDescriptors::None);
    }
}
