//! Replies: values into bytes for the kernel.

use std::time::Duration;

use super::abi::{init_flags, open_flags};
use super::time::{Timestamp, Ttl};
use crate::operation::{Attributes, Entry, FileKind, HandleNo, InodeNo, Opened, StatFs};

/// Length of `fuse_out_header`, which every reply begins with.
pub(in crate::fuse) const OUT_HEADER_LEN: usize = 16;

/// Length of `fuse_entry_out`.
const ENTRY_OUT_LEN: usize = 128;

/// `fuse_out_header`.
pub(in crate::fuse) struct ReplyHeader;

impl ReplyHeader {
    /// The header of a reply with `body_len` bytes behind it; `errno` is positive, or 0 for
    /// success.
    pub(in crate::fuse) fn encode(
        unique: u64,
        errno: i32,
        body_len: usize,
    ) -> [u8; OUT_HEADER_LEN] {
        assert!(
            (0..512).contains(&errno),
            "the kernel would ignore the reply and the request would never end"
        );
        let len = u32::try_from(OUT_HEADER_LEN + body_len)
            .expect("replies are bounded by the sizes of requests");
        let mut header = [0; OUT_HEADER_LEN];
        header[..4].copy_from_slice(&len.to_ne_bytes());
        header[4..8].copy_from_slice(&(-errno).to_ne_bytes());
        header[8..].copy_from_slice(&unique.to_ne_bytes());
        header
    }
}

/// A reply's body of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct Fixed {
    bytes: [u8; Self::LEN_MAX],
    len: usize,
}

impl Fixed {
    /// The largest is `fuse_entry_out` with `fuse_open_out` behind it.
    const LEN_MAX: usize = ENTRY_OUT_LEN + 16;

    fn new() -> Self {
        Self {
            bytes: [0; Self::LEN_MAX],
            len: 0,
        }
    }

    fn put<const N: usize>(mut self, field: [u8; N]) -> Self {
        self.bytes[self.len..self.len + N].copy_from_slice(&field);
        self.len += N;
        self
    }

    fn u16(self, value: u16) -> Self {
        self.put(value.to_ne_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.put(value.to_ne_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.put(value.to_ne_bytes())
    }

    /// The encoded body.
    pub(in crate::fuse) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// `fuse_entry_out`.
    pub(in crate::fuse) fn entry(entry: &Entry) -> Self {
        Self::linked(entry, entry.attributes.ino)
    }

    /// `fuse_entry_out`, with `shown` as the inode number that `stat` tells.
    pub(in crate::fuse) fn linked(entry: &Entry, shown: InodeNo) -> Self {
        let (entry_ttl, attributes_ttl) = (Ttl::from(entry.ttl), Ttl::from(entry.attributes.ttl));
        // Generation 0: inode numbers are not used twice while a mount lives.
        Self::new()
            .u64(entry.attributes.ino.0)
            .u64(0)
            .u64(entry_ttl.seconds)
            .u64(attributes_ttl.seconds)
            .u32(entry_ttl.nanos)
            .u32(attributes_ttl.nanos)
            .attr(&Attributes {
                ino: shown,
                ..entry.attributes
            })
    }

    /// A `fuse_entry_out` without an inode: nothing has the name, and the kernel need not ask again
    /// for so long.
    pub(in crate::fuse) fn absence(ttl: Duration) -> Self {
        let ttl = Ttl::from(ttl);
        let head = Self::new().u64(0).u64(0).u64(ttl.seconds).u64(0);
        Self {
            len: ENTRY_OUT_LEN,
            ..head.u32(ttl.nanos)
        }
    }

    /// A `fuse_entry_out` that says nothing: the kernel skips it.
    pub(in crate::fuse) fn no_entry() -> Self {
        Self {
            bytes: [0; Self::LEN_MAX],
            len: ENTRY_OUT_LEN,
        }
    }

    /// `fuse_attr_out`.
    pub(in crate::fuse) fn attributes(attributes: &Attributes) -> Self {
        let ttl = Ttl::from(attributes.ttl);
        Self::new()
            .u64(ttl.seconds)
            .u32(ttl.nanos)
            .u32(0)
            .attr(attributes)
    }

    /// `fuse_open_out` of a file.
    pub(in crate::fuse) fn opened(opened: &Opened) -> Self {
        Self::new().open_out(opened)
    }

    /// `fuse_open_out` of a file that the kernel reads by itself, from the backing file `number`.
    pub(in crate::fuse) fn passed_through(handle: HandleNo, number: i32) -> Self {
        // A handle that only reads has nothing to flush. No other flag is allowed beside these.
        let flags = open_flags::PASSTHROUGH | open_flags::NO_FLUSH;
        let head = Self::new().u64(handle.0).u32(flags);
        head.put(number.to_ne_bytes())
    }

    /// `fuse_entry_out` and `fuse_open_out`, of a file that was made.
    pub(in crate::fuse) fn created(entry: &Entry, opened: &Opened) -> Self {
        Self::entry(entry).open_out(opened)
    }

    /// `fuse_write_out`.
    pub(in crate::fuse) fn written(size: u32) -> Self {
        Self::new().u32(size).u32(0)
    }

    /// `fuse_copy_file_range_out`.
    pub(in crate::fuse) fn copied(len: u64) -> Self {
        Self::new().u64(len)
    }

    /// `fuse_open_out`.
    fn open_out(self, opened: &Opened) -> Self {
        self.u64(opened.handle.0).u32(open_flags_of(opened)).u32(0)
    }

    /// `fuse_open_out` of a directory.
    pub(in crate::fuse) fn opened_directory(handle: HandleNo) -> Self {
        Self::new().u64(handle.0).u32(0).u32(0)
    }

    /// `fuse_getxattr_out`.
    pub(in crate::fuse) fn length(len: u32) -> Self {
        Self::new().u32(len).u32(0)
    }

    /// `fuse_statfs_out`.
    pub(in crate::fuse) fn statfs(statfs: &StatFs) -> Self {
        let size = Self::new()
            .u64(statfs.blocks)
            .u64(statfs.blocks)
            .u64(statfs.blocks);
        // Inodes are not counted; tools show a dash for 0.
        let inodes = size.u64(0).u64(0);
        inodes
            .u32(statfs.block_size)
            .u32(statfs.name_len_max)
            .u32(statfs.block_size)
            .put([0; 28])
    }

    /// `fuse_init_out`.
    pub(in crate::fuse) fn init(reply: &InitReply) -> Self {
        Self::new()
            .u32(InitReply::MAJOR)
            .u32(reply.minor)
            .u32(reply.readahead_max)
            .u32(truncate_low(reply.flags))
            .u16(reply.background_max)
            .u16(reply.congestion_threshold)
            .u32(reply.write_max)
            .u32(InitReply::TIME_GRANULARITY_NS)
            .u16(reply.pages_max)
            .u16(0)
            .u32(truncate_low(reply.flags >> 32))
            .u32(reply.stack_depth_max())
            .put([0; 24])
    }

    /// The beginning of `fuse_init_out`: which major version is spoken here.
    pub(in crate::fuse) fn version() -> Self {
        Self::new().u32(InitReply::MAJOR).u32(0)
    }

    /// `fuse_attr`.
    fn attr(self, attributes: &Attributes) -> Self {
        let time = Timestamp::from(attributes.mtime);
        let kind = match attributes.kind {
            FileKind::File => libc::S_IFREG,
            FileKind::Directory => libc::S_IFDIR,
            FileKind::SymbolicLink => libc::S_IFLNK,
            FileKind::Pipe => libc::S_IFIFO,
            FileKind::Socket => libc::S_IFSOCK,
        };
        self.u64(attributes.ino.0)
            .u64(attributes.size)
            .u64(attributes.size.div_ceil(Self::STAT_BLOCK_SIZE))
            .u64(time.seconds)
            .u64(time.seconds)
            .u64(time.seconds)
            .u32(time.nanos)
            .u32(time.nanos)
            .u32(time.nanos)
            .u32(kind | u32::from(attributes.mode & 0o7777))
            .u32(attributes.nlink)
            .u32(attributes.uid)
            .u32(attributes.gid)
            .u32(0)
            .u32(Self::IO_SIZE)
            .u32(0)
    }

    /// Unit of `st_blocks`.
    pub(in crate::fuse) const STAT_BLOCK_SIZE: u64 = 512;
    /// `st_blksize`: the buffer of Python's files and of C's streams. With 4096, Python sends 32
    /// times as many reads; what is larger, a program that goes from place to place would mostly
    /// read in vain.
    pub(in crate::fuse) const IO_SIZE: u32 = 128 << 10;
}

/// Reply to INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) struct InitReply {
    pub(in crate::fuse) minor: u32,
    pub(in crate::fuse) readahead_max: u32,
    /// `flags` and, above bit 32, `flags2`.
    pub(in crate::fuse) flags: u64,
    pub(in crate::fuse) background_max: u16,
    pub(in crate::fuse) congestion_threshold: u16,
    pub(in crate::fuse) write_max: u32,
    pub(in crate::fuse) pages_max: u16,
}

impl InitReply {
    /// The protocol has had one major version since 2006.
    pub(in crate::fuse) const MAJOR: u32 = 7;
    /// Times are exact to the nanosecond.
    const TIME_GRANULARITY_NS: u32 = 1;

    /// How many file systems may be stacked up to this one: with passthrough it lies on plain ones
    /// only, and an overlay can still lie on it.
    fn stack_depth_max(&self) -> u32 {
        u32::from(self.flags & init_flags::PASSTHROUGH != 0)
    }

    /// Length of `fuse_init_out`.
    #[cfg(test)]
    pub(in crate::fuse) const LEN: usize = 64;
}

/// How the kernel treats an open file.
pub(in crate::fuse) fn open_flags_of(opened: &Opened) -> u32 {
    // A handle that only reads has nothing to flush: `close` need not ask.
    let mut flags = if opened.flush {
        0
    } else {
        open_flags::NO_FLUSH
    };
    if opened.direct_io {
        flags |= open_flags::DIRECT_IO;
    }
    if opened.keep_cache {
        flags |= open_flags::KEEP_CACHE;
    }
    flags
}

/// The low 32 bits.
fn truncate_low(flags: u64) -> u32 {
    u32::try_from(flags & u64::from(u32::MAX)).expect("the high bits are masked")
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::operation::InodeNo;

    /// Field by field: width in bytes, value.
    #[track_caller]
    fn check(body: &Fixed, fields: &[(usize, u64)]) {
        let mut bytes = body.as_bytes();
        for (index, (width, expected)) in fields.iter().enumerate() {
            let (field, rest) = bytes.split_at(*width);
            let actual = match width {
                2 => u64::from(u16::from_ne_bytes(field.try_into().unwrap())),
                4 => u64::from(u32::from_ne_bytes(field.try_into().unwrap())),
                8 => u64::from_ne_bytes(field.try_into().unwrap()),
                width => panic!("no field has {width} bytes"),
            };
            assert_eq!(actual, *expected, "field {index}");
            bytes = rest;
        }
        assert_eq!(bytes, vec![0; bytes.len()], "padding");
    }

    fn attributes() -> Attributes {
        Attributes {
            ino: InodeNo(77),
            kind: FileKind::File,
            size: 513,
            mtime: UNIX_EPOCH + Duration::new(1_700_000_000, 5),
            mode: 0o644,
            nlink: 1,
            uid: 1000,
            gid: 1001,
            ttl: Duration::from_millis(1500),
        }
    }

    const ATTR: [(usize, u64); 16] = [
        (8, 77),
        (8, 513),
        (8, 2),
        (8, 1_700_000_000),
        (8, 1_700_000_000),
        (8, 1_700_000_000),
        (4, 5),
        (4, 5),
        (4, 5),
        (4, 0o100_644),
        (4, 1),
        (4, 1000),
        (4, 1001),
        (4, 0),
        (4, 128 << 10),
        (4, 0),
    ];

    #[test]
    fn header() {
        let header = ReplyHeader::encode(0x0102, 2, 0);
        assert_eq!(header[..4], 16_u32.to_ne_bytes());
        assert_eq!(header[4..8], (-2_i32).to_ne_bytes());
        assert_eq!(header[8..], 0x0102_u64.to_ne_bytes());
        assert_eq!(ReplyHeader::encode(1, 0, 104)[..4], 120_u32.to_ne_bytes());
    }

    #[test]
    fn entry() {
        let entry = Entry {
            attributes: attributes(),
            ttl: Duration::from_secs(2),
        };
        let head = [(8, 77), (8, 0), (8, 2), (8, 1), (4, 0), (4, 500_000_000)];
        let body = Fixed::entry(&entry);
        check(&body, &[&head[..], &ATTR[..]].concat());
        assert_eq!(body.as_bytes().len(), 128);
        let linked = Fixed::linked(&entry, InodeNo(5));
        assert_eq!(linked.as_bytes()[..40], body.as_bytes()[..40]);
        assert_eq!(linked.as_bytes()[40..48], 5_u64.to_ne_bytes());
        assert_eq!(linked.as_bytes()[48..], body.as_bytes()[48..]);
        assert_eq!(Fixed::no_entry().as_bytes(), [0; 128]);
        let absence = Fixed::absence(Duration::from_millis(60_500));
        check(
            &absence,
            &[(8, 0), (8, 0), (8, 60), (8, 0), (4, 500_000_000)],
        );
        assert_eq!(absence.as_bytes().len(), 128);
    }

    #[test]
    fn attributes_of_files_and_directories() {
        let head = [(8, 1), (4, 500_000_000), (4, 0)];
        check(
            &Fixed::attributes(&attributes()),
            &[&head[..], &ATTR[..]].concat(),
        );
        let directory = Attributes {
            kind: FileKind::Directory,
            mode: 0o755,
            ttl: Duration::MAX,
            ..attributes()
        };
        let body = Fixed::attributes(&directory);
        assert_eq!(body.as_bytes().len(), 104);
        assert_eq!(
            body.as_bytes()[..8],
            u64::from(u32::MAX).to_ne_bytes(),
            "for ever"
        );
        assert_eq!(body.as_bytes()[76..80], 0o040_755_u32.to_ne_bytes());
    }

    #[test]
    fn open() {
        let opened = |direct_io, keep_cache| {
            Fixed::opened(&Opened {
                handle: HandleNo(3),
                direct_io,
                keep_cache,
                flush: false,
                local: None,
            })
        };
        check(&opened(false, false), &[(8, 3), (4, 32), (4, 0)]);
        check(&opened(true, false), &[(8, 3), (4, 33), (4, 0)]);
        check(&opened(false, true), &[(8, 3), (4, 34), (4, 0)]);
        check(
            &Fixed::opened_directory(HandleNo(4)),
            &[(8, 4), (4, 0), (4, 0)],
        );
        assert_eq!(opened(false, false).as_bytes().len(), 16);
        let passed = Fixed::passed_through(HandleNo(5), 6);
        check(&passed, &[(8, 5), (4, 128 | 32), (4, 6)]);
        assert_eq!(passed.as_bytes().len(), 16);
    }

    #[test]
    fn length_of_an_extended_attribute() {
        check(&Fixed::length(7), &[(4, 7), (4, 0)]);
        assert_eq!(Fixed::length(7).as_bytes().len(), 8);
    }

    #[test]
    fn statfs() {
        let body = Fixed::statfs(&StatFs {
            block_size: 4096,
            blocks: 1 << 40,
            name_len_max: 255,
        });
        let blocks = (8, 1 << 40);
        check(
            &body,
            &[
                blocks,
                blocks,
                blocks,
                (8, 0),
                (8, 0),
                (4, 4096),
                (4, 255),
                (4, 4096),
                (4, 0),
            ],
        );
        assert_eq!(body.as_bytes().len(), 80);
    }

    #[test]
    fn init() {
        let reply = InitReply {
            minor: 45,
            readahead_max: 524_288,
            flags: 1 << 36 | 1 << 30 | 1,
            background_max: 64,
            congestion_threshold: 48,
            write_max: 1 << 20,
            pages_max: 256,
        };
        let head = [
            (4, 7),
            (4, 45),
            (4, 524_288),
            (4, 1 << 30 | 1),
            (2, 64),
            (2, 48),
            (4, 1 << 20),
            (4, 1),
        ];
        check(
            &Fixed::init(&reply),
            &[&head[..], &[(2, 256), (2, 0), (4, 1 << 4)]].concat(),
        );
        assert_eq!(Fixed::init(&reply).as_bytes().len(), InitReply::LEN);
        let passing = InitReply {
            flags: reply.flags | init_flags::PASSTHROUGH,
            ..reply
        };
        check(
            &Fixed::init(&passing),
            &[&head[..], &[(2, 256), (2, 0), (4, 1 << 5 | 1 << 4), (4, 1)]].concat(),
        );
        assert_eq!(Fixed::init(&passing).as_bytes().len(), InitReply::LEN);
    }
}
