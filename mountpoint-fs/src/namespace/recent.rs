//! Pages of listings that still answer lookups.
//!
//! `find` and `du` read a directory to its end and look at the entries afterwards. What they were just told of a name
//! is valid for a while, whether the kernel kept it or not. Only presence is answered: a name that is on no page may
//! have been created since. `open` never trusts a page.
//!
//! Knows nothing of inodes' contents; bounded by [`RECENT_PAGES_MAX`].

use std::collections::VecDeque;
use std::sync::Arc;

use super::inode::Moment;
use super::page::{Listed, Page};
use crate::config::limits::RECENT_PAGES_MAX;
use crate::operation::InodeNo;
use crate::sync::Mutex;

/// The pages, oldest first. The lock guards the list alone and no other is taken under it.
#[derive(Debug, Default)]
pub(super) struct RecentPages(Mutex<VecDeque<Recent>>);

#[derive(Debug)]
struct Recent {
    directory: InodeNo,
    page: Arc<Page>,
    valid_until: Moment,
}

/// A name on a page.
#[derive(Debug)]
pub(super) struct RecentEntry {
    pub(super) listed: Listed,
    pub(super) asked: Moment,
    pub(super) valid_until: Moment,
}

impl RecentPages {
    /// Entries of `page` were handed to the kernel and are valid for a while.
    pub(super) fn delivered(
        &self,
        directory: InodeNo,
        page: &Arc<Page>,
        now: Moment,
        valid_until: Moment,
    ) {
        let mut pages = self.0.lock();
        pages.retain(|recent| recent.valid_until > now && !Arc::ptr_eq(&recent.page, page));
        if pages.len() == RECENT_PAGES_MAX {
            pages.pop_front();
        }
        pages.push_back(Recent {
            directory,
            page: Arc::clone(page),
            valid_until,
        });
    }

    /// What `name` was last said to be, if that is still valid and certain.
    pub(super) fn find(&self, directory: InodeNo, name: &str, now: Moment) -> Option<RecentEntry> {
        let pages = self.0.lock();
        let mut pages = pages
            .iter()
            .rev()
            .filter(|recent| recent.directory == directory && recent.valid_until > now);
        let (recent, listed) = pages.find_map(|recent| Some((recent, recent.page.find(name)?)))?;
        listed.is_certain.then(|| RecentEntry {
            listed: listed.clone(),
            asked: recent.page.asked.into(),
            valid_until: recent.valid_until,
        })
    }

    /// `name` was seen to be something else: no page that has it is right any more.
    pub(super) fn distrust(&self, directory: InodeNo, name: &str) {
        self.0
            .lock()
            .retain(|recent| recent.directory != directory || recent.page.find(name).is_none());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::namespace::Found;

    const D: InodeNo = InodeNo(7);

    fn page(names: &[&str]) -> Arc<Page> {
        let listed = |name: &&str| Listed {
            name: Arc::from(*name),
            found: Found::Directory,
            is_certain: *name != "u",
        };
        Arc::new(Page {
            entries: names.iter().map(listed).collect(),
            asked: Duration::ZERO,
        })
    }

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds).into()
    }

    #[test]
    fn answers_what_is_there_and_valid() {
        let recent = RecentPages::default();
        recent.delivered(D, &page(&["a", "b", "u"]), at(0), at(1));
        assert_eq!(recent.find(D, "a", at(0)).unwrap().valid_until, at(1));
        assert!(recent.find(D, "c", at(0)).is_none());
        assert!(recent.find(D, "u", at(0)).is_none(), "not certain");
        assert!(recent.find(D, "a", at(1)).is_none(), "too old");
        assert!(
            recent.find(InodeNo(8), "a", at(0)).is_none(),
            "another directory"
        );
    }

    #[test]
    fn delivering_again_makes_it_valid_again_and_distrust_ends_it() {
        let recent = RecentPages::default();
        let (first, second) = (page(&["a", "b"]), page(&["a", "c"]));
        recent.delivered(D, &first, at(0), at(1));
        recent.delivered(D, &first, at(1), at(2));
        recent.delivered(D, &second, at(1), at(2));
        assert!(recent.find(D, "b", at(1)).is_some());
        recent.distrust(D, "a");
        assert!(recent.find(D, "b", at(1)).is_none());
        assert!(recent.find(D, "c", at(1)).is_none());
    }

    #[test]
    fn is_bounded() {
        let recent = RecentPages::default();
        for number in 0..2 * RECENT_PAGES_MAX {
            recent.delivered(D, &page(&[&format!("{number}")]), at(0), at(1));
        }
        assert_eq!(recent.0.lock().len(), RECENT_PAGES_MAX);
        recent.delivered(D, &page(&["x"]), at(5), at(6));
        assert_eq!(recent.0.lock().len(), 1, "expired ones are dropped");
    }
}
