//! Requests: bytes from the kernel into values.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::abi::{READ_LOCKOWNER, init_flags, opcode};

/// What every request begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct Header {
    /// Opcode as the kernel sent it.
    pub(in crate::fuse) opcode: u32,
    /// The request's number, unique for the life of the connection. The reply carries it.
    pub(in crate::fuse) unique: u64,
    /// Inode number, where the request has one.
    pub(in crate::fuse) node: u64,
    /// Who asks. 0 where the kernel asks for itself.
    pub(in crate::fuse) uid: u32,
    /// The thread that asks, as this process numbers it. 0 if it cannot, and where the kernel asks for itself.
    pub(in crate::fuse) pid: u32,
}

impl Header {
    /// Whether somebody waits for an answer.
    pub(in crate::fuse) fn wants_reply(&self) -> bool {
        !matches!(
            self.opcode,
            opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT | opcode::NOTIFY_REPLY
        )
    }
}

/// A request, borrowed from the receive buffer.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::fuse) struct Request<'a> {
    /// Whose, and which.
    pub(in crate::fuse) header: Header,
    /// What is asked.
    pub(in crate::fuse) operation: Operation<'a>,
}

/// What the kernel asks.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::fuse) enum Operation<'a> {
    /// First message of a connection.
    Init(InitRequest),
    /// Last message of some connections.
    Destroy,
    /// The application that waits for request `unique` got a signal.
    Interrupt {
        unique: u64,
    },
    Lookup {
        name: &'a OsStr,
    },
    /// Give back `count` lookups. Has no reply.
    Forget {
        count: u64,
    },
    /// `(inode number, count)` pairs. Has no reply.
    BatchForget(Forgets<'a>),
    GetAttributes,
    Open {
        flags: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
        /// The kernel asks for pages, not an application for bytes.
        fills_cache: bool,
    },
    /// Makes a file and opens it.
    Create {
        name: &'a OsStr,
        flags: u32,
    },
    /// Makes a file, a pipe, a socket or a device.
    MakeNode {
        name: &'a OsStr,
        mode: u32,
    },
    Write {
        handle: u64,
        offset: u64,
        data: &'a [u8],
    },
    /// `close` of one descriptor.
    Flush {
        handle: u64,
    },
    /// `fsync` or `fdatasync`.
    Sync {
        handle: u64,
    },
    /// Nothing to do for a directory.
    SyncDirectory,
    Release {
        handle: u64,
    },
    OpenDirectory,
    ReadDirectory {
        handle: u64,
        offset: u64,
        size: u32,
        plus: bool,
    },
    ReleaseDirectory {
        handle: u64,
    },
    StatFs,
    /// The value, or how long it is if `size` is 0.
    ExtendedAttribute {
        name: &'a OsStr,
        size: u32,
    },
    /// The names, or how long they are together if `size` is 0.
    ExtendedAttributes {
        size: u32,
    },
    /// Changes the file system.
    Modify(Modification),
    /// Does not exist here.
    Unsupported(Unsupported),
}

/// Operations that would change a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) enum Modification {
    SetAttributes,
    SymbolicLink,
    HardLink,
    MakeDirectory,
    Unlink,
    RemoveDirectory,
    Rename,
    /// With flags that S3 has no meaning for, such as `RENAME_EXCHANGE`.
    RenameSpecial,
    Allocate,
    SetExtendedAttribute,
    RemoveExtendedAttribute,
}

/// Operations that do not exist here, by what the application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) enum Unsupported {
    /// No inode is a symbolic link.
    ReadLink,
    /// No inode is a device.
    Ioctl,
    /// The kernel remembers and answers for itself from now on.
    Other,
    /// Answer to a notification that was never sent. Has no reply.
    NotifyReply,
}

/// Body of INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct InitRequest {
    pub(in crate::fuse) major: u32,
    pub(in crate::fuse) minor: u32,
    pub(in crate::fuse) readahead_max: u32,
    /// `flags` and, above bit 32, `flags2`.
    pub(in crate::fuse) flags: u64,
}

/// A message that is not what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct Malformed {
    /// Present when at least the header could be read: somebody waits for a reply.
    pub(in crate::fuse) header: Option<Header>,
}

impl<'a> Request<'a> {
    /// Parses one message.
    pub(in crate::fuse) fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (len, header) = fields.header().ok_or(Malformed { header: None })?;
        let malformed = Malformed {
            header: Some(header),
        };
        if usize::try_from(len) != Ok(message.len()) {
            return Err(malformed);
        }
        let operation = Operation::parse(header.opcode, &mut fields).ok_or(malformed)?;
        Ok(Self { header, operation })
    }
}

impl<'a> Operation<'a> {
    fn parse(code: u32, fields: &mut Fields<'a>) -> Option<Self> {
        Some(match code {
            opcode::INIT => Self::Init(InitRequest::parse(fields)?),
            opcode::DESTROY => Self::Destroy,
            opcode::INTERRUPT => Self::Interrupt {
                unique: fields.u64()?,
            },
            opcode::LOOKUP => Self::Lookup {
                name: fields.name()?,
            },
            opcode::FORGET => Self::Forget {
                count: fields.u64()?,
            },
            opcode::BATCH_FORGET => Self::BatchForget(Forgets::parse(fields)?),
            opcode::GETATTR => Self::GetAttributes,
            opcode::OPEN => Self::Open {
                flags: fields.u32()?,
            },
            opcode::READ => {
                let (handle, offset, size) = fields.handle_offset_size()?;
                // Only reads that bypass the page cache name the owner of a lock.
                let fills_cache = fields.u32()? & READ_LOCKOWNER == 0;
                Self::Read {
                    handle,
                    offset,
                    size,
                    fills_cache,
                }
            }
            opcode::CREATE | opcode::MKNOD | opcode::WRITE => Self::parse_writing(code, fields)?,
            opcode::FLUSH => Self::Flush {
                handle: fields.u64()?,
            },
            opcode::FSYNC => Self::Sync {
                handle: fields.u64()?,
            },
            opcode::FSYNCDIR => Self::SyncDirectory,
            opcode::RELEASE => Self::Release {
                handle: fields.u64()?,
            },
            opcode::OPENDIR => Self::OpenDirectory,
            opcode::READDIR | opcode::READDIRPLUS => {
                let (handle, offset, size) = fields.handle_offset_size()?;
                Self::ReadDirectory {
                    handle,
                    offset,
                    size,
                    plus: code == opcode::READDIRPLUS,
                }
            }
            opcode::RELEASEDIR => Self::ReleaseDirectory {
                handle: fields.u64()?,
            },
            opcode::STATFS => Self::StatFs,
            opcode::GETXATTR => {
                let (size, _padding) = (fields.u32()?, fields.u32()?);
                let name = fields.name()?;
                Self::ExtendedAttribute { name, size }
            }
            opcode::LISTXATTR => Self::ExtendedAttributes {
                size: fields.u32()?,
            },
            opcode::READLINK => Self::Unsupported(Unsupported::ReadLink),
            opcode::IOCTL => Self::Unsupported(Unsupported::Ioctl),
            opcode::NOTIFY_REPLY => Self::Unsupported(Unsupported::NotifyReply),
            code => match Modification::parse(code, fields) {
                Some(modification) => Self::Modify(modification),
                // Locks, poll, bmap, lseek, copy_file_range, access, and whatever comes later.
                None => Self::Unsupported(Unsupported::Other),
            },
        })
    }
}

impl<'a> Operation<'a> {
    /// Operations of files that are written.
    fn parse_writing(code: u32, fields: &mut Fields<'a>) -> Option<Self> {
        Some(match code {
            opcode::CREATE => {
                let flags = fields.u32()?;
                // mode, umask and flags of later protocols: the mount's own modes hold.
                fields.take::<12>()?;
                Self::Create {
                    name: fields.name()?,
                    flags,
                }
            }
            opcode::MKNOD => {
                let mode = fields.u32()?;
                fields.take::<12>()?;
                Self::MakeNode {
                    name: fields.name()?,
                    mode,
                }
            }
            opcode::WRITE => {
                let (handle, offset, size) = fields.handle_offset_size()?;
                // Flags, lock owner, open flags and padding.
                fields.take::<20>()?;
                let size = usize::try_from(size).ok()?;
                Self::Write {
                    handle,
                    offset,
                    data: fields.0.get(..size)?,
                }
            }
            _ => return None,
        })
    }
}

impl Modification {
    fn parse(code: u32, fields: &mut Fields<'_>) -> Option<Self> {
        Some(match code {
            opcode::SETATTR => Self::SetAttributes,
            opcode::SYMLINK => Self::SymbolicLink,
            opcode::LINK => Self::HardLink,
            opcode::MKDIR => Self::MakeDirectory,
            opcode::UNLINK => Self::Unlink,
            opcode::RMDIR => Self::RemoveDirectory,
            opcode::RENAME => Self::Rename,
            opcode::RENAME2 => {
                let new_directory = fields.u64();
                match (new_directory, fields.u32()) {
                    (Some(_), Some(0)) => Self::Rename,
                    _ => Self::RenameSpecial,
                }
            }
            opcode::FALLOCATE => Self::Allocate,
            opcode::SETXATTR => Self::SetExtendedAttribute,
            opcode::REMOVEXATTR => Self::RemoveExtendedAttribute,
            _ => return None,
        })
    }
}

impl InitRequest {
    fn parse(fields: &mut Fields<'_>) -> Option<Self> {
        let (major, minor) = (fields.u32()?, fields.u32()?);
        // Kernels that speak another major version may send no more than the two numbers.
        let readahead_max = fields.u32().unwrap_or(0);
        let low = u64::from(fields.u32().unwrap_or(0));
        let high = if low & init_flags::INIT_EXT != 0 {
            u64::from(fields.u32().unwrap_or(0))
        } else {
            0
        };
        Some(Self {
            major,
            minor,
            readahead_max,
            flags: high << 32 | low,
        })
    }
}

/// The pairs of a BATCH_FORGET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct Forgets<'a>(&'a [u8]);

impl<'a> Forgets<'a> {
    fn parse(fields: &mut Fields<'a>) -> Option<Self> {
        let count = usize::try_from(fields.u32()?).ok()?;
        let _dummy = fields.u32()?;
        let len = count.checked_mul(Self::PAIR_LEN)?;
        Some(Self(fields.0.get(..len)?))
    }

    /// `(inode number, count)`, one after the other.
    pub(in crate::fuse) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        let pairs: &'a [u8] = self.0;
        pairs.chunks_exact(Self::PAIR_LEN).filter_map(|pair| {
            let mut fields = Fields(pair);
            Some((fields.u64()?, fields.u64()?))
        })
    }

    const PAIR_LEN: usize = 16;
}

/// The part of a message that was not parsed yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    /// `fuse_in_header`, and the length of the whole message that it claims.
    fn header(&mut self) -> Option<(u32, Header)> {
        let len = self.u32()?;
        let opcode = self.u32()?;
        let unique = self.u64()?;
        let node = self.u64()?;
        let uid = self.u32()?;
        let _gid = self.u32()?;
        let pid = self.u32()?;
        // How long the extensions at the end are; none is asked for.
        let _extensions = self.u32()?;
        Some((
            len,
            Header {
                opcode,
                unique,
                node,
                uid,
                pid,
            },
        ))
    }

    /// The first fields of `fuse_read_in`.
    fn handle_offset_size(&mut self) -> Option<(u64, u64, u32)> {
        Some((self.u64()?, self.u64()?, self.u32()?))
    }

    /// A name that ends with NUL.
    fn name(&mut self) -> Option<&'a OsStr> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        (!name.is_empty()).then(|| OsStr::from_bytes(name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message as the kernel lays it out.
    fn message(code: u32, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(40 + body.len()).unwrap();
        let mut bytes = Vec::new();
        bytes.extend(len.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(70_u64.to_ne_bytes());
        bytes.extend(9_u64.to_ne_bytes());
        for word in [1000_u32, 1001, 1002, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(body);
        bytes
    }

    /// Words of 64 bits, then words of 32 bits.
    fn body(long: &[u64], short: &[u32]) -> Vec<u8> {
        let long = long.iter().flat_map(|word| word.to_ne_bytes());
        let short = short.iter().flat_map(|word| word.to_ne_bytes());
        long.chain(short).collect()
    }

    #[track_caller]
    fn check(code: u32, body: &[u8], expected: &Operation<'_>) {
        let message = message(code, body);
        let request = Request::parse(&message).unwrap();
        assert_eq!(
            request.header,
            Header {
                opcode: code,
                unique: 70,
                node: 9,
                uid: 1000,
                pid: 1002
            }
        );
        assert_eq!(&request.operation, expected);
    }

    #[test]
    fn operations_are_parsed() {
        check(
            1,
            b"a b\0",
            &Operation::Lookup {
                name: OsStr::new("a b"),
            },
        );
        check(
            1,
            b"\xff\xfe\0",
            &Operation::Lookup {
                name: OsStr::from_bytes(b"\xff\xfe"),
            },
        );
        check(2, &body(&[3], &[]), &Operation::Forget { count: 3 });
        check(3, &body(&[0, 0], &[]), &Operation::GetAttributes);
        check(
            14,
            &body(&[], &[0x8000, 0]),
            &Operation::Open { flags: 0x8000 },
        );
        check(
            15,
            &body(&[5, 4096], &[131_072, 0]),
            &Operation::Read {
                handle: 5,
                offset: 4096,
                size: 131_072,
                fills_cache: true,
            },
        );
        check(
            15,
            &body(&[5, 4096], &[131_072, 2]),
            &Operation::Read {
                handle: 5,
                offset: 4096,
                size: 131_072,
                fills_cache: false,
            },
        );
        check(17, &[], &Operation::StatFs);
        check(
            18,
            &body(&[5, 0, 0], &[]),
            &Operation::Release { handle: 5 },
        );
        check(20, &body(&[5, 0], &[]), &Operation::Sync { handle: 5 });
        check(25, &body(&[5, 0, 0], &[]), &Operation::Flush { handle: 5 });
        check(27, &body(&[0], &[]), &Operation::OpenDirectory);
        let read_directory = |plus| Operation::ReadDirectory {
            handle: 6,
            offset: 2,
            size: 512,
            plus,
        };
        check(28, &body(&[6, 2], &[512, 0]), &read_directory(false));
        check(44, &body(&[6, 2], &[512, 0]), &read_directory(true));
        check(
            29,
            &body(&[6, 0, 0], &[]),
            &Operation::ReleaseDirectory { handle: 6 },
        );
        check(30, &body(&[6, 0], &[]), &Operation::SyncDirectory);
        check(36, &body(&[68], &[]), &Operation::Interrupt { unique: 68 });
        check(38, &[], &Operation::Destroy);
    }

    #[test]
    fn writes_are_parsed() {
        let named = |short: &[u32]| [body(&[], short), b"new\0".to_vec()].concat();
        let name = OsStr::new("new");
        check(
            35,
            &named(&[0x8241, 0o100_644, 0o22, 0]),
            &Operation::Create {
                name,
                flags: 0x8241,
            },
        );
        check(
            8,
            &named(&[0o10_644, 0, 0o22, 0]),
            &Operation::MakeNode {
                name,
                mode: 0o10_644,
            },
        );
        let head = body(&[5, 4096], &[3, 0, 0, 0, 0x8001, 0]);
        let message = [head.as_slice(), b"abc"].concat();
        check(
            16,
            &message,
            &Operation::Write {
                handle: 5,
                offset: 4096,
                data: b"abc",
            },
        );
        // Less data than the request says.
        let message = self::message(16, &[head.as_slice(), b"ab"].concat());
        Request::parse(&message).unwrap_err();
    }

    #[test]
    fn extended_attributes() {
        let body = [&9_u32.to_ne_bytes()[..], &[0; 4], b"user.a\0"].concat();
        let name = OsStr::new("user.a");
        check(22, &body, &Operation::ExtendedAttribute { name, size: 9 });
        check(23, &body[..8], &Operation::ExtendedAttributes { size: 9 });
    }

    #[test]
    fn what_is_not_offered_is_sorted() {
        for code in [
            31,
            32,
            33,
            34,
            37,
            40,
            46,
            47,
            48,
            49,
            50,
            51,
            52,
            53,
            4096,
            u32::MAX,
        ] {
            check(code, &[], &Operation::Unsupported(Unsupported::Other));
        }
        check(5, &[], &Operation::Unsupported(Unsupported::ReadLink));
        check(39, &[], &Operation::Unsupported(Unsupported::Ioctl));
        check(41, &[], &Operation::Unsupported(Unsupported::NotifyReply));
        for (code, modification) in [
            (4, Modification::SetAttributes),
            (6, Modification::SymbolicLink),
            (9, Modification::MakeDirectory),
            (10, Modification::Unlink),
            (11, Modification::RemoveDirectory),
            (12, Modification::Rename),
            (13, Modification::HardLink),
            (21, Modification::SetExtendedAttribute),
            (24, Modification::RemoveExtendedAttribute),
            (43, Modification::Allocate),
        ] {
            check(code, &[0; 64], &Operation::Modify(modification));
        }
        check(
            45,
            &body(&[9], &[0, 0]),
            &Operation::Modify(Modification::Rename),
        );
        check(
            45,
            &body(&[9], &[2, 0]),
            &Operation::Modify(Modification::RenameSpecial),
        );
    }

    #[test]
    fn init_is_parsed_with_and_without_its_extension() {
        let init = |minor, flags| {
            Operation::Init(InitRequest {
                major: 7,
                minor,
                readahead_max: 131_072,
                flags,
            })
        };
        check(26, &body(&[], &[7, 31, 131_072, 0b1001]), &init(31, 0b1001));
        let mut extended = body(&[], &[7, 45, 131_072, 1 << 30 | 1, 1 << 4]);
        extended.extend([0; 44]);
        check(26, &extended, &init(45, 1 << 36 | 1 << 30 | 1));
        // The second word counts only if the first one says so.
        check(26, &body(&[], &[7, 35, 131_072, 1, 1 << 4]), &init(35, 1));
    }

    #[test]
    fn forgets_come_in_pairs() {
        let mut bytes = body(&[], &[2, 0]);
        bytes.extend(body(&[11, 1, 12, 7], &[]));
        let message = message(42, &bytes);
        let Operation::BatchForget(forgets) = Request::parse(&message).unwrap().operation else {
            panic!("not a forget")
        };
        assert_eq!(forgets.iter().collect::<Vec<_>>(), [(11, 1), (12, 7)]);
    }

    #[test]
    fn wrong_messages_are_refused() {
        let header = Some(Header {
            opcode: 1,
            unique: 70,
            node: 9,
            uid: 1000,
            pid: 1002,
        });
        assert_eq!(Request::parse(&[]).unwrap_err(), Malformed { header: None });
        assert_eq!(
            Request::parse(&message(1, b"a\0")[..39]).unwrap_err(),
            Malformed { header: None }
        );
        assert_eq!(
            Request::parse(&message(1, b"a")).unwrap_err(),
            Malformed { header }
        );
        assert_eq!(
            Request::parse(&message(1, b"\0")).unwrap_err(),
            Malformed { header }
        );
        assert_eq!(
            Request::parse(&message(1, b"a\0")[..41]).unwrap_err(),
            Malformed { header }
        );
        for (code, body) in [(2, 7), (15, 19), (26, 7), (28, 19), (36, 7), (42, 7)] {
            let message = message(code, &vec![0; body]);
            Request::parse(&message).unwrap_err();
        }
        // More pairs than the message has.
        let message = message(42, &body(&[1], &[u32::MAX, 0]));
        Request::parse(&message).unwrap_err();
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            drop(Request::parse(&bytes));
        }

        #[test]
        fn random_bodies_never_panic(code in 0_u32..60, body in proptest::collection::vec(any::<u8>(), 0..128)) {
            let message = message(code, &body);
            if let Ok(Request { operation: Operation::BatchForget(forgets), .. }) = Request::parse(&message) {
                forgets.iter().for_each(drop);
            }
        }
    }
}
