//! The host that wrote a journal, and whether its lock can be trusted here.
//!
//! A free lock proves that the process has ended only where this host sees all locks of the file.
//! Shared file systems may keep locks on each host alone (NFS with `nolock`, Lustre with
//! `localflock`), so a journal of another host is never judged by its lock.
//!
//! Within one boot the kernel sees the locks of all processes, in whatever container they run: a
//! container's host name may change, the boot id does not. A journal of an earlier boot has no
//! process. Such a journal is this host's if machine id and host name are both equal: machines made
//! from one image may share the first, containers on several machines the second.

use std::fs::{self, File};
use std::path::Path;

use nix::sys::statfs::{self, FsType, fstatfs};
use serde::{Deserialize, Serialize};

/// A host and its current boot.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Origin {
    /// The host's name.
    pub(super) host: String,
    /// `/etc/machine-id`; `None` in many containers.
    pub(super) machine: Option<String>,
    /// The kernel's boot id.
    pub(super) boot: Option<String>,
}

impl Origin {
    /// The origin of this process.
    pub(super) fn here() -> Self {
        let host = text("/proc/sys/kernel/hostname").unwrap_or_default();
        let is_number = |id: &String| id.len() == 32 && id.bytes().any(|byte| byte != b'0');
        Self {
            host,
            machine: text("/etc/machine-id").filter(is_number),
            boot: text("/proc/sys/kernel/random/boot_id"),
        }
    }

    /// Whether `other` is this boot of this host.
    pub(super) fn is_same_boot(&self, other: &Self) -> bool {
        self.boot.is_some() && self.boot == other.boot
    }

    /// Whether `other` is this host, in this boot or another one.
    pub(super) fn is_same_host(&self, other: &Self) -> bool {
        let is_same_machine = self.machine.is_some() && self.machine == other.machine;
        self.is_same_boot(other) || (is_same_machine && self.host == other.host)
    }

    /// The host's name as a part of a file's name.
    pub(super) fn file_name(&self) -> String {
        let is_plain = |it: &char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.');
        self.host
            .chars()
            .filter(is_plain)
            .take(HOST_NAME_MAX)
            .collect()
    }
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whether the type of `file`'s file system excludes mounts by other hosts.
pub(super) fn is_local(file: &File) -> bool {
    fstatfs(file).is_ok_and(|status| LOCAL.contains(&status.filesystem_type()))
}

/// File systems that only one host mounts.
const LOCAL: [FsType; 7] = [
    statfs::EXT4_SUPER_MAGIC,
    statfs::XFS_SUPER_MAGIC,
    statfs::BTRFS_SUPER_MAGIC,
    statfs::TMPFS_MAGIC,
    statfs::OVERLAYFS_SUPER_MAGIC,
    statfs::F2FS_SUPER_MAGIC,
    ZFS_SUPER_MAGIC,
];
/// The magic number of OpenZFS.
const ZFS_SUPER_MAGIC: FsType = FsType(0x2fc1_2fc1);
/// Linux's limit of a host's name.
const HOST_NAME_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(host: &str, machine: &str, boot: &str) -> Origin {
        let id = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Origin {
            host: host.to_owned(),
            machine: id(machine),
            boot: id(boot),
        }
    }

    #[test]
    fn hosts() {
        let here = origin("a", "m", "1");
        for (case, other, expected) in [
            ("itself", here.clone(), true),
            ("an earlier boot", origin("a", "m", "0"), true),
            ("a boot without a number", origin("a", "m", ""), true),
            ("a container that was made anew", origin("b", "", "1"), true),
            ("a machine of the same image", origin("b", "m", "2"), false),
            (
                "a container of that name elsewhere",
                origin("a", "", "2"),
                false,
            ),
            ("another machine", origin("a", "n", "2"), false),
            ("nothing that is known", origin("a", "", ""), false),
        ] {
            assert_eq!(here.is_same_host(&other), expected, "{case}");
            assert_eq!(other.is_same_host(&here), expected, "{case}");
        }
        let unknown = origin("a", "", "");
        assert!(!unknown.is_same_host(&unknown));
    }

    #[test]
    fn here_is_here() {
        let here = Origin::here();
        assert!(here.boot.is_some() && here.is_same_host(&Origin::here()));
        assert_eq!(origin("no/de 1.x", "", "").file_name(), "node1.x");
    }
}
