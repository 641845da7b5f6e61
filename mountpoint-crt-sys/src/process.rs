//! Process primitives that Rust calls unsafe.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Which side of a fork this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    Parent { child_pid: i32 },
    Child,
}

/// Forks. Only for a process that has one thread: fails when there are more, whose locks a child
/// could never take.
pub fn fork_child() -> io::Result<Fork> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!(
            "{threads} threads run; fork needs a process with one"
        )));
    }
    // SAFETY: no other thread exists, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        child_pid => Ok(Fork::Parent { child_pid }),
    }
}

/// Takes over a descriptor inherited from the parent process. Fails when it is not open. The caller
/// knows from the parent that it is meant for this process, and takes it once.
pub fn take_inherited_fd(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: asks about a number; any number may be asked about.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, and inherited: nothing in this process has made it, so nothing owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has the calling thread give way to others, on the processor and, where the kernel's scheduler
/// has priorities, on the disk.
pub fn give_way() {
    // SAFETY: sets a number of the calling thread, which is what process 0 means to Linux.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOW_PRIORITY) };
    // SAFETY: as above.
    unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            IO_WHO_PROCESS,
            0,
            IO_LOWEST_BEST_EFFORT,
        )
    };
}

/// A tenth of the share of other threads where all processors are busy.
const LOW_PRIORITY: i32 = 10;

/// `IOPRIO_WHO_PROCESS`.
const IO_WHO_PROCESS: i32 = 1;

/// The best-effort class, at its lowest level. The idle class could wait for ever, and what waits
/// may hold a lock.
const IO_LOWEST_BEST_EFFORT: i32 = (2 << 13) | 7;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::IntoRawFd;

    use super::{LOW_PRIORITY, fork_child, give_way, take_inherited_fd};

    #[test]
    fn a_thread_gives_way_alone() {
        let nice = || {
            let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields = line.rsplit(')').next().unwrap();
            fields.split_whitespace().nth(16).unwrap().parse().unwrap()
        };
        let before: i32 = nice();
        let there = std::thread::Builder::new().spawn(move || {
            give_way();
            nice()
        });
        assert_eq!(there.unwrap().join().unwrap(), LOW_PRIORITY);
        assert_eq!(nice(), before);
    }

    #[test]
    fn a_closed_descriptor_is_refused() {
        assert!(take_inherited_fd(-1).is_err());
        assert!(take_inherited_fd(1_000_000).is_err());
    }

    #[test]
    fn an_open_descriptor_is_taken_over() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let fd = take_inherited_fd(std::os::fd::OwnedFd::from(writer).into_raw_fd()).unwrap();
        File::from(fd).write_all(b"hello").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn a_process_with_threads_does_not_fork() {
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || receiver.recv());
            assert!(fork_child().is_err());
            drop(sender);
        });
    }
}
