//! The names of an entry's files: `XX/YYYY….index` and `XX/YYYY….data`, where XX is the first byte
//! of the entry's name.

use std::fmt;

use crate::cache::directory::shard_name;

/// Name of an entry: a hash of the version that it holds. The first byte is its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryName(pub(crate) [u8; 16]);

impl EntryName {
    /// The shard, a folder of the cache directory.
    pub(crate) fn shard(self) -> u8 {
        self.0[0]
    }

    /// The entry of this text, as [`fmt::Display`] writes it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut name = [0; 16];
        if text.len() != 2 * name.len() {
            return None;
        }
        for (byte, pair) in name.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(name))
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One of the two files of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileKind {
    /// Which ranges are there, with checksums.
    Index,
    /// The bytes of the object.
    Data,
}

/// The name of an entry's file in its shard's folder: the entry's name but for the shard.
pub(super) fn file_name(name: EntryName, kind: FileKind) -> String {
    let extension = match kind {
        FileKind::Index => INDEX,
        FileKind::Data => DATA,
    };
    format!("{}{extension}", &name.to_string()[2..])
}

/// The name of an entry's file in the cache directory.
#[cfg(test)]
pub(crate) fn path(name: EntryName, kind: FileKind) -> String {
    format!("{}/{}", shard_name(name.shard()), file_name(name, kind))
}

/// The entry and the kind of a file in a shard's folder; `None` if it is not ours.
pub(super) fn parse(shard: u8, file_name: &str) -> Option<(EntryName, FileKind)> {
    let (name, kind) = if let Some(name) = file_name.strip_suffix(INDEX) {
        (name, FileKind::Index)
    } else {
        (file_name.strip_suffix(DATA)?, FileKind::Data)
    };
    let name = EntryName::parse(&format!("{}{name}", shard_name(shard)))?;
    Some((name, kind))
}

const INDEX: &str = ".index";
const DATA: &str = ".data";
