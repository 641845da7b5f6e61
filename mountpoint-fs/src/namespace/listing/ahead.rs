//! The bound of the pages that all listings of a mount hold ahead of their readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::key_ranges::LIST_AHEAD_PAGES_MAX;

/// Number of pages that all listings of a mount may hold ahead of their readers.
#[derive(Clone, Debug, Default)]
pub struct AheadBudget(Arc<AtomicUsize>);

/// One listing's part of an [`AheadBudget`].
#[derive(Debug)]
pub(super) struct AheadShare {
    mount: AheadBudget,
    pages: usize,
}

impl AheadBudget {
    /// The part of a listing, which has no page yet.
    pub(super) fn share(&self) -> AheadShare {
        AheadShare {
            mount: self.clone(),
            pages: 0,
        }
    }

    /// Pages that are held ahead or in flight now.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl AheadShare {
    /// Counts the listing's pages anew.
    pub(super) fn set(&mut self, pages: usize) {
        self.mount.0.fetch_add(pages, Ordering::Relaxed);
        self.mount.0.fetch_sub(self.pages, Ordering::Relaxed);
        self.pages = pages;
    }

    /// Whether the listing may request a page that no reader waits for.
    pub(super) fn has_room(&self) -> bool {
        self.mount.pages() < LIST_AHEAD_MOUNT_MAX
    }
}

impl Drop for AheadShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Pages of all listings of a mount ahead of their readers, about 40 MB.
///
/// Where that is too few, each listing fetches only the page that its reader waits for.
const LIST_AHEAD_MOUNT_MAX: usize = 4 * LIST_AHEAD_PAGES_MAX;
