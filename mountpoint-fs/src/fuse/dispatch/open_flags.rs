//! The flags of `open(2)` as options of the file system. Pure.

use crate::operation::{OpenOptions, WriteOptions};

/// The options of an open.
pub(super) fn open_options(flags: u32, process: u32) -> OpenOptions {
    let is_set = |flag: libc::c_int| flags & flag.cast_unsigned() != 0;
    OpenOptions {
        // A file opened for both is read until its first change.
        write: match flags.cast_signed() & libc::O_ACCMODE {
            libc::O_RDONLY => is_set(libc::O_TRUNC),
            libc::O_RDWR => is_set(libc::O_TRUNC) || is_set(libc::O_APPEND),
            _ => true,
        },
        direct: is_set(libc::O_DIRECT),
        process,
        is_vouched: false,
    }
}

/// The options of an open for writing.
pub(super) fn write_options(flags: u32) -> WriteOptions {
    let is_set = |flag: libc::c_int| flags & flag.cast_unsigned() != 0;
    WriteOptions {
        truncate: is_set(libc::O_TRUNC),
        exclusive: is_set(libc::O_EXCL),
        append: is_set(libc::O_APPEND),
        // O_SYNC includes O_DSYNC.
        synchronous: is_set(libc::O_DSYNC),
        both: is_set(libc::O_RDWR),
        mode: None,
        is_vouched: false,
        maker: None,
    }
}

/// Options of a new file with the permission bits of `mode`.
pub(super) fn new_file(flags: u32, mode: u32) -> WriteOptions {
    WriteOptions {
        mode: u16::try_from(mode & 0o7777).ok(),
        ..write_options(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_open() {
        let check = |flags: libc::c_int, write, direct| {
            assert_eq!(
                open_options(flags.cast_unsigned(), 7),
                OpenOptions {
                    write,
                    direct,
                    process: 7,
                    is_vouched: false,
                },
                "{flags:#o}"
            );
        };
        check(libc::O_RDONLY, false, false);
        check(libc::O_RDONLY | libc::O_DIRECT, false, true);
        check(libc::O_WRONLY, true, false);
        check(libc::O_RDWR | libc::O_DIRECT, false, true);
        check(libc::O_RDWR | libc::O_TRUNC, true, false);
        check(libc::O_RDWR | libc::O_APPEND, true, false);
        check(libc::O_RDONLY | libc::O_TRUNC, true, false);
    }
}
