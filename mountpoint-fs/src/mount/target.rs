//! Where to mount: at a directory, or on a mount that was made for us.

use std::path::{Path, PathBuf};

use super::StartError;
use crate::fuse::{Guests, Mount, check_mount_point, inherit};

/// Where the kernel's requests come from.
#[derive(Debug)]
pub enum MountTarget {
    /// Still to be mounted on.
    Directory(PathBuf),
    /// Mounted by whoever started this process, who passed the open `/dev/fuse` as `/dev/fd/N`.
    Passed(Mount),
}

/// What the command line asks for besides the directory, and only who mounts can do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wishes {
    pub(super) auto_unmount: bool,
    pub(super) allow_root: bool,
    pub(super) allow_other: bool,
}

impl MountTarget {
    /// What `path` means. Takes over the descriptor that it may name: call this once, while the process has opened
    /// nothing of its own.
    ///
    /// # Errors
    /// With a text for the user.
    pub(super) fn resolve(path: &Path, wishes: Wishes) -> Result<Self, StartError> {
        let Some(number) = descriptor(path) else {
            return Ok(Self::Directory(path.to_owned()));
        };
        if wishes.auto_unmount {
            return Err(StartError::new(format!(
                "--auto-unmount cannot be used with /dev/fd/{number}: whoever mounted unmounts; leave the flag out"
            )));
        }
        inherit(number, Guests::new(wishes.allow_root, wishes.allow_other))
            .map(Self::Passed)
            .map_err(|error| StartError::new(error.to_string()))
    }

    /// Whether a mount can be made there, as far as looking tells. Done before the first request to S3.
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
        let refusal = |wishes| {
            MountTarget::resolve(Path::new("/dev/fd/1000000"), wishes)
                .unwrap_err()
                .to_string()
        };
        let none = Wishes::default();
        let auto_unmount = Wishes {
            auto_unmount: true,
            ..none
        };
        assert!(refusal(auto_unmount).starts_with("--auto-unmount cannot be used"));
        assert!(refusal(none).contains("descriptor 1000000 is not open"));
    }
}
