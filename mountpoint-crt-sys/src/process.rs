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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::IntoRawFd;

    use super::{fork_child, take_inherited_fd};

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
