//! The mounts of this process, as `/proc/self/mountinfo` lists them.
//!
//! A look there never touches the mounted file systems. Ours may not serve yet, or be dead.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::str;

/// `st_dev` of a mount's files, and the name of its directory under `/sys/class/bdi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct DeviceNumber {
    pub(in crate::fuse) major: u32,
    pub(in crate::fuse) minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl DeviceNumber {
    /// The number of the mount that `device` serves, an open `/dev/fuse`. Before Linux 6.17 the
    /// kernel does not tell.
    pub(in crate::fuse) fn of_connection(device: &impl AsFd) -> Option<Self> {
        let number = device.as_fd().as_raw_fd();
        let told = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
        let minor = told
            .lines()
            .find_map(|line| line.strip_prefix("fuse_connection:"))?;
        // File systems without a block device have this major number.
        let minor = minor.trim().parse().ok()?;
        Some(Self { major: 0, minor })
    }
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct MountInfo {
    /// The number of this mount, as long as it lasts.
    pub(in crate::fuse) id: u32,
    pub(in crate::fuse) number: DeviceNumber,
    pub(in crate::fuse) directory: PathBuf,
    /// `ext4`, `fuse`, `autofs`, …
    pub(in crate::fuse) kind: String,
    /// The mounted device, or the name that a FUSE file system gave itself.
    pub(in crate::fuse) source: String,
    /// The options of the file system, between commas.
    pub(in crate::fuse) options: String,
}

impl MountInfo {
    /// The topmost mount on `directory`, which is absolute.
    pub(in crate::fuse) fn at(directory: &Path) -> io::Result<Option<Self>> {
        let mounts = Self::all()?.into_iter();
        Ok(mounts.rev().find(|mount| mount.directory == directory))
    }

    /// All mounts, in the order of the table: a later mount on the same directory lies on top.
    pub(in crate::fuse) fn all() -> io::Result<Vec<Self>> {
        let table = fs::read("/proc/self/mountinfo")?;
        let lines = table.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(Self::parse).collect())
    }

    /// Parses one line; `None` for any other text.
    pub(in crate::fuse) fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let number = str::from_utf8(fields.nth(1)?).ok()?;
        let (major, minor) = number.split_once(':')?;
        let number = DeviceNumber {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        };
        let directory = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
        // Optional fields end with a dash.
        fields.find(|field| *field == b"-")?;
        let kind = text(fields.next()?);
        let source = text(fields.next()?);
        let options = text(fields.next().unwrap_or_default());
        Some(Self {
            id,
            number,
            directory,
            kind,
            source,
            options,
        })
    }
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

/// Blanks, tabs, newlines and backslashes are written as `\` and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let mount = |line: &str| MountInfo::parse(line.as_bytes());
        let expected = MountInfo {
            id: 36,
            number: DeviceNumber {
                major: 0,
                minor: 51,
            },
            directory: PathBuf::from("/mnt/a b"),
            kind: "fuse.x".to_owned(),
            source: "mountpoint-s3".to_owned(),
            options: "rw,user_id=0".to_owned(),
        };
        let line = r"36 35 0:51 / /mnt/a\040b rw,noatime shared:1 master:2 - fuse.x mountpoint-s3 rw,user_id=0";
        assert_eq!(mount(line), Some(expected.clone()));
        let line = r"36 35 0:51 / /mnt/a\040b rw,noatime - fuse.x mountpoint-s3 rw,user_id=0";
        assert_eq!(mount(line), Some(expected));
        for line in [
            "",
            "36 35",
            "36 35 x / /mnt rw - fuse a rw",
            "36 35 0:1 / /mnt rw",
        ] {
            assert_eq!(mount(line), None, "{line}");
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape(br"a\011b\134\0x\"), b"a\tb\\\\0x\\");
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(MountInfo::at(Path::new("/")).unwrap().is_some());
        assert_eq!(MountInfo::at(Path::new("/no/such/mount")).unwrap(), None);
    }
}
