//! The mount's target: a directory, or an existing mount that was passed to this process.

use std::path::{Path, PathBuf};

use super::StartError;
use crate::fuse::{Mount, OtherUsers, check_mount_point, inherit};

/// The source of the kernel's requests.
#[derive(Debug)]
pub enum MountTarget {
    /// A directory that is to be mounted on.
    Directory(PathBuf),
    /// A mount by the parent process, which passed the open `/dev/fuse` as `/dev/fd/N`.
    Passed(Mount),
}

/// Options of the command line that only the mounting process can fulfil.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MountingFlags {
    pub(super) auto_unmount: bool,
    pub(super) allow_root: bool,
    pub(super) allow_other: bool,
}

impl MountTarget {
    /// The meaning of `path`. Takes over a descriptor that it names.
    ///
    /// Call this once, while the process has opened no file of its own.
    ///
    /// # Errors
    /// With a text for the user.
    pub(super) fn resolve(path: &Path, flags: MountingFlags) -> Result<Self, StartError> {
        let Some(number) = descriptor(path) else {
            return Ok(Self::Directory(path.to_owned()));
        };
        if flags.auto_unmount {
            return Err(StartError::new(format!(
                "--auto-unmount cannot be used with /dev/fd/{number}: the process that mounted must unmount; leave the flag out"
            )));
        }
        inherit(number, OtherUsers::new(flags.allow_root, flags.allow_other))
            .map(Self::Passed)
            .map_err(|error| StartError::new(error.to_string()))
    }

    /// Whether a mount is possible there, as far as can be checked. Runs before the first request
    /// to S3.
    pub(super) fn check(&self) -> Result<(), StartError> {
        match self {
            Self::Directory(directory) => check_mount_point(directory)
                .map(drop)
                .map_err(|error| StartError::new(error.to_string())),
            Self::Passed(_) => Ok(()),
        }
    }
}

/// N of `/dev/fd/N`.
fn descriptor(path: &Path) -> Option<i32> {
    let number = path.to_str()?.strip_prefix("/dev/fd/")?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors() {
        for (path, expected) in [
            ("/dev/fd/3", Some(3)),
            ("/dev/fd/1023", Some(1023)),
            ("/dev/fd/", None),
            ("/dev/fd/x", None),
            ("/dev/fd/-1", None),
            ("/dev/fd/+1", None),
            ("/dev/fd/3/", None),
            ("/dev/fd/99999999999", None),
            ("dev/fd/3", None),
            ("/mnt/dev/fd/3", None),
        ] {
            assert_eq!(descriptor(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn what_only_who_mounts_can_do_is_refused() {
        let refusal = |flags| {
            MountTarget::resolve(Path::new("/dev/fd/1000000"), flags)
                .unwrap_err()
                .to_string()
        };
        let none = MountingFlags::default();
        let auto_unmount = MountingFlags {
            auto_unmount: true,
            ..none
        };
        assert!(refusal(auto_unmount).starts_with("--auto-unmount cannot be used"));
        assert!(refusal(none).contains("descriptor 1000000 is not open"));
    }
}
