//! The body of a reply to READDIR and READDIRPLUS.

use super::reply::Fixed;
use crate::operation::{DirectoryEntry, DirectorySink, EntryDetail, FileKind};

/// Directory entries as bytes, up to the size that the kernel asked for.
#[derive(Debug)]
pub(in crate::fuse) struct DirectoryBuffer {
    bytes: Vec<u8>,
    size_max: usize,
    /// Whether each entry brings its attributes: READDIRPLUS.
    plus: bool,
}

impl DirectoryBuffer {
    /// An empty reply of at most `size_max` bytes.
    pub(in crate::fuse) fn new(size_max: usize, plus: bool) -> Self {
        Self {
            bytes: Vec::with_capacity(size_max),
            size_max,
            plus,
        }
    }

    /// The encoded entries.
    pub(in crate::fuse) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl DirectorySink for DirectoryBuffer {
    fn add(&mut self, entry: &DirectoryEntry) -> bool {
        let name = entry.name.as_bytes();
        let Ok(name_len) = u32::try_from(name.len()) else {
            return false;
        };
        let attributes = &entry.entry.attributes;
        let head_len = if self.plus {
            ENTRY_OUT_LEN + DIRENT_LEN
        } else {
            DIRENT_LEN
        };
        let record_len = (head_len + name.len()).next_multiple_of(ALIGNMENT);
        if self.bytes.len() + record_len > self.size_max {
            return false;
        }
        let end = self.bytes.len() + record_len;
        if self.plus {
            let body = match entry.detail {
                EntryDetail::Attributes => Fixed::entry(&entry.entry),
                // No lookup is counted.
                EntryDetail::Kind | EntryDetail::KindUnlessLink => Fixed::no_entry(),
            };
            self.bytes.extend_from_slice(body.as_bytes());
        }
        let kind = match (attributes.kind, entry.detail) {
            (FileKind::Directory, _) => libc::DT_DIR,
            (_, EntryDetail::KindUnlessLink) => libc::DT_UNKNOWN,
            (FileKind::File, _) => libc::DT_REG,
            (FileKind::SymbolicLink, _) => libc::DT_LNK,
            (FileKind::Pipe, _) => libc::DT_FIFO,
            (FileKind::Socket, _) => libc::DT_SOCK,
        };
        self.bytes
            .extend_from_slice(&attributes.ino.0.to_ne_bytes());
        self.bytes
            .extend_from_slice(&entry.next_offset.to_ne_bytes());
        self.bytes.extend_from_slice(&name_len.to_ne_bytes());
        self.bytes.extend_from_slice(&u32::from(kind).to_ne_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }
}

/// Length of `fuse_entry_out`.
const ENTRY_OUT_LEN: usize = 128;
/// Length of `fuse_dirent` before the name.
const DIRENT_LEN: usize = 24;
/// Records begin at multiples of this.
const ALIGNMENT: usize = 8;

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::operation::{Attributes, Entry, InodeNo};

    fn entry(name: &str, ino: u64, next_offset: u64, kind: FileKind) -> DirectoryEntry {
        let attributes = Attributes {
            ino: InodeNo(ino),
            kind,
            size: 1,
            mtime: UNIX_EPOCH,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            ttl: Duration::from_secs(1),
        };
        let entry = Entry {
            attributes,
            ttl: Duration::from_secs(1),
        };
        let is_dot = matches!(name, "." | "..");
        DirectoryEntry {
            name: name.to_owned(),
            next_offset,
            entry,
            detail: if is_dot {
                EntryDetail::Kind
            } else {
                EntryDetail::Attributes
            },
        }
    }

    fn dirent(ino: u64, offset: u64, name: &str, kind: u32, padding: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(ino.to_ne_bytes());
        bytes.extend(offset.to_ne_bytes());
        bytes.extend(u32::try_from(name.len()).unwrap().to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(name.as_bytes());
        bytes.resize(bytes.len() + padding, 0);
        bytes
    }

    #[test]
    fn readdir_records_are_padded() {
        let mut buffer = DirectoryBuffer::new(4096, false);
        assert!(buffer.add(&entry("abc", 5, 1, FileKind::File)));
        assert!(buffer.add(&entry("12345678", 6, 2, FileKind::Directory)));
        let expected = [dirent(5, 1, "abc", 8, 5), dirent(6, 2, "12345678", 4, 0)].concat();
        assert_eq!(buffer.into_bytes(), expected);
    }

    #[test]
    fn readdirplus_has_an_entry_before_each_name_but_the_dots() {
        let file = entry("f", 5, 3, FileKind::File);
        let mut buffer = DirectoryBuffer::new(4096, true);
        assert!(buffer.add(&entry(".", 1, 1, FileKind::Directory)));
        assert!(buffer.add(&entry("..", 1, 2, FileKind::Directory)));
        assert!(buffer.add(&file));
        let expected = [
            vec![0; 128],
            dirent(1, 1, ".", 4, 7),
            vec![0; 128],
            dirent(1, 2, "..", 4, 6),
            Fixed::entry(&file.entry).as_bytes().to_vec(),
            dirent(5, 3, "f", 8, 7),
        ];
        assert_eq!(buffer.into_bytes(), expected.concat());
    }

    #[track_caller]
    fn check_full(size_max: usize, plus: bool, taken: usize) {
        let mut buffer = DirectoryBuffer::new(size_max, plus);
        let names = ["a", "b", "c"];
        let count = names
            .iter()
            .take_while(|name| buffer.add(&entry(name, 2, 1, FileKind::File)))
            .count();
        assert_eq!(count, taken, "{size_max} bytes, plus {plus}");
        let bytes = buffer.into_bytes();
        assert!(bytes.len() <= size_max);
    }

    #[test]
    fn a_full_buffer_takes_no_entry() {
        check_full(0, false, 0);
        check_full(31, false, 0);
        check_full(32, false, 1);
        check_full(63, false, 1);
        check_full(64, false, 2);
        check_full(159, true, 0);
        check_full(160, true, 1);
        check_full(320, true, 2);
        check_full(4096, true, 3);
    }
}
