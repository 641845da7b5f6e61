//! An entry as the commands that look after a cache see it, without a version that is to be read.

use std::io;

use super::files::{self, EntryCheck, LoadedEntry};
use crate::cache::identity::CachedVersion;
use crate::cache::index::Extent;
use crate::cache::storage::{EntryName, Storage};
use crate::clock::Clock;
use crate::local_disk::checksum;

/// An entry whose index is right.
#[derive(Debug)]
pub(in crate::cache) struct Inspected(LoadedEntry);

/// Looks at the entry of this name.
pub(in crate::cache) fn inspect(
    storage: &Storage,
    name: EntryName,
    clock: &Clock,
) -> io::Result<EntryCheck<Inspected>> {
    Ok(files::load_any(storage, name, clock)?.map(Inspected))
}

impl Inspected {
    pub(in crate::cache) fn version(&self) -> &CachedVersion {
        &self.0.version
    }

    /// Bytes of the object that are there.
    pub(in crate::cache) fn bytes(&self) -> u64 {
        self.0.contents.extents.bytes()
    }

    /// Compares all bytes that are there with their checksums. Returns what is wrong, if anything
    /// is. `progressed` is told how many bytes were compared.
    pub(in crate::cache) fn compare(
        &self,
        progressed: &mut dyn FnMut(u64),
    ) -> io::Result<Option<&'static str>> {
        let whole = 0..self.0.version.size;
        for (range, is_there) in self.0.contents.extents.divide(&whole) {
            let extents = self.0.contents.extents.of(&range).filter(|_| is_there);
            for extent in extents.into_iter().flatten() {
                if !self.is_right(&extent)? {
                    return Ok(Some("its bytes do not have their checksum"));
                }
                progressed(u64::from(extent.len));
            }
        }
        Ok(None)
    }

    fn is_right(&self, extent: &Extent) -> io::Result<bool> {
        let mut bytes = vec![0; usize::try_from(extent.len).unwrap_or_default()];
        let read = self.0.files.data.read_at(&mut bytes, extent.start)?;
        Ok(read == bytes.len() && checksum(&[&bytes]) == extent.crc)
    }
}
