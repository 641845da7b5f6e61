//! The process that closes a file, as `/proc` shows it.
//!
//! Runs on a session thread: it reads what the kernel has at hand, and nothing that leads back into the mount. What cannot
//! be seen, as processes in another PID namespace or of another user, is said to be unknown.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::config::limits::DESCRIPTORS_SEEN_MAX;
use crate::handle::{Closer, Closing, Others};
use crate::operation::InodeNo;

/// The thread that closes a descriptor, by its number in our PID namespace; 0 if it is out of sight.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosingThread(pub(super) u32);

impl Closing for ClosingThread {
    fn closer(&self, opener: u32) -> Closer {
        let closer = self.0;
        if opener == closer || opener == 0 || closer == 0 {
            return Closer::Opener;
        }
        let exists = |path: String| Path::new(&path).exists();
        if exists(format!("/proc/{closer}/task/{opener}")) {
            Closer::Opener
        } else if exists(format!("/proc/{opener}")) {
            Closer::Child
        } else {
            Closer::Heir
        }
    }

    /// The descriptor that is closed is not among them any more. One of another mount's file with the same number and
    /// name is taken for one of this file: the file is then stored when its last descriptor is closed.
    fn others(&self, ino: InodeNo, name: &str) -> Others {
        if self.0 == 0 {
            return Others::Unknown;
        }
        let process = format!("/proc/{}", self.0);
        let descriptors = match fs::read_dir(format!("{process}/fdinfo")) {
            Ok(descriptors) => descriptors,
            // It is gone, with all it had.
            Err(error) if error.kind() == ErrorKind::NotFound => return Others::None,
            Err(_) => return Others::Unknown,
        };
        for (seen, descriptor) in descriptors.enumerate() {
            let Ok(descriptor) = descriptor else {
                return Others::Unknown;
            };
            if seen == DESCRIPTORS_SEEN_MAX {
                return Others::Unknown;
            }
            // It may have been closed meanwhile.
            let Ok(info) = fs::read_to_string(descriptor.path()) else {
                continue;
            };
            let Some(info) = Info::parse(&info) else {
                return Others::Unknown;
            };
            let number = descriptor.file_name();
            let is_named = || {
                let path = fs::read_link(Path::new(&process).join("fd").join(number));
                path.is_ok_and(|path| path.file_name().is_some_and(|it| it == name))
            };
            if info.is_writable && info.ino == ino && is_named() {
                return Others::Held;
            }
        }
        Others::None
    }
}

/// What the kernel tells of a descriptor.
#[derive(Debug, PartialEq, Eq)]
struct Info {
    is_writable: bool,
    ino: InodeNo,
}

impl Info {
    /// `None` from a kernel that does not tell the inode (before Linux 5.14).
    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| Some(line.strip_prefix(name)?.trim()))
        };
        let flags = i32::from_str_radix(value("flags:")?, 8).ok()?;
        let ino = value("ino:")?.parse().ok()?;
        Some(Self {
            is_writable: flags & libc::O_ACCMODE != libc::O_RDONLY,
            ino: InodeNo(ino),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn what_the_kernel_tells_is_read() {
        let info = |ino, is_writable| {
            Some(Info {
                is_writable,
                ino: InodeNo(ino),
            })
        };
        for (text, expected) in [
            (
                "pos:\t0\nflags:\t0100001\nmnt_id:\t29\nino:\t7\n",
                info(7, true),
            ),
            ("pos:\t0\nflags:\t02\nino:\t7\n", info(7, true)),
            ("flags:\t0100000\nino:\t8\n", info(8, false)),
            ("pos:\t0\nflags:\t0100001\nmnt_id:\t29\n", None),
            ("flags:\tx\nino:\t8\n", None),
            ("", None),
        ] {
            assert_eq!(Info::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn other_descriptors_of_a_process_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = File::create(&path).unwrap();
        let ino = InodeNo(file.metadata().unwrap().ino());
        let me = ClosingThread(std::process::id());
        assert_eq!(me.others(ino, "file"), Others::Held);
        assert_eq!(me.others(ino, "another"), Others::None);
        drop(file);
        let reader = File::open(&path).unwrap();
        assert_eq!(me.others(ino, "file"), Others::None);
        drop(reader);
        assert_eq!(ClosingThread(0).others(ino, "file"), Others::Unknown);
        // Larger than any number of a process.
        assert_eq!(ClosingThread(1 << 30).others(ino, "file"), Others::None);
    }
}
