//! The agreement between kernel and file system when a connection begins.
//!
//! Pure: one message in, one out.

use std::io;

use nix::unistd::{SysconfVar, sysconf};

use super::session_options::SessionOptions;
use super::wire::{InitReply, InitRequest, init_flags};
use crate::config::limits::READ_SIZE_MAX;

/// Settings of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionLimits {
    /// Background requests (read-ahead) the kernel may have in flight.
    pub(super) background_max: u16,
    /// Background requests from which on the kernel slows its callers down.
    pub(super) congestion_threshold: u16,
    /// Largest body of a WRITE, in bytes.
    pub(super) write_max: u32,
    /// Size of the kernel's pages in bytes.
    pub(super) page_size: u32,
    /// Whether the kernel may read local files by itself.
    pub(super) passes_through: bool,
    /// Whether the transport tells which changes take the set-ID bits from a file.
    pub(super) drops_set_id: bool,
}

impl SessionLimits {
    /// The limits of a session with `options`, without passthrough and what only our own
    /// transport can do.
    pub(super) fn new(options: &SessionOptions) -> io::Result<Self> {
        let page_size = sysconf(SysconfVar::PAGE_SIZE)?.and_then(|size| u32::try_from(size).ok());
        Ok(Self {
            background_max: options.max_background,
            congestion_threshold: options.congestion_threshold,
            page_size: page_size.ok_or_else(|| io::Error::other("the page size is unknown"))?,
            write_max: options.write_max,
            passes_through: false,
            drops_set_id: false,
        })
    }
}

/// Answer to an INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Negotiation {
    /// The connection can be used.
    Agreed(InitReply),
    /// The kernel speaks a newer major version; it asks again when it knows ours.
    AskAgain,
    /// The kernel is too old.
    TooOld,
}

/// Negotiates with the kernel.
pub(super) fn negotiate(request: &InitRequest, limits: SessionLimits) -> Negotiation {
    if request.major > InitReply::MAJOR {
        return Negotiation::AskAgain;
    }
    if request.major < InitReply::MAJOR || request.minor < MINOR_MIN {
        return Negotiation::TooOld;
    }
    let mut wanted = FLAGS_WANTED;
    if limits.passes_through {
        wanted |= init_flags::PASSTHROUGH;
    }
    if limits.drops_set_id {
        wanted |= init_flags::HANDLE_KILLPRIV_V2;
    }
    let flags = request.flags & wanted;
    // INIT_EXT says that our second word of flags is valid.
    let flags = if flags >> 32 == 0 {
        flags & !init_flags::INIT_EXT
    } else {
        flags
    };
    Negotiation::Agreed(InitReply {
        minor: request.minor.min(MINOR_MAX),
        readahead_max: request.readahead_max.min(READAHEAD_MAX),
        flags,
        background_max: limits.background_max,
        congestion_threshold: limits.congestion_threshold.min(limits.background_max),
        write_max: limits.write_max,
        pages_max: pages_max(limits.page_size),
    })
}

/// Pages of the largest READ, on machines whose pages are 4, 16 or 64 KiB.
fn pages_max(page_size: u32) -> u16 {
    u16::try_from(READ_SIZE_MAX / page_size)
        .unwrap_or(u16::MAX)
        .max(1)
}

/// Names of the flags in `flags`, for the log.
pub(super) fn flag_names(flags: u64) -> Vec<&'static str> {
    FLAG_NAMES
        .iter()
        .filter(|(flag, _)| flags & flag != 0)
        .map(|(_, name)| *name)
        .collect()
}

/// The features that are used of those that the kernel offers. Reasons, also for unused ones:
///
/// - `AUTO_INVAL_DATA` off: the kernel would stat the file (a HEAD) each second during reads
///   through the page cache. Cached pages are dropped at open, unless the ETag is unchanged: then
///   the reply has `KEEP_CACHE`.
/// - `READDIRPLUS_AUTO` off: a program that reads a directory to its end before it looks at the
///   first entry (`du`, `find -size`) would get no attributes, and look each entry up. A listing
///   brings attributes anyway, and inode numbers in its order, in which `du` walks a large
///   directory.
/// - `EXPLICIT_INVAL_DATA` off: if a stat shows another size, the file was replaced and its pages
///   must be dropped.
/// - `NO_OPEN_SUPPORT` off: the version of a file is chosen at open.
/// - `ABORT_ERROR` off: the end of a connection is ENODEV, with any cause.
/// - `HANDLE_KILLPRIV_V2` by our own transport: without it each small write costs a second request,
///   for `security.capability`, and a `chown` more. We take the set-ID bits from files that
///   keep modes; capabilities are never kept. `HANDLE_KILLPRIV` off: it is what that replaced.
/// - `WRITEBACK_CACHE` off: a close must know all bytes. `POSIX_ACL` off: objects have none.
///   `POSIX_LOCKS`, `FLOCK_LOCKS` off: locks are local, and the kernel keeps them.
pub(super) const FLAGS_WANTED: u64 = init_flags::ASYNC_READ
    | init_flags::ATOMIC_O_TRUNC
    | init_flags::BIG_WRITES
    | init_flags::DO_READDIRPLUS
    | init_flags::ASYNC_DIO
    | init_flags::PARALLEL_DIROPS
    | init_flags::MAX_PAGES
    | init_flags::INIT_EXT
    | init_flags::DIRECT_IO_ALLOW_MMAP;

const FLAG_NAMES: [(u64, &str); 11] = [
    (init_flags::ASYNC_READ, "ASYNC_READ"),
    (init_flags::ATOMIC_O_TRUNC, "ATOMIC_O_TRUNC"),
    (init_flags::BIG_WRITES, "BIG_WRITES"),
    (init_flags::DO_READDIRPLUS, "DO_READDIRPLUS"),
    (init_flags::ASYNC_DIO, "ASYNC_DIO"),
    (init_flags::PARALLEL_DIROPS, "PARALLEL_DIROPS"),
    (init_flags::MAX_PAGES, "MAX_PAGES"),
    (init_flags::HANDLE_KILLPRIV_V2, "HANDLE_KILLPRIV_V2"),
    (init_flags::INIT_EXT, "INIT_EXT"),
    (init_flags::DIRECT_IO_ALLOW_MMAP, "DIRECT_IO_ALLOW_MMAP"),
    (init_flags::PASSTHROUGH, "PASSTHROUGH"),
];

/// Linux 4.14. Every structure used here has had its size since 7.23; later features are offered as
/// flags.
const MINOR_MIN: u32 = 26;
/// Linux 6.17 and 6.18: the newest protocol that this code was written against.
const MINOR_MAX: u32 = 45;
/// The kernel's own read-ahead, in bytes: measured, 512 KiB costs 0.47 CPU seconds per GB through
/// the page cache against 0.54 with 256 KiB and 0.48 with 1 MiB, and a page fault in a mapped file
/// reads as much around it.
pub(super) const READAHEAD_MAX: u32 = 512 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SessionLimits = SessionLimits {
        background_max: 64,
        congestion_threshold: 48,
        page_size: 4096,
        write_max: 1 << 20,
        passes_through: false,
        drops_set_id: false,
    };

    fn request(major: u32, minor: u32, flags: u64) -> InitRequest {
        InitRequest {
            major,
            minor,
            readahead_max: 128 << 10,
            flags,
        }
    }

    #[track_caller]
    fn agreed(request: &InitRequest, limits: SessionLimits) -> InitReply {
        match negotiate(request, limits) {
            Negotiation::Agreed(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn versions() {
        assert_eq!(negotiate(&request(8, 0, 0), LIMITS), Negotiation::AskAgain);
        assert_eq!(negotiate(&request(6, 99, 0), LIMITS), Negotiation::TooOld);
        assert_eq!(
            negotiate(&request(7, MINOR_MIN - 1, 0), LIMITS),
            Negotiation::TooOld
        );
        for (kernel, ours) in [
            (MINOR_MIN, MINOR_MIN),
            (31, 31),
            (45, 45),
            (46, 45),
            (999, 45),
        ] {
            assert_eq!(agreed(&request(7, kernel, 0), LIMITS).minor, ours);
        }
    }

    #[test]
    fn only_offered_flags_are_used() {
        assert_eq!(agreed(&request(7, 45, 0), LIMITS).flags, 0);
        assert_eq!(
            agreed(&request(7, 45, u64::MAX), LIMITS).flags,
            FLAGS_WANTED
        );
        let passing = SessionLimits {
            passes_through: true,
            ..LIMITS
        };
        let passthrough = init_flags::PASSTHROUGH;
        assert_eq!(
            agreed(&request(7, 45, u64::MAX), passing).flags,
            FLAGS_WANTED | passthrough
        );
        let flags = agreed(&request(7, 45, !passthrough), passing).flags;
        assert_eq!(flags & passthrough, 0);
        let dropping = SessionLimits {
            drops_set_id: true,
            ..LIMITS
        };
        assert_eq!(
            agreed(&request(7, 45, u64::MAX), dropping).flags,
            FLAGS_WANTED | init_flags::HANDLE_KILLPRIV_V2
        );
        let offered = init_flags::ASYNC_READ | init_flags::INIT_EXT | 1 << 1;
        assert_eq!(
            agreed(&request(7, 45, offered), LIMITS).flags,
            init_flags::ASYNC_READ
        );
        let offered = init_flags::INIT_EXT | init_flags::DIRECT_IO_ALLOW_MMAP;
        assert_eq!(agreed(&request(7, 45, offered), LIMITS).flags, offered);
    }

    #[test]
    fn limits() {
        let reply = agreed(&request(7, 45, u64::MAX), LIMITS);
        assert_eq!((reply.background_max, reply.congestion_threshold), (64, 48));
        assert_eq!(
            (reply.write_max, reply.pages_max, reply.readahead_max),
            (1 << 20, 256, 128 << 10)
        );
        let reply = agreed(
            &request(7, 45, 0),
            SessionLimits {
                background_max: 4,
                congestion_threshold: 9,
                page_size: 65_536,
                write_max: 64 << 10,
                ..LIMITS
            },
        );
        assert_eq!((reply.background_max, reply.congestion_threshold), (4, 4));
        assert_eq!((reply.pages_max, reply.write_max), (16, 64 << 10));
        let offer = InitRequest {
            readahead_max: u32::MAX,
            ..request(7, 45, 0)
        };
        assert_eq!(agreed(&offer, LIMITS).readahead_max, READAHEAD_MAX);
    }

    #[test]
    fn every_wanted_flag_has_a_name() {
        assert_eq!(
            flag_names(FLAGS_WANTED).len(),
            FLAGS_WANTED.count_ones() as usize
        );
        assert_eq!(flag_names(init_flags::ASYNC_DIO | 1 << 63), ["ASYNC_DIO"]);
    }
}
