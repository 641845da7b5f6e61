//! A directory that is open for reading.
//!
//! An offset names the entry to continue at: the page in the upper bits, the entry of the page in
//! the middle, and in the lower bits a hash of the name of the entry before it, so that a changed
//! page is continued at the same name. 0 is the beginning, 1 behind `.`, 2 behind `..`, which
//! precedes the first entry of page 0.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::Mutex as AsyncMutex;

use crate::namespace::{Listed, Listing, Namespace, Page, Standing};
use crate::operation::{DirectoryEntry, DirectorySink, Entry, EntryDetail, FsError, InodeNo};
use crate::sync::Mutex;

/// One open of a directory.
///
/// Its lock is H of the order H, I, T; no other lock is held while waiting, so two readers of one
/// handle take turns.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    pub(super) ino: InodeNo,
    pub(super) listing: AsyncMutex<Listing>,
    /// The files being written in it. A leaf.
    pub(super) written: Mutex<WrittenFiles>,
}

/// The files that were being written in a directory when its listing began, or are since.
#[derive(Debug, Default)]
pub(super) struct WrittenFiles {
    /// Files of the beginning that no page has shown.
    unseen: HashSet<Arc<str>>,
    /// All files of the beginning. Each stays known for the listing, which may lack it, although it
    /// is stored meanwhile and the kernel has never looked it up.
    held: Vec<InodeNo>,
    /// The page behind the last one, and its number.
    page: Option<(usize, Arc<Page>)>,
}

impl WrittenFiles {
    fn release(self, namespace: &Namespace) {
        for ino in self.held {
            namespace.forget(ino, 1);
        }
    }
}

impl OpenDirectory {
    /// The directory is closed.
    pub(super) fn close(&self, namespace: &Namespace) {
        let written = std::mem::take(&mut *self.written.lock());
        written.release(namespace);
        namespace.close(self.ino);
    }

    /// Offers entries to `sink` from `offset` on. Stops when the sink is full, the directory ends,
    /// or the next entry needs a wait.
    ///
    /// Waits only before the first entry is added: a future that is dropped has raised no lookup
    /// count.
    pub(super) async fn read(
        &self,
        namespace: &Namespace,
        offset: u64,
        plus: bool,
        sink: &mut dyn DirectorySink,
    ) -> Result<(), FsError> {
        let mut listing = self.listing.lock().await;
        if offset == 0 {
            listing.rewind();
            listing.set_kept(namespace.kept_children(self.ino));
            // Before S3 is asked: what is stored meanwhile is shown all the same.
            let files = namespace.hold_written(self.ino);
            let written = WrittenFiles {
                held: files.iter().map(|(ino, _)| *ino).collect(),
                unseen: files.into_iter().map(|(_, name)| name).collect(),
                page: None,
            };
            let before = std::mem::replace(&mut *self.written.lock(), written);
            before.release(namespace);
        }
        namespace.begin_listing(&mut listing).await;
        let mut position = Position::of_offset(offset)?;
        let mut filler = Filler {
            namespace,
            directory: self.ino,
            listed_in: Arc::clone(listing.prefix()),
            written: &self.written,
            plus,
            sink,
            is_empty: true,
        };
        let mut page = listing.page(position.page).await?;
        page = page.or_else(|| self.written_page(namespace, &mut listing, position.page));
        if !filler.add_dots(offset)? {
            return Ok(());
        }
        while let Some(current) = page {
            if !filler.add_page(&current, position)? {
                return Ok(());
            }
            position = Position::page(position.page + 1);
            page = if filler.is_empty {
                listing.page(position.page).await?
            } else {
                listing.page_now(position.page)
            };
            if filler.is_empty && page.is_none() {
                page = self.written_page(namespace, &mut listing, position.page);
            }
        }
        Ok(())
    }

    /// A page behind the listing's last one, with files that are being written, or were when the
    /// listing began.
    ///
    /// S3 did not know these files yet.
    fn written_page(
        &self,
        namespace: &Namespace,
        listing: &mut Listing,
        number: usize,
    ) -> Option<Arc<Page>> {
        let mut written = self.written.lock();
        if written.page.is_none() {
            let mut page = namespace.written_page(self.ino, &written.unseen)?;
            let listed: Vec<_> = (0..number).filter_map(|n| listing.page_now(n)).collect();
            page.entries
                .retain(|entry| !listed.iter().any(|page| page.find(&entry.name).is_some()));
            written.page = Some((number, Arc::new(page)));
        }
        let (at, page) = written.page.as_ref()?;
        (*at == number).then(|| Arc::clone(page))
    }
}

/// One reply that is being filled.
struct Filler<'a> {
    namespace: &'a Namespace,
    directory: InodeNo,
    /// The directory's prefix when it was opened.
    listed_in: Arc<str>,
    written: &'a Mutex<WrittenFiles>,
    plus: bool,
    sink: &'a mut dyn DirectorySink,
    is_empty: bool,
}

impl Filler<'_> {
    /// Adds `.` and `..` as far as they are behind `offset`. Whether there is room for more.
    fn add_dots(&mut self, offset: u64) -> Result<bool, FsError> {
        let entries = self.namespace.dots(self.directory)?;
        for ((name, entry), next_offset) in [".", ".."].into_iter().zip(entries).zip(1..) {
            if offset < next_offset && !self.add(name, next_offset, entry, EntryDetail::Kind) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the entries of `page` from `position` on; whether there is room for more.
    fn add_page(&mut self, page: &Arc<Page>, position: Position) -> Result<bool, FsError> {
        let first = position.index_on(page);
        let mut has_room = true;
        for (index, listed) in page.entries.iter().enumerate().skip(first) {
            let place = (self.directory, &*self.listed_in);
            let standing = self.namespace.standing(place, listed, page);
            if standing == Standing::Changed {
                continue;
            }
            let next_offset = Position {
                page: position.page,
                index: index + 1,
                name: name_bits(&listed.name),
            }
            .offset();
            let (namespace, directory) = (self.namespace, self.directory);
            let detail = match (namespace.lists_names_only(), self.plus) {
                (true, _) => EntryDetail::KindUnlessLink,
                (false, true) => EntryDetail::Attributes,
                (false, false) => EntryDetail::Kind,
            };
            let entry = match detail {
                EntryDetail::Attributes => namespace.admit(directory, listed, page, standing)?,
                EntryDetail::Kind | EntryDetail::KindUnlessLink => {
                    namespace.preview(directory, listed, page)
                }
            };
            has_room = self.add(&listed.name, next_offset, entry, detail);
            if !has_room {
                if detail == EntryDetail::Attributes {
                    self.namespace.forget(entry.attributes.ino, 1);
                }
                break;
            }
        }
        self.note_shown(page);
        self.namespace.delivered(self.directory, page, has_room);
        Ok(has_room)
    }

    /// Files of `page` are not shown again as files that are being written.
    fn note_shown(&self, page: &Page) {
        let mut written = self.written.lock();
        if written.page.is_none() && !written.unseen.is_empty() {
            for listed in &page.entries {
                written.unseen.remove(&listed.name);
            }
        }
    }

    fn add(&mut self, name: &str, next_offset: u64, entry: Entry, detail: EntryDetail) -> bool {
        let added = self.sink.add(&DirectoryEntry {
            name: name.to_owned(),
            next_offset,
            entry,
            detail,
        });
        self.is_empty &= !added;
        added
    }
}

/// A place in a listing: before an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    page: usize,
    index: usize,
    /// Hash of the entry before it; see [`name_bits`].
    name: u64,
}

impl Position {
    fn page(page: usize) -> Self {
        Self {
            page,
            index: 0,
            name: 0,
        }
    }

    /// Its index on `page`, which may have changed.
    fn index_on(self, page: &Page) -> usize {
        let entries = page.entries.iter();
        let is_same = |entry: &Listed| name_bits(&entry.name) == self.name;
        match self.index.checked_sub(1) {
            None => 0,
            Some(before) if page.entries.get(before).is_none_or(|entry| !is_same(entry)) => {
                let same = entries.enumerate().filter(|(_, entry)| is_same(entry));
                let nearest = same.min_by_key(|(index, _)| index.abs_diff(before));
                nearest.map_or(self.index, |(index, _)| index + 1)
            }
            Some(_) => self.index,
        }
    }

    /// The offset. The page counts from 1, because offsets of `.` and `..` come first.
    fn offset(self) -> u64 {
        let page = (self.page as u64 + 1) << (INDEX_BITS + NAME_BITS);
        page | (self.index as u64) << NAME_BITS | self.name
    }

    fn of_offset(offset: u64) -> Result<Self, FsError> {
        let invalid = FsError::InvalidArgument("no entry of this directory has this offset");
        if offset <= OFFSET_BEHIND_DOTS {
            return Ok(Self::page(0));
        }
        let page = (offset >> (INDEX_BITS + NAME_BITS))
            .checked_sub(1)
            .and_then(|page| usize::try_from(page).ok());
        let index = usize::try_from(offset >> NAME_BITS & ((1 << INDEX_BITS) - 1)).ok();
        let name = offset & ((1 << NAME_BITS) - 1);
        match (page, index) {
            (Some(page), Some(index)) => Ok(Self { page, index, name }),
            _ => Err(invalid),
        }
    }
}

/// A hash of a few bits, which two names of a page rarely share.
fn name_bits(name: &str) -> u64 {
    // FNV-1a.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ hash >> 32) & ((1 << NAME_BITS) - 1)
}

/// Bits of an offset that hold the entry's index on its page; see `LIST_PAGE_ENTRIES_MAX`.
const INDEX_BITS: u32 = 20;

/// Bits of an offset that hold the name's hash.
///
/// The rest, without the sign, suffices for 8 billion names.
const NAME_BITS: u32 = 20;

const OFFSET_BEHIND_DOTS: u64 = 2;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::limits::LIST_PAGE_ENTRIES_MAX;
    use crate::namespace::Found;

    #[test]
    fn every_position_has_its_own_offset() {
        let mut last = OFFSET_BEHIND_DOTS;
        for page in [0, 1, 2, 1 << 22] {
            for index in [1, 2, 999, 1000, LIST_PAGE_ENTRIES_MAX] {
                let name = name_bits(&format!("{index}"));
                let position = Position { page, index, name };
                assert!(position.offset() > last);
                assert_eq!(Position::of_offset(position.offset()).unwrap(), position);
                last = position.offset();
            }
        }
        assert!(i64::try_from(last).is_ok());
    }

    #[test]
    fn offsets_that_were_never_handed_out() {
        for offset in [3, 1 << 19, 1 << 39] {
            assert!(matches!(
                Position::of_offset(offset),
                Err(FsError::InvalidArgument(_))
            ));
        }
        for offset in [1 << (INDEX_BITS + NAME_BITS), u64::MAX] {
            assert!(Position::of_offset(offset).is_ok());
        }
    }

    #[test]
    fn a_page_that_has_changed_is_continued_behind_the_same_name() {
        let page = |names: &[&str]| {
            let listed = |name: &&str| Listed {
                name: Arc::from(*name),
                found: Found::Directory,
                is_certain: true,
            };
            Page::some(names.iter().map(listed).collect(), Duration::ZERO)
        };
        let position = Position {
            page: 3,
            index: 2,
            name: name_bits("b"),
        };
        for (names, index) in [
            (&["a", "b", "c"][..], 2),
            (&["0", "1", "a", "b", "c"], 4),
            (&["b", "c"], 1),
            (&["b"], 1),
            (&[], 2),
            // The name is gone: only the index is left.
            (&["a", "c", "d"], 2),
        ] {
            assert_eq!(position.index_on(&page(names)), index, "{names:?}");
            assert_eq!(Position::page(3).index_on(&page(names)), 0);
        }
    }
}
