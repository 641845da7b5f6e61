//! Messages that answer no request.

use std::ops::Range;

use super::reply::OUT_HEADER_LEN;
use crate::operation::InodeNo;

/// `FUSE_NOTIFY_INVAL_ENTRY`: the kernel forgets what `name` in `directory` is, and looks it up
/// when it is needed.
pub(in crate::fuse) fn forget_name(directory: InodeNo, name: &str) -> Vec<u8> {
    let len = OUT_HEADER_LEN + 16 + name.len() + 1;
    let mut message = Vec::with_capacity(len);
    message.extend_from_slice(&length(len).to_ne_bytes());
    message.extend_from_slice(&INVAL_ENTRY.to_ne_bytes());
    // No request.
    message.extend_from_slice(&0_u64.to_ne_bytes());
    message.extend_from_slice(&directory.0.to_ne_bytes());
    message.extend_from_slice(&length(name.len()).to_ne_bytes());
    // No flags.
    message.extend_from_slice(&0_u32.to_ne_bytes());
    message.extend_from_slice(name.as_bytes());
    message.push(0);
    message
}

/// `FUSE_NOTIFY_INVAL_INODE`: the kernel drops the pages of `range`, and asks for the attributes
/// when they are needed. It waits for pages that are being read or written.
pub(in crate::fuse) fn forget_pages(ino: InodeNo, range: Range<u64>) -> Vec<u8> {
    forget_of_inode(ino, range.start.cast_signed(), range.end - range.start)
}

/// `FUSE_NOTIFY_INVAL_INODE` of no page: the kernel asks for the attributes when they are needed,
/// and takes none that it has asked for before.
pub(in crate::fuse) fn forget_attributes(ino: InodeNo) -> Vec<u8> {
    forget_of_inode(ino, -1, 0)
}

/// A negative `offset` stands for no page.
fn forget_of_inode(ino: InodeNo, offset: i64, pages_len: u64) -> Vec<u8> {
    let len = OUT_HEADER_LEN + 24;
    let mut message = Vec::with_capacity(len);
    message.extend_from_slice(&length(len).to_ne_bytes());
    message.extend_from_slice(&INVAL_INODE.to_ne_bytes());
    // No request.
    message.extend_from_slice(&0_u64.to_ne_bytes());
    message.extend_from_slice(&ino.0.to_ne_bytes());
    message.extend_from_slice(&offset.to_ne_bytes());
    message.extend_from_slice(&pages_len.to_ne_bytes());
    message
}

fn length(len: usize) -> u32 {
    u32::try_from(len).expect("names have 255 bytes at most")
}

const INVAL_INODE: u32 = 2;
const INVAL_ENTRY: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_to_forget() {
        let message = forget_name(InodeNo(7), "abc");
        assert_eq!(message.len(), 36);
        assert_eq!(message[..4], 36_u32.to_ne_bytes());
        assert_eq!(message[4..8], 3_u32.to_ne_bytes());
        assert_eq!(message[8..16], [0; 8]);
        assert_eq!(message[16..24], 7_u64.to_ne_bytes());
        assert_eq!(message[24..28], 3_u32.to_ne_bytes());
        assert_eq!(message[28..], *b"\0\0\0\0abc\0");
    }

    #[test]
    fn pages_to_forget() {
        let message = forget_pages(InodeNo(7), 4096..10_000);
        let fields = [7_u64, 4096, 5904].map(u64::to_ne_bytes).concat();
        assert_eq!(message[..4], 40_u32.to_ne_bytes());
        assert_eq!(message[4..8], 2_u32.to_ne_bytes());
        assert_eq!(message[8..16], [0; 8]);
        assert_eq!(message[16..], fields);
        let message = forget_attributes(InodeNo(7));
        assert_eq!(message[16..24], 7_u64.to_ne_bytes());
        assert_eq!(message[24..32], (-1_i64).to_ne_bytes());
    }
}
