//! Requests: bytes from the kernel into values.

use std::ffi::OsStr;

use super::abi::{READ_LOCKOWNER, WRITE_CACHE, WRITE_KILL_SUIDGID, init_flags, opcode};
use super::fields::{Content, Fields};
use super::mutation::Mutation;

/// The beginning of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct Header {
    /// The request's number, unique for the life of the connection. The reply carries it.
    pub(in crate::fuse) unique: u64,
    /// Inode number, where the request has one.
    pub(in crate::fuse) node: u64,
    /// The user that asks. 0 where the kernel asks for itself.
    pub(in crate::fuse) uid: u32,
    /// The user's group.
    pub(in crate::fuse) gid: u32,
    /// The thread that asks, as this process numbers it. 0 if it cannot, and where the kernel asks
    /// for itself.
    pub(in crate::fuse) pid: u32,
    /// Whether somebody waits for an answer.
    pub(in crate::fuse) wants_reply: bool,
}

impl Header {
    /// Parses `fuse_in_header`: also the length that the message claims, and the opcode.
    fn parse(fields: &mut Fields<'_>) -> Option<(u32, u32, Self)> {
        let len = fields.u32()?;
        let opcode = fields.u32()?;
        let unique = fields.u64()?;
        let node = fields.u64()?;
        let uid = fields.u32()?;
        let gid = fields.u32()?;
        let pid = fields.u32()?;
        // How long the extensions at the end are; none is asked for.
        let _extensions = fields.u32()?;
        let wants_reply = !matches!(
            opcode,
            opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT | opcode::NOTIFY_REPLY
        );
        let header = Self {
            unique,
            node,
            uid,
            gid,
            pid,
            wants_reply,
        };
        Some((len, opcode, header))
    }
}

/// A request, borrowed from the receive buffer.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::fuse) struct Request<'a> {
    /// Whose, and which.
    pub(in crate::fuse) header: Header,
    /// The request itself.
    pub(in crate::fuse) operation: Operation<'a>,
}

/// The operation that the kernel asks for.
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
        /// The kernel has taken the umask off.
        mode: u32,
    },
    /// Makes a file, a pipe, a socket or a device.
    MakeNode {
        name: &'a OsStr,
        mode: u32,
    },
    Write {
        handle: u64,
        offset: u64,
        /// Whether it takes the set-ID bits from the file.
        drops_set_id: bool,
        /// Whether it passes the page cache by, as `O_DIRECT` has it.
        is_direct: bool,
        data: Content<'a>,
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
    ReadLink,
    /// Changes names or attributes.
    Mutate(Mutation<'a>),
    /// Does not exist here.
    Unsupported(Unsupported),
}

/// Operations that do not exist here, by what the application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) enum Unsupported {
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
        let parsed = Header::parse(&mut fields);
        let (len, opcode, header) = parsed.ok_or(Malformed { header: None })?;
        let malformed = Malformed {
            header: Some(header),
        };
        if usize::try_from(len) != Ok(message.len()) {
            return Err(malformed);
        }
        let operation = Operation::parse(opcode, &mut fields).ok_or(malformed)?;
        Ok(Self { header, operation })
    }
}

impl<'a> From<Mutation<'a>> for Operation<'a> {
    fn from(mutation: Mutation<'a>) -> Self {
        Self::Mutate(mutation)
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
            opcode::READ => Self::parse_read(fields)?,
            opcode::CREATE | opcode::MKNOD | opcode::WRITE | opcode::FLUSH | opcode::FSYNC => {
                Self::parse_writing(code, fields)?
            }
            opcode::RELEASE => Self::Release {
                handle: fields.u64()?,
            },
            opcode::OPENDIR
            | opcode::READDIR
            | opcode::READDIRPLUS
            | opcode::RELEASEDIR
            | opcode::FSYNCDIR => Self::parse_directory(code, fields)?,
            opcode::STATFS => Self::StatFs,
            opcode::GETXATTR => Self::parse_extended_attribute(fields)?,
            opcode::LISTXATTR => Self::ExtendedAttributes {
                size: fields.u32()?,
            },
            opcode::READLINK => Self::ReadLink,
            opcode::IOCTL => Self::Unsupported(Unsupported::Ioctl),
            opcode::NOTIFY_REPLY => Self::Unsupported(Unsupported::NotifyReply),
            code if Mutation::is_mutation(code) => Self::Mutate(Mutation::parse(code, fields)?),
            // Locks, poll, bmap, lseek, access, and whatever comes later.
            _ => Self::Unsupported(Unsupported::Other),
        })
    }
}

impl<'a> Operation<'a> {
    fn parse_read(fields: &mut Fields<'a>) -> Option<Self> {
        let (handle, offset, size) = fields.handle_offset_size()?;
        // Only reads that bypass the page cache name the owner of a lock.
        let fills_cache = fields.u32()? & READ_LOCKOWNER == 0;
        Some(Self::Read {
            handle,
            offset,
            size,
            fills_cache,
        })
    }

    fn parse_extended_attribute(fields: &mut Fields<'a>) -> Option<Self> {
        let (size, _padding) = (fields.u32()?, fields.u32()?);
        let name = fields.name()?;
        Some(Self::ExtendedAttribute { name, size })
    }

    /// Operations of written files.
    fn parse_writing(code: u32, fields: &mut Fields<'a>) -> Option<Self> {
        Some(match code {
            opcode::CREATE => {
                let (flags, mode) = (fields.u32()?, fields.u32()?);
                // umask and flags of later protocols.
                fields.take::<8>()?;
                Self::Create {
                    name: fields.name()?,
                    flags,
                    mode,
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
                let flags = fields.u32()?;
                // Owner of a lock.
                fields.take::<8>()?;
                let (open_flags, _padding) = (fields.u32()?, fields.u32()?);
                let size = usize::try_from(size).ok()?;
                Self::Write {
                    handle,
                    offset,
                    drops_set_id: flags & WRITE_KILL_SUIDGID != 0,
                    is_direct: is_direct(flags, open_flags),
                    data: Content(fields.0.get(..size)?),
                }
            }
            opcode::FLUSH => Self::Flush {
                handle: fields.u64()?,
            },
            opcode::FSYNC => Self::Sync {
                handle: fields.u64()?,
            },
            _ => return None,
        })
    }

    /// Operations of open directories.
    fn parse_directory(code: u32, fields: &mut Fields<'a>) -> Option<Self> {
        Some(match code {
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
            opcode::FSYNCDIR => Self::SyncDirectory,
            _ => return None,
        })
    }
}

/// Whether a WRITE passes the page cache by.
fn is_direct(flags: u32, open_flags: u32) -> bool {
    flags & WRITE_CACHE == 0 && open_flags & libc::O_DIRECT.cast_unsigned() != 0
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
