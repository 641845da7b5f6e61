//! The files with listings: one for each slot, so that their number is bounded.
//!
//! A file is overwritten in place: its checksum tells a listing that is half written from a whole
//! one. Files of other names are never read or removed.
//!
//! Every call may wait for a slow disk.

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::format::{ListingFile, NoListing};
use super::marks::MARKS;
use crate::local_disk::{Disk as _, Folder};

/// The folder with the listings of a cache.
#[derive(Debug)]
pub(super) struct ListingFolder {
    folder: Arc<Folder>,
    /// Bytes of all listings, as far as is known.
    bytes: AtomicU64,
}

/// The contents of a slot.
#[derive(Debug)]
pub(super) enum SlotContent {
    Nothing,
    Listing(ListingFile),
    /// Something else that has the name.
    Unusable(NoListing),
}

impl ListingFolder {
    pub(super) fn new(folder: Arc<Folder>) -> Self {
        Self {
            folder,
            bytes: AtomicU64::new(0),
        }
    }

    /// The listing in `slot`.
    pub(super) fn read(&self, slot: u16) -> io::Result<SlotContent> {
        let Some(mut file) = self.folder.find_file(&name(slot))? else {
            return Ok(SlotContent::Nothing);
        };
        let status = file.metadata()?;
        if !status.is_file() || status.len() > LISTING_BYTES_MAX {
            return Ok(SlotContent::Unusable(NoListing::Foreign));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(status.len()).unwrap_or_default());
        file.by_ref()
            .take(LISTING_BYTES_MAX)
            .read_to_end(&mut bytes)?;
        Ok(match ListingFile::decode(&bytes) {
            Ok(listing) => SlotContent::Listing(listing),
            Err(why) => SlotContent::Unusable(why),
        })
    }

    /// Writes `bytes` to `slot`. Returns whether there are too many bytes now.
    pub(super) fn write(&self, slot: u16, bytes: &[u8]) -> io::Result<bool> {
        let file = self.folder.open_file(&name(slot))?;
        let before = file.metadata()?.len();
        let len = bytes.len() as u64;
        let written = file.write_all_at(bytes, 0);
        if let Err(error) = written.and_then(|()| file.set_len(len)) {
            self.remove(slot)?;
            return Err(error);
        }
        let gained = self.bytes.fetch_add(len, Ordering::Relaxed) + len;
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        Ok(gained.saturating_sub(before) > FOLDER_BYTES_MAX)
    }

    /// Removes what is in `slot`.
    pub(super) fn remove(&self, slot: u16) -> io::Result<()> {
        self.folder.remove(&name(slot))
    }

    /// Counts the listings. Removes the oldest, if there are too many bytes. Returns the slots that
    /// have a listing.
    pub(super) fn count(&self) -> io::Result<HashSet<u16>> {
        self.remove_leftovers()?;
        let mut found = Vec::new();
        for slot in self.slots()? {
            if let Some(file) = self.folder.find_file(&name(slot))? {
                let status = file.metadata()?;
                found.push((status.modified()?, slot, status.len()));
            }
        }
        // The youngest first.
        found.sort_unstable_by(|one, other| other.cmp(one));
        let bytes: u64 = found.iter().map(|(.., len)| len).sum();
        let most = match bytes > FOLDER_BYTES_MAX {
            true => FOLDER_BYTES_MAX / 2,
            false => FOLDER_BYTES_MAX,
        };
        let mut kept = 0;
        let mut slots = HashSet::new();
        for (_, slot, len) in found {
            if kept + len <= most {
                kept += len;
                slots.insert(slot);
            } else {
                self.remove(slot)?;
            }
        }
        self.bytes.store(kept, Ordering::Relaxed);
        Ok(slots)
    }

    /// Removes all listings. The marks stay, for other mounts.
    pub(super) fn clear(&self) -> io::Result<()> {
        let slots = self.slots()?;
        slots.into_iter().try_for_each(|slot| self.remove(slot))
    }

    /// Removes marks that a killed process has begun to make.
    fn remove_leftovers(&self) -> io::Result<()> {
        for name in self.folder.list()?.iter().filter(|name| is_begun(name)) {
            let Some(file) = self.folder.find_file(name)? else {
                continue;
            };
            let age = file.metadata()?.modified()?.elapsed();
            if age.is_ok_and(|age| age > LEFTOVER_AGE) {
                self.folder.remove(name)?;
            }
        }
        Ok(())
    }

    fn slots(&self) -> io::Result<Vec<u16>> {
        let names = self.folder.list()?;
        Ok(names.iter().filter_map(|name| slot_of(name)).collect())
    }
}

/// Removes all listings in `folder`, which mounts may use.
pub(in crate::cache) fn clear(folder: Folder) -> io::Result<()> {
    ListingFolder::new(Arc::new(folder)).clear()
}

/// Removes the files of ours in `folder`, which no mount uses.
pub(in crate::cache) fn remove_all(folder: Folder) -> io::Result<()> {
    let folder = Arc::new(folder);
    ListingFolder::new(Arc::clone(&folder)).clear()?;
    let names = folder.list()?;
    let marks = names.iter().filter(|name| *name == MARKS || is_begun(name));
    marks.into_iter().try_for_each(|name| folder.remove(name))
}

/// Whether a file of this name is one of marks that is being made.
fn is_begun(name: &str) -> bool {
    let rest = name
        .strip_prefix(MARKS)
        .and_then(|rest| rest.strip_prefix('.'));
    rest.is_some_and(|digits| {
        digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

fn name(slot: u16) -> String {
    format!("{slot:04x}{SUFFIX}")
}

/// The slot whose file has this name.
fn slot_of(name: &str) -> Option<u16> {
    let digits = name.strip_suffix(SUFFIX)?;
    let slot = u16::from_str_radix(digits, 16).ok()?;
    (self::name(slot) == name && slot < LISTING_SLOTS).then_some(slot)
}

/// Making the marks takes no time.
const LEFTOVER_AGE: Duration = Duration::from_secs(60);

const SUFFIX: &str = ".names";

/// Directories whose listings are kept; a power of two.
pub(super) const LISTING_SLOTS: u16 = 1 << 13;

/// Bytes of all listings: those of two million names. Half of them go when there are more.
const FOLDER_BYTES_MAX: u64 = 256 << 20;

/// Bytes of one listing: 32,000 of the longest names and tags that S3 has.
const LISTING_BYTES_MAX: u64 = 64 << 20;
