//! The inode numbers that new hard links show: that of the linked file, which programs compare.
//!
//! A link is an inode of its own. Its number is told with the next attributes that the kernel gets
//! of it; until then `stat` shows the file's, also where that is a borrowed one. A leaf.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::operation::InodeNo;
use crate::sync::Mutex;

/// The borrowed numbers of links of which the kernel has got no others.
#[derive(Debug, Default)]
pub(crate) struct LinkNumbers {
    borrowed: Mutex<HashMap<InodeNo, InodeNo>>,
    /// Their count: mounts without links need no lock.
    count: AtomicUsize,
}

impl LinkNumbers {
    /// The number that the new `link` to `file` shows from now on.
    pub(crate) fn linked(&self, file: InodeNo, link: InodeNo) -> InodeNo {
        let mut borrowed = self.borrowed.lock();
        let shown = borrowed.get(&file).copied().unwrap_or(file);
        if borrowed.len() >= LINK_NUMBERS_MAX {
            borrowed.clear();
        }
        borrowed.insert(link, shown);
        self.count.store(borrowed.len(), Ordering::Release);
        shown
    }

    /// Notes that the kernel gets attributes of `ino`, or forgets it.
    pub(crate) fn told(&self, ino: InodeNo) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut borrowed = self.borrowed.lock();
        borrowed.remove(&ino);
        self.count.store(borrowed.len(), Ordering::Release);
    }
}

/// Links that are remembered at a time: 1 MiB. Beyond them only the link of a link that was made
/// within the same second shows another number than that one.
const LINK_NUMBERS_MAX: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_shows_what_its_file_shows_until_it_is_told() {
        let numbers = LinkNumbers::default();
        let [file, link, second, third] = [1, 2, 3, 4].map(InodeNo);
        assert_eq!(numbers.linked(file, link), file);
        assert_eq!(numbers.linked(link, second), file);
        numbers.told(link);
        assert_eq!(numbers.linked(link, third), link);
        assert_eq!(numbers.linked(second, InodeNo(5)), file);
    }

    #[test]
    fn memory_is_bounded() {
        let numbers = LinkNumbers::default();
        for link in 0..3 * LINK_NUMBERS_MAX as u64 {
            numbers.linked(InodeNo(1), InodeNo(link + 2));
            assert!(numbers.borrowed.lock().len() <= LINK_NUMBERS_MAX);
        }
    }
}
