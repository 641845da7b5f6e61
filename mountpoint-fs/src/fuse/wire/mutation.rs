//! Requests that change names and attributes: bytes from the kernel into values.

use std::ffi::OsStr;

use super::abi::opcode;
use super::fields::{Content, Fields};
use crate::operation::{AttributeChange, HandleNo, RenameMode, TimeChange};

/// A change that the kernel asks for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::fuse) enum Mutation<'a> {
    Unlink {
        name: &'a OsStr,
    },
    RemoveDirectory {
        name: &'a OsStr,
    },
    MakeDirectory {
        name: &'a OsStr,
        mode: u32,
    },
    Rename {
        name: &'a OsStr,
        new_directory: u64,
        new_name: &'a OsStr,
        /// `None` for what S3 has no meaning for: `RENAME_EXCHANGE`, `RENAME_WHITEOUT`.
        mode: Option<RenameMode>,
    },
    SetAttributes(AttributeChange),
    SymbolicLink {
        name: &'a OsStr,
        target: &'a OsStr,
    },
    HardLink {
        /// The file that gets another name.
        file: u64,
        name: &'a OsStr,
    },
    Allocate(AllocateRequest),
    CopyRange(CopyRangeRequest),
    SetExtendedAttribute {
        name: &'a OsStr,
        value: Content<'a>,
        flags: u32,
    },
    RemoveExtendedAttribute {
        name: &'a OsStr,
    },
}

/// `fuse_fallocate_in`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct AllocateRequest {
    pub(in crate::fuse) handle: u64,
    /// The range, not empty.
    pub(in crate::fuse) start: u64,
    pub(in crate::fuse) end: u64,
    pub(in crate::fuse) mode: u32,
}

/// `fuse_copy_file_range_in`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct CopyRangeRequest {
    pub(in crate::fuse) handle: u64,
    pub(in crate::fuse) offset: u64,
    pub(in crate::fuse) to_node: u64,
    pub(in crate::fuse) to_handle: u64,
    pub(in crate::fuse) to_offset: u64,
    pub(in crate::fuse) len: u64,
    /// Whether the reply counts in 64 bits.
    pub(in crate::fuse) is_wide: bool,
}

impl AllocateRequest {
    fn parse(fields: &mut Fields<'_>) -> Option<Self> {
        let handle = fields.u64()?;
        let start = fields.u64()?;
        let end = start.checked_add(fields.u64()?)?;
        let mode = fields.u32()?;
        Some(Self {
            handle,
            start,
            end,
            mode,
        })
    }
}

impl CopyRangeRequest {
    fn parse(fields: &mut Fields<'_>, is_wide: bool) -> Option<Self> {
        Some(Self {
            handle: fields.u64()?,
            offset: fields.u64()?,
            to_node: fields.u64()?,
            to_handle: fields.u64()?,
            to_offset: fields.u64()?,
            len: fields.u64()?,
            is_wide,
        })
    }
}

impl<'a> Mutation<'a> {
    /// Whether requests with this code are parsed here.
    pub(super) fn is_mutation(code: u32) -> bool {
        matches!(
            code,
            opcode::UNLINK
                | opcode::RMDIR
                | opcode::MKDIR
                | opcode::RENAME
                | opcode::RENAME2
                | opcode::SETATTR
                | opcode::SYMLINK
                | opcode::LINK
                | opcode::FALLOCATE
                | opcode::COPY_FILE_RANGE
                | opcode::COPY_FILE_RANGE_64
                | opcode::SETXATTR
                | opcode::REMOVEXATTR
        )
    }

    /// The rest of a request with this code. `None` if it is malformed.
    pub(super) fn parse(code: u32, fields: &mut Fields<'a>) -> Option<Self> {
        Some(match code {
            opcode::UNLINK => Self::Unlink {
                name: fields.name()?,
            },
            opcode::RMDIR => Self::RemoveDirectory {
                name: fields.name()?,
            },
            opcode::MKDIR => {
                let (mode, _umask) = (fields.u32()?, fields.u32()?);
                let name = fields.name()?;
                Self::MakeDirectory { name, mode }
            }
            opcode::RENAME => Self::rename(fields.u64()?, 0, fields)?,
            opcode::RENAME2 => {
                let (new_directory, flags) = (fields.u64()?, fields.u32()?);
                let _padding = fields.u32()?;
                Self::rename(new_directory, flags, fields)?
            }
            opcode::SETATTR => Self::SetAttributes(attribute_change(fields)?),
            opcode::SYMLINK => {
                let (name, target) = (fields.name()?, fields.name()?);
                Self::SymbolicLink { name, target }
            }
            opcode::LINK => {
                let file = fields.u64()?;
                let name = fields.name()?;
                Self::HardLink { file, name }
            }
            opcode::FALLOCATE => Self::Allocate(AllocateRequest::parse(fields)?),
            opcode::COPY_FILE_RANGE => Self::CopyRange(CopyRangeRequest::parse(fields, false)?),
            opcode::COPY_FILE_RANGE_64 => Self::CopyRange(CopyRangeRequest::parse(fields, true)?),
            opcode::SETXATTR => {
                let (size, flags) = (fields.u32()?, fields.u32()?);
                let name = fields.name()?;
                let value = Content(fields.bytes(usize::try_from(size).ok()?)?);
                Self::SetExtendedAttribute { name, value, flags }
            }
            opcode::REMOVEXATTR => Self::RemoveExtendedAttribute {
                name: fields.name()?,
            },
            _ => return None,
        })
    }

    fn rename(new_directory: u64, flags: u32, fields: &mut Fields<'a>) -> Option<Self> {
        let (name, new_name) = (fields.name()?, fields.name()?);
        let mode = match flags {
            0 => Some(RenameMode::Replace),
            RENAME_NOREPLACE => Some(RenameMode::KeepExisting),
            _ => None,
        };
        Some(Self::Rename {
            name,
            new_directory,
            new_name,
            mode,
        })
    }
}

/// `fuse_setattr_in`.
fn attribute_change(fields: &mut Fields<'_>) -> Option<AttributeChange> {
    let (valid, _padding) = (fields.u32()?, fields.u32()?);
    let (handle, size, _lock_owner) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (atime, mtime, _ctime) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (atime_ns, mtime_ns, _ctime_ns) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (mode, _unused) = (fields.u32()?, fields.u32()?);
    let (uid, gid, _unused) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let is_set = |bit: u32| valid & bit != 0;
    let time = |bit, now_bit, seconds: u64, nanos| {
        is_set(bit).then(|| {
            if is_set(now_bit) {
                TimeChange::Now
            } else {
                TimeChange::At {
                    seconds: seconds.cast_signed(),
                    nanos,
                }
            }
        })
    };
    Some(AttributeChange {
        // The permission bits alone: the kernel sends the kind with them, which cannot change.
        mode: is_set(FATTR_MODE).then_some(u16::try_from(mode & 0o7777).unwrap_or_default()),
        uid: is_set(FATTR_UID).then_some(uid),
        gid: is_set(FATTR_GID).then_some(gid),
        size: is_set(FATTR_SIZE).then_some(size),
        atime: time(FATTR_ATIME, FATTR_ATIME_NOW, atime, atime_ns),
        mtime: time(FATTR_MTIME, FATTR_MTIME_NOW, mtime, mtime_ns),
        handle: is_set(FATTR_FH).then_some(HandleNo(handle)),
        drops_set_id: is_set(FATTR_KILL_SUIDGID),
    })
}

const RENAME_NOREPLACE: u32 = 1;

const FATTR_MODE: u32 = 1 << 0;
const FATTR_UID: u32 = 1 << 1;
const FATTR_GID: u32 = 1 << 2;
const FATTR_SIZE: u32 = 1 << 3;
const FATTR_ATIME: u32 = 1 << 4;
const FATTR_MTIME: u32 = 1 << 5;
const FATTR_FH: u32 = 1 << 6;
const FATTR_ATIME_NOW: u32 = 1 << 7;
const FATTR_MTIME_NOW: u32 = 1 << 8;
const FATTR_KILL_SUIDGID: u32 = 1 << 11;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(long: &[u64], short: &[u32], rest: &[u8]) -> Vec<u8> {
        let long = long.iter().flat_map(|word| word.to_ne_bytes());
        let short = short.iter().flat_map(|word| word.to_ne_bytes());
        long.chain(short).chain(rest.iter().copied()).collect()
    }

    #[track_caller]
    fn check(code: u32, body: &[u8], expected: Option<&Mutation<'_>>) {
        assert!(Mutation::is_mutation(code));
        assert_eq!(
            Mutation::parse(code, &mut Fields(body)).as_ref(),
            expected,
            "{code}"
        );
    }

    #[test]
    fn names() {
        let (name, target) = (OsStr::new("a"), OsStr::new("../b c"));
        check(10, b"a\0", Some(&Mutation::Unlink { name }));
        check(11, b"a\0", Some(&Mutation::RemoveDirectory { name }));
        let make = Mutation::MakeDirectory { name, mode: 0o755 };
        check(9, &words(&[], &[0o755, 0o22], b"a\0"), Some(&make));
        check(
            6,
            b"a\0../b c\0",
            Some(&Mutation::SymbolicLink { name, target }),
        );
        let link = Mutation::HardLink { file: 7, name };
        check(13, &words(&[7], &[], b"a\0"), Some(&link));
        let allocate = AllocateRequest {
            handle: 1,
            start: 7,
            end: 16,
            mode: 3,
        };
        check(
            43,
            &words(&[1, 7, 9], &[3, 0], b""),
            Some(&Mutation::Allocate(allocate)),
        );
        check(43, &words(&[1, u64::MAX, 9], &[0, 0], b""), None);
        check(
            24,
            b"a\0",
            Some(&Mutation::RemoveExtendedAttribute { name }),
        );
        for (code, body) in [
            (10, &b"a"[..]),
            (11, b"\0"),
            (6, b"a\0"),
            (9, b"a\0"),
            (24, b""),
        ] {
            check(code, body, None);
        }
    }

    #[test]
    fn renames() {
        let rename = |mode| Mutation::Rename {
            name: OsStr::new("a"),
            new_directory: 7,
            new_name: OsStr::new("b"),
            mode,
        };
        let names = b"a\0b\0";
        check(
            12,
            &words(&[7], &[], names),
            Some(&rename(Some(RenameMode::Replace))),
        );
        for (flags, mode) in [
            (0, Some(RenameMode::Replace)),
            (1, Some(RenameMode::KeepExisting)),
            (2, None),
            (4, None),
            (5, None),
        ] {
            check(45, &words(&[7], &[flags, 0], names), Some(&rename(mode)));
        }
        check(45, &words(&[7], &[0, 0], b"a\0b"), None);
        check(12, b"", None);
    }

    #[test]
    fn attributes() {
        let body = |valid: u32| {
            let mut body = words(&[], &[valid, 0], b"");
            body.extend(words(&[3, 4096, 5, 100, u64::MAX, 300], &[1, 2, 3], b""));
            body.extend(words(&[], &[0o100_640, 0, 10, 20, 0], b""));
            body
        };
        let changes = |valid, expected| {
            check(4, &body(valid), Some(&Mutation::SetAttributes(expected)));
        };
        let none = AttributeChange::default();
        changes(0, none);
        let mode = Some(0o640);
        changes(1, AttributeChange { mode, ..none });
        let (uid, gid) = (Some(10), Some(20));
        changes(6, AttributeChange { uid, gid, ..none });
        let size = Some(4096);
        changes(8, AttributeChange { size, ..none });
        let handle = Some(HandleNo(3));
        changes(
            8 | 64,
            AttributeChange {
                size,
                handle,
                ..none
            },
        );
        let at = |seconds, nanos| Some(TimeChange::At { seconds, nanos });
        let (atime, mtime) = (at(100, 1), at(-1, 2));
        changes(
            16 | 32,
            AttributeChange {
                atime,
                mtime,
                ..none
            },
        );
        let now = Some(TimeChange::Now);
        changes(32 | 256, AttributeChange { mtime: now, ..none });
        let drops_set_id = true;
        changes(
            8 | 2048,
            AttributeChange {
                size,
                drops_set_id,
                ..none
            },
        );
        check(4, &body(0)[..80], None);
    }

    #[test]
    fn values_and_ranges() {
        let set = Mutation::SetExtendedAttribute {
            name: OsStr::new("user.a"),
            value: Content(b"va\0ue"),
            flags: 1,
        };
        check(21, &words(&[], &[5, 1], b"user.a\0va\0ue"), Some(&set));
        check(21, &words(&[], &[6, 1], b"user.a\0va\0ue"), None);
        let range = CopyRangeRequest {
            handle: 1,
            offset: 2,
            to_node: 3,
            to_handle: 4,
            to_offset: 5,
            len: 6,
            is_wide: false,
        };
        let body = words(&[1, 2, 3, 4, 5, 6, 0], &[], b"");
        check(47, &body, Some(&Mutation::CopyRange(range)));
        let wide = CopyRangeRequest {
            is_wide: true,
            ..range
        };
        check(53, &body, Some(&Mutation::CopyRange(wide)));
        check(53, &body[..40], None);
    }
}
