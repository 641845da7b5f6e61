//! The cause of each sample of CPU time, by the functions that were running. Pure.
//!
//! Samples in the kernel are told apart by the system call or fault that led there, samples outside
//! by the function itself. Names of functions are facts of Linux 6, glibc, the CRT and Rust's
//! symbols; one that is not known here counts as the program's own, or as the kernel's.

use serde::Serialize;

/// A cause of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cause {
    /// Answers are handed to the kernel, the copy to the reader's pages included.
    Reply,
    /// Requests are taken from the kernel, the copy of written data included.
    Take,
    /// Sockets are read.
    Receive,
    /// Sockets are written, the network's work in the same thread included.
    Send,
    /// Threads fall asleep, wake others and are woken.
    Sleep,
    /// Memory is touched for the first time, mapped and given back.
    Memory,
    /// Anything else in the kernel.
    Kernel,
    /// Bytes are copied or cleared outside the kernel.
    Copy,
    /// Checksums, signatures and ciphers.
    Digest,
    /// The allocator.
    Allocate,
    /// The CRT.
    Crt,
    /// Runtime, SDK and other libraries.
    Library,
    /// The program itself.
    Own,
}

impl Cause {
    pub(crate) const ALL: [Self; 13] = [
        Self::Reply,
        Self::Take,
        Self::Receive,
        Self::Send,
        Self::Sleep,
        Self::Memory,
        Self::Kernel,
        Self::Copy,
        Self::Digest,
        Self::Allocate,
        Self::Crt,
        Self::Library,
        Self::Own,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::Take => "take",
            Self::Receive => "receive",
            Self::Send => "send",
            Self::Sleep => "sleep",
            Self::Memory => "memory",
            Self::Kernel => "kernel",
            Self::Copy => "copy",
            Self::Digest => "digest",
            Self::Allocate => "allocate",
            Self::Crt => "crt",
            Self::Library => "library",
            Self::Own => "own",
        }
    }

    /// The cause of a sample in the kernel, with the functions that were running, the innermost
    /// first.
    pub(super) fn in_kernel(functions: &[&str]) -> Self {
        let kernel = IN_KERNEL.iter().find(|(_, names)| {
            let known = |function: &&str| names.iter().any(|name| function.starts_with(name));
            functions.iter().any(known)
        });
        kernel.map_or(Self::Kernel, |(cause, _)| *cause)
    }

    /// The cause of a sample outside the kernel.
    pub(super) fn outside(function: &str) -> Self {
        let plain = function.trim_start_matches(['_', '<', '&']);
        let own = OUTSIDE.iter().find(|(_, begins, holds)| {
            begins.iter().any(|name| plain.starts_with(name))
                || holds.iter().any(|name| function.contains(name))
        });
        own.map_or(Self::Own, |(cause, ..)| *cause)
    }
}

/// Beginnings of kernel functions. The first cause that fits counts: a thread that wakes another
/// while it sends, wakes.
const IN_KERNEL: [(Cause, &[&str]); 6] = [
    (
        Cause::Sleep,
        &[
            "__schedule",
            "schedule",
            "try_to_wake_up",
            "__wake_up",
            "wake_up",
            "finish_task_switch",
            "futex_",
            "do_futex",
            "__x64_sys_futex",
            "do_epoll_",
            "ep_poll",
            "ep_send_events",
            "eventfd_",
            "__x64_sys_epoll",
        ],
    ),
    (
        Cause::Memory,
        &[
            "exc_page_fault",
            "asm_exc_page_fault",
            "do_madvise",
            "__x64_sys_m",
            "__x64_sys_brk",
            "vm_mmap",
        ],
    ),
    (
        Cause::Reply,
        &["fuse_dev_write", "fuse_dev_do_write", "fuse_uring_"],
    ),
    (Cause::Take, &["fuse_dev_read", "fuse_dev_do_read"]),
    (
        Cause::Receive,
        &[
            "tcp_recvmsg",
            "sock_recvmsg",
            "inet_recvmsg",
            "inet6_recvmsg",
            "__sys_recv",
            "unix_stream_recv",
        ],
    ),
    (
        Cause::Send,
        &[
            "tcp_sendmsg",
            "sock_sendmsg",
            "inet_sendmsg",
            "inet6_sendmsg",
            "____sys_sendmsg",
            "__sys_send",
            "sock_write_iter",
        ],
    ),
];

/// Beginnings and parts of the names of functions outside the kernel; the first that fits counts.
const OUTSIDE: [(Cause, &[&str], &[&str]); 5] = [
    (
        Cause::Digest,
        &[
            "sha",
            "aws_checksums",
            "aes",
            "gcm_",
            "EVP_",
            "bn_",
            "poly1305",
            "chacha20",
            "x25519",
        ],
        &["sha256", "sha512", "crc32", "crc64", "aesni", "md5"],
    ),
    (Cause::Copy, &[], &["memcpy", "memmove", "memset"]),
    (
        Cause::Allocate,
        &[
            "malloc",
            "free",
            "cfree",
            "calloc",
            "realloc",
            "int_malloc",
            "int_free",
            "int_realloc",
            "libc_malloc",
            "libc_free",
            "libc_calloc",
            "rust_alloc",
            "rust_dealloc",
            "rdl_",
            "rjem_",
            "unlink_chunk",
            "posix_memalign",
        ],
        &[],
    ),
    (Cause::Crt, &["aws_", "s_", "s2n_"], &[]),
    (
        Cause::Library,
        &["pthread", "clock_gettime", "vdso", "lll_", "GI_"],
        &[
            "tokio",
            "hyper",
            "aws_smithy",
            "aws_sdk",
            "aws_config",
            "rustls",
            "futures_",
            "quick_xml",
            "tracing",
            "metrics",
            "fuser::",
            "[unknown]",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_apart_by_what_led_there() {
        let cases: [(&[&str], Cause); 8] = [
            (
                &[
                    "rep_movs_alternative",
                    "fuse_copy_do",
                    "fuse_dev_do_write",
                    "do_syscall_64",
                ],
                Cause::Reply,
            ),
            (
                &["fuse_copy_one", "fuse_dev_do_read", "vfs_read"],
                Cause::Take,
            ),
            (
                &["__schedule", "schedule", "fuse_dev_do_read"],
                Cause::Sleep,
            ),
            (&["skb_copy_datagram_iter", "tcp_recvmsg"], Cause::Receive),
            (&["tcp_write_xmit", "tcp_sendmsg"], Cause::Send),
            (
                &["try_to_wake_up", "sock_def_readable", "tcp_sendmsg"],
                Cause::Sleep,
            ),
            (
                &["clear_page", "exc_page_fault", "tcp_recvmsg"],
                Cause::Memory,
            ),
            (&["vfs_statx", "do_syscall_64"], Cause::Kernel),
        ];
        for (functions, expected) in cases {
            assert_eq!(Cause::in_kernel(functions), expected, "{functions:?}");
        }
    }

    #[test]
    fn what_is_outside_is_told_apart_by_its_function() {
        let cases = [
            ("__memmove_avx_unaligned_erms", Cause::Copy),
            ("_int_malloc", Cause::Allocate),
            ("cfree@GLIBC_2.2.5", Cause::Allocate),
            ("aws_h1_decode", Cause::Crt),
            ("s_decoder_on_header", Cause::Crt),
            ("sha256_block_data_order_shaext", Cause::Digest),
            ("crc64fast_nvme::pclmulqdq::update", Cause::Digest),
            ("tokio::runtime::task::harness::poll", Cause::Library),
            ("<mountpoint_fs::read::reader::Reader>::read", Cause::Own),
            ("mountpoint_crt_sys::connection::socket::read", Cause::Own),
        ];
        for (function, expected) in cases {
            assert_eq!(Cause::outside(function), expected, "{function}");
        }
    }
}
